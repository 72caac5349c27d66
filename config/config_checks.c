// SPDX-License-Identifier: BSD-3-Clause
//
// The health checks of a service: the check of the service, and the own checks of its backends.
#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>

#include "config.h"

const struct weir_config_health_check *weir_config_check_of(
	const struct weir_config_service *service, const struct weir_config_backend *backend) {
	return backend->health_check != NULL ? backend->health_check : &service->health_check;
}

bool weir_config_next_check(struct weir_config_checks *at) {
	if (at->check == NULL) {
		at->check = &at->service->health_check;
		return true;
	}
	while (at->next < at->service->backend_count) {
		at->backend = &at->service->backends[at->next++];
		if (at->backend->health_check != NULL) {
			at->check = at->backend->health_check;
			return true;
		}
	}
	return false;
}

int weir_config_check_path(const struct weir_config *config, const struct weir_config_checks *at,
	const char *key, char *path, size_t bytes) {
	const uint32_t service = (uint32_t)(at->service - config->services);

	if (at->backend == NULL) {
		snprintf(path, bytes, "services[%" PRIu32 "].health_check%s", service, key);
		return at->service->line;
	}
	snprintf(path, bytes, "services[%" PRIu32 "].backends[%" PRIu32 "].health_check%s", service,
		(uint32_t)(at->backend - at->service->backends), key);
	return at->backend->line;
}

uint8_t weir_config_check_protocol(enum weir_config_check check) {
	return check == WEIR_CHECK_UDP || check == WEIR_CHECK_DNS ? IPPROTO_UDP : IPPROTO_TCP;
}

const struct weir_config_bind *weir_config_checked_bind(
	const struct weir_config_service *service, const struct weir_config_health_check *check) {
	const uint8_t protocol = weir_config_check_protocol(check->type);

	if (check->via == WEIR_VIA_DATA_PATH || protocol == IPPROTO_UDP) {
		for (uint32_t i = 0; i < service->bind_count; i++) {
			if (service->binds[i].protocol == protocol) {
				return &service->binds[i];
			}
		}
	}
	return &service->binds[0];
}

uint32_t weir_config_checked_vips(const struct weir_config_service *service,
	const struct weir_config_health_check *check, struct weir_address *ret) {
	const struct weir_config_bind *first = weir_config_checked_bind(service, check);
	const uint16_t port = check->port != 0 ? check->port : first->port_first;
	uint32_t count = 0;

	ret[count++] = first->address;
	for (uint32_t i = 0; i < service->bind_count; i++) {
		const struct weir_config_bind *bind = &service->binds[i];
		bool wanted = bind->protocol == first->protocol && bind->port_first <= port &&
			      port <= bind->port_last;

		for (uint32_t k = 0; wanted && k < count; k++) {
			wanted = !weir_address_equal(&ret[k], &bind->address);
		}
		if (wanted) {
			ret[count++] = bind->address;
		}
	}
	return count;
}
