// SPDX-License-Identifier: BSD-3-Clause
//
// The health checks of a service: the check of the service, and the own checks of its backends.
#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "config_keys.h"

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

// Checks that a check without a port can use the port of a bind. place: the object that has the
// check as its member "health_check".
static void check_port(struct weir_json_reader *reader, const struct weir_json_place *place,
	const struct weir_config_service *service, const struct weir_config_health_check *check) {
	const bool data_path = check->via == WEIR_VIA_DATA_PATH;
	const uint8_t protocol = weir_config_check_protocol(check->type);
	const char *name = protocol == IPPROTO_UDP ? "udp" : "tcp";
	const struct weir_config_bind *bind;

	if (check->type == WEIR_CHECK_NONE || check->type == WEIR_CHECK_AGENT ||
		check->type == WEIR_CHECK_PING || check->type == WEIR_CHECK_EXEC ||
		check->port != 0 || service->bind_count == 0) {
		return;
	}
	bind = weir_config_checked_bind(service, check);
	if (bind->protocol != protocol && (data_path || protocol == IPPROTO_UDP)) {
		weir_json_error_at(reader, place, "health_check",
			"has no port, and no bind has protocol \"%s\"; add \"port\"", name);
	} else if (bind->port_first == 0 && bind->port_last == UINT16_MAX) {
		const bool named = data_path || protocol == IPPROTO_UDP;

		weir_json_error_at(reader, place, "health_check",
			"has no port, and the first bind%s%s%s covers every port; add \"port\"",
			named ? " of protocol \"" : "", named ? name : "", named ? "\"" : "");
	}
}

// Groups of keys of which a check uses at most one, separated by NULL.
static const char *const exclusive[] = {"body", "body_regex", "body_sha256", "body_md5", NULL,
	"send", "send_hex", NULL, "expect", "expect_hex", NULL};

// Returns whether the check has this key, or another key of its group.
static bool has_group(const struct weir_json_keys_read *read, const char *key) {
	bool member = false, present = false;

	for (size_t i = 0; i < sizeof(exclusive) / sizeof(exclusive[0]); i++) {
		if (exclusive[i] == NULL && member) {
			return present;
		}
		if (exclusive[i] == NULL) {
			present = false;
			continue;
		}
		member |= strcmp(exclusive[i], key) == 0;
		present |= weir_json_present(read, exclusive[i]);
	}
	return weir_json_present(read, key);
}

// Copies the values that the backend's own check lacks from the check of the service.
static void inherit(struct weir_config_health_check *own,
	const struct weir_config_health_check *service, const struct weir_json_keys_read *read) {
	for (uint32_t i = 0; i < weir_config_health_keys.count; i++) {
		const struct weir_json_key *key = &weir_config_health_keys.key[i];

		if (key->bytes > 0 && !has_group(read, key->key)) {
			memcpy((char *)own + key->offset, (const char *)service + key->offset,
				key->bytes);
			memcpy((char *)own + key->offset2, (const char *)service + key->offset2,
				key->type->bytes2);
			own->given |= service->given & 1ull << i;
		}
	}
}

void weir_config_check_service_health(struct weir_json_reader *reader,
	const struct weir_json_place *place, const struct weir_config_service *service,
	const struct weir_json_keys_read *read) {
	const struct weir_json_place backends = weir_json_place_member(place, "backends");

	check_port(reader, place, service, &service->health_check);
	if (!weir_json_valid(read, "health_check") || !weir_json_valid(read, "backends")) {
		return;
	}
	for (uint32_t i = 0; i < service->backend_count; i++) {
		const struct weir_json_place backend = weir_json_place_element(&backends, i);
		const struct weir_json_place at = weir_json_place_member(&backend, "health_check");
		struct weir_config_health_check *own = service->backends[i].health_check;

		if (own != NULL) {
			const struct weir_json_keys_read read_keys = {
				.object = &weir_config_health_keys,
				.present = own->given,
				.valid = UINT64_MAX};

			if (own->type == service->health_check.type) {
				inherit(own, &service->health_check, &read_keys);
			}
			weir_config_check_health(reader, &at, own, &read_keys);
			check_port(reader, &backend, service, own);
		}
	}
}

void weir_config_describe_health(const void *check, char *text, size_t bytes) {
	const uint64_t given = ((const struct weir_config_health_check *)check)->given;
	size_t used = 0;

	text[0] = '\0';
	for (uint32_t i = 0; i < weir_config_health_keys.count && used < bytes; i++) {
		const struct weir_json_key *key = &weir_config_health_keys.key[i];

		if ((given & 1ull << i) != 0 && key->type->format != NULL) {
			used += (size_t)snprintf(
				text + used, bytes - used, "%s%s ", used > 0 ? ", " : "", key->key);
		}
		if ((given & 1ull << i) != 0 && key->type->format != NULL && used < bytes) {
			key->type->format(key, check, text + used, bytes - used);
			used += strlen(text + used);
		}
	}
}
