// SPDX-License-Identifier: BSD-3-Clause
#include "named_services.h"

#include <ctype.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PORT_TEXT_BYTES 12

bool weir_service_name_is_valid(const char *name, size_t bytes) {
	if (bytes == 0 || bytes >= WEIR_SERVICE_NAME_BYTES || name[0] == '.' || name[0] == '-') {
		return false;
	}
	for (size_t i = 0; i < bytes; i++) {
		if (!isalnum((unsigned char)name[i]) && strchr("-_.", name[i]) == NULL) {
			return false;
		}
	}
	return memchr(name, '\0', bytes) == NULL;
}

int weir_service_port_parse(const char *text, size_t bytes, struct weir_service_port *ret) {
	char copy[PORT_TEXT_BYTES], *end;
	unsigned long port;

	if (bytes >= sizeof(copy) || text[0] < '0' || text[0] > '9') {
		return -EINVAL;
	}
	memcpy(copy, text, bytes);
	copy[bytes] = '\0';
	port = strtoul(copy, &end, 10);
	if (port == 0 || port > UINT16_MAX) {
		return -EINVAL;
	}
	if (*end != '\0' && strcmp(end, "/tcp") != 0 && strcmp(end, "/udp") != 0) {
		return -EINVAL;
	}
	*ret = (struct weir_service_port){.port = (uint16_t)port,
		.protocol = strcmp(end, "/udp") == 0 ? IPPROTO_UDP : IPPROTO_TCP};
	return 0;
}

static struct weir_named_service *find(
	struct weir_named_services *services, const char *name, size_t bytes) {
	for (uint32_t i = 0; i < services->count; i++) {
		if (strlen(services->service[i].name) == bytes &&
			memcmp(services->service[i].name, name, bytes) == 0) {
			return &services->service[i];
		}
	}
	return NULL;
}

// Returns the service that has this port, or NULL.
static const struct weir_named_service *find_port(
	const struct weir_named_services *services, const struct weir_service_port *port) {
	for (uint32_t i = 0; i < services->count; i++) {
		for (uint32_t j = 0; j < services->service[i].port_count; j++) {
			if (services->service[i].port[j].port == port->port &&
				services->service[i].port[j].protocol == port->protocol) {
				return &services->service[i];
			}
		}
	}
	return NULL;
}

static uint32_t count_ports(const struct weir_named_services *services) {
	uint32_t count = 0;

	for (uint32_t i = 0; i < services->count; i++) {
		count += services->service[i].port_count;
	}
	return count;
}

// Add the ports to the last service. list: "80,443,53/udp".
static int add_ports(
	struct weir_named_services *services, const char *list, char *why, size_t why_bytes) {
	struct weir_named_service *service = &services->service[services->count - 1];
	const struct weir_named_service *other;
	struct weir_service_port port;

	for (;; list++) {
		size_t bytes = strcspn(list, ",");

		if (weir_service_port_parse(list, bytes, &port)) {
			snprintf(why, why_bytes,
				"has no valid list of ports; use NAME=PORTS, such as web=80,443 or "
				"dns=53,53/udp");
			return -EINVAL;
		}
		other = find_port(services, &port);
		if (other != NULL) {
			snprintf(why, why_bytes,
				"has port %u, which is already a port of service %s; use each "
				"port once",
				port.port, other->name);
			return -EINVAL;
		}
		if (count_ports(services) == WEIR_PORT_WORDS_MOST) {
			snprintf(why, why_bytes,
				"has too many ports; use at most %d in all services together",
				WEIR_PORT_WORDS_MOST);
			return -EINVAL;
		}
		service->port[service->port_count++] = port;
		list += bytes;
		if (*list == '\0') {
			return 0;
		}
	}
}

int weir_named_services_add(
	struct weir_named_services *services, const char *value, char *why, size_t why_bytes) {
	size_t bytes = strcspn(value, "=");
	struct weir_named_service *service;
	int r;

	if (value[bytes] == '\0' || !weir_service_name_is_valid(value, bytes)) {
		snprintf(why, why_bytes,
			"is not a service; use NAME=PORTS, such as web=80,443 or dns=53/udp");
		return -EINVAL;
	}
	if (find(services, value, bytes) != NULL) {
		snprintf(why, why_bytes, "is a second service with this name; use each name once");
		return -EINVAL;
	}
	if (services->count == WEIR_NAMED_SERVICES_MAX) {
		snprintf(why, why_bytes, "does not fit into the service list; use at most %d",
			WEIR_NAMED_SERVICES_MAX);
		return -EINVAL;
	}
	service = &services->service[services->count++];
	*service = (struct weir_named_service){0};
	memcpy(service->name, value, bytes);
	r = add_ports(services, value + bytes + 1, why, why_bytes);
	if (r) {
		services->count--;
	}
	return r;
}

int weir_named_services_allow(
	struct weir_named_services *services, const char *value, char *why, size_t why_bytes) {
	size_t bytes = strcspn(value, "=");
	struct weir_named_service *service;

	if (bytes == 0 || bytes >= WEIR_SERVICE_USER_BYTES || value[bytes] == '\0') {
		snprintf(why, why_bytes,
			"does not name a user and a service; use USER=NAME, such as nginx=web");
		return -EINVAL;
	}
	service = find(services, value + bytes + 1, strlen(value + bytes + 1));
	if (service == NULL) {
		snprintf(why, why_bytes,
			"names an unknown service; add the service with --service NAME=PORT");
		return -EINVAL;
	}
	if (service->user[0] != '\0') {
		snprintf(why, why_bytes, "is a second user of service %s; use one user",
			service->name);
		return -EINVAL;
	}
	memcpy(service->user, value, bytes);
	service->user[bytes] = '\0';
	return 0;
}
