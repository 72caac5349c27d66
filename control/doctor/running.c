// SPDX-License-Identifier: BSD-3-Clause
#include "running.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AGENT_PORT 4777 // any port except 0 means that the service uses agents

static const char *text_of(const json_t *row, const char *key) {
	const char *text = json_string_value(json_object_get(row, key));

	return text != NULL ? text : "";
}

// Parse the address of a bind in a reply, such as "tcp 198.51.100.10:80" or "tcp
// [2001:db8::10]:80". Returns 0 or -EINVAL.
static int parse_bind(const char *text, struct weir_address *ret) {
	char address[INET6_ADDRSTRLEN];

	text += strcspn(text, " ");
	text += strspn(text, " [");
	snprintf(address, sizeof(address), "%.*s",
		(int)(strchr(text, ']') != NULL ? strcspn(text, "]") : strcspn(text, ":")), text);
	return weir_address_parse(address, ret);
}

static int take_binds(struct weir_config_service *service, const json_t *binds) {
	const json_t *bind;
	size_t i;

	service->binds = calloc(json_array_size(binds) + 1, sizeof(*service->binds));
	if (service->binds == NULL) {
		return -ENOMEM;
	}
	json_array_foreach (binds, i, bind) {
		const char *text = json_string_value(bind);

		if (text != NULL &&
			parse_bind(text, &service->binds[service->bind_count].address) == 0) {
			service->bind_count++;
		}
	}
	return 0;
}

// Finds the service of the backend in a row of "backend.show". *at: index of the service of the
// previous row, where the search starts, because the rows are in the order of the services. Returns
// NULL if the backend has been removed from the configuration, or if its service is not in config.
static struct weir_config_service *find_service(
	const struct weir_config *config, const json_t *row, uint32_t *at) {
	if (json_is_true(json_object_get(row, "leaving"))) {
		return NULL;
	}
	for (uint32_t i = 0; i < config->service_count; i++) {
		const uint32_t k = (*at + i) % config->service_count;

		if (strcmp(config->services[k].name, text_of(row, "service")) == 0) {
			*at = k;
			return &config->services[k];
		}
	}
	return NULL;
}

// Sets how packets are forwarded to a backend. The port and the key are settings of the service.
static void take_forwarding(struct weir_config_service *service,
	struct weir_config_backend *backend, const json_t *row) {
	const json_t *port = json_object_get(row, "gue_port");
	const json_t *key = json_object_get(row, "gre_key");

	for (enum weir_forwarding_mode mode = 0; mode < WEIR_FORWARDING_COUNT; mode++) {
		if (strcmp(text_of(row, "forwarding"), weir_forwarding_name(mode)) == 0) {
			backend->forwarding_mode = (uint8_t)(mode + 1);
		}
	}
	if (json_is_integer(port)) {
		service->forwarding.gue_port = (uint16_t)json_integer_value(port);
	}
	if (json_is_integer(key)) {
		service->forwarding.gre_key = (uint32_t)json_integer_value(key);
	}
}

static void take_backend(struct weir_config_service *service, const json_t *row) {
	struct weir_config_backend *backend = &service->backends[service->backend_count];

	if (weir_address_parse(text_of(row, "address"), &backend->address) == 0) {
		snprintf(backend->name, sizeof(backend->name), "%s", text_of(row, "name"));
		take_forwarding(service, backend, row);
		service->backend_count++;
		if (json_is_string(json_object_get(row, "agent"))) {
			service->agent.port = AGENT_PORT;
		}
	}
}

static int take_backends(struct weir_config *config, const json_t *rows) {
	struct weir_config_service *service;
	const json_t *row;
	uint32_t at = 0;
	size_t i;

	json_array_foreach (rows, i, row) {
		service = find_service(config, row, &at);
		if (service != NULL) {
			service->backend_count++;
		}
	}
	for (uint32_t k = 0; k < config->service_count; k++) {
		service = &config->services[k];
		service->backends = calloc(service->backend_count + 1u, sizeof(*service->backends));
		service->backend_count = 0;
		if (service->backends == NULL) {
			return -ENOMEM;
		}
	}
	json_array_foreach (rows, i, row) {
		service = find_service(config, row, &at);
		if (service != NULL) {
			take_backend(service, row);
		}
	}
	return 0;
}

int weir_doctor_running_services(
	struct weir_config *config, const json_t *services, const json_t *backends) {
	const json_t *row;
	size_t i;

	free(config->services);
	config->service_count = 0;
	config->services = calloc(json_array_size(services) + 1, sizeof(*config->services));
	if (config->services == NULL) {
		return -ENOMEM;
	}
	json_array_foreach (services, i, row) {
		struct weir_config_service *service = &config->services[config->service_count++];

		snprintf(service->name, sizeof(service->name), "%s", text_of(row, "name"));
		service->forwarding.gue_port = WEIR_GUE_PORT; // of a weir-control without this key
		if (take_binds(service, json_object_get(row, "binds")) < 0) {
			return -ENOMEM;
		}
	}
	return take_backends(config, backends);
}
