// SPDX-License-Identifier: BSD-3-Clause
#include "change_vips.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config_host.h"

#define NAMED 2u // maximum number of VIPs that a warning names

struct vips { // VIPs that the health checks of a service cover
	struct weir_address *list;
	uint32_t count;
};

static bool has(const struct vips *vips, const struct weir_address *address) {
	bool found = false;

	for (uint32_t i = 0; i < vips->count && !found; i++) {
		found = weir_address_equal(&vips->list[i], address);
	}
	return found;
}

struct kinds { // the protocols and ports of the checks via the data path so far, as bits
	uint64_t tcp[(UINT16_MAX + 1) / 64], udp[(UINT16_MAX + 1) / 64];
};

// Returns whether this is the first check with its protocol and port. Further checks with the same
// protocol and port cover the same VIPs.
static bool is_first(struct kinds *kinds, const struct weir_config_health_check *check) {
	uint64_t *seen =
		weir_config_check_protocol(check->type) == IPPROTO_UDP ? kinds->udp : kinds->tcp;
	const uint64_t bit = 1ull << check->port % 64;
	const bool first = (seen[check->port / 64] & bit) == 0;

	seen[check->port / 64] |= bit;
	return first;
}

// Lists the VIPs that the health checks of a service cover. The caller frees the list. Returns 0 or
// -ENOMEM.
static int list_vips(const struct weir_config_service *service, struct vips *ret) {
	struct weir_address *checked = calloc(service->bind_count + 1, sizeof(*checked));
	struct weir_config_checks at = {.service = service};
	struct kinds kinds = {{0}, {0}};

	*ret = (struct vips){.list = calloc(service->bind_count + 1, sizeof(*ret->list))};
	if (checked == NULL || ret->list == NULL) {
		free(checked);
		free(ret->list);
		*ret = (struct vips){0};
		return -ENOMEM;
	}
	while (service->bind_count > 0 && weir_config_next_check(&at)) {
		const uint32_t count =
			at.check->type != WEIR_CHECK_NONE && at.check->via == WEIR_VIA_DATA_PATH &&
					is_first(&kinds, at.check)
				? weir_config_checked_vips(service, at.check, checked)
				: 0;

		for (uint32_t i = 0; i < count; i++) {
			if (!has(ret, &checked[i])) {
				ret->list[ret->count++] = checked[i];
			}
		}
	}
	free(checked);
	return 0;
}

// Writes the VIPs that are in `to` but not in `from` as text. Returns the number of these VIPs.
static uint32_t name_new(
	const struct vips *from, const struct vips *to, char *text, size_t text_bytes) {
	char address[INET6_ADDRSTRLEN];
	uint32_t count = 0;
	size_t used = 0;

	for (uint32_t i = 0; i < to->count; i++) {
		if (!has(from, &to->list[i]) && count++ < NAMED) {
			used += (size_t)snprintf(text + used, text_bytes - used, "%s%s",
				used > 0 ? ", " : "",
				weir_address_format(&to->list[i], address, sizeof(address)));
		}
	}
	if (count > NAMED) {
		snprintf(text + used, text_bytes - used, " and %u more VIPs", count - NAMED);
	}
	return count;
}

static int warn(const struct weir_config *to, uint32_t service, const struct vips *from_vips,
	const struct vips *to_vips, struct weir_config_errors *errors) {
	const bool resets = to->services[service].on_backend_down == WEIR_ON_BACKEND_DOWN_RESET;
	struct weir_config_error warning = {.line = to->services[service].line};
	char named[NAMED * INET6_ADDRSTRLEN + 32];
	const uint32_t count = name_new(from_vips, to_vips, named, sizeof(named));

	if (count == 0) {
		return 0;
	}
	snprintf(warning.path, sizeof(warning.path), "services[%u].binds", service);
	snprintf(warning.reason, sizeof(warning.reason),
		"checks via the data path will cover %s%s: a backend without %s fails its checks "
		"for all VIPs of the service%s; see weirctl doctor",
		named, from_vips->count > 0 ? ", too" : "",
		count > 1 ? "these addresses" : "this address",
		resets ? ", and its flows are reset" : "");
	return weir_config_add_warning(errors, &warning);
}

// Returns the service with this name in the previous configuration, or NULL. place: index of the
// service in the new configuration. This index is tried first, because most services keep their
// index.
static const struct weir_config_service *find_former(
	const struct weir_config *from, uint32_t place, const char *name) {
	return place < from->service_count && strcmp(from->services[place].name, name) == 0
		       ? &from->services[place]
		       : weir_config_find_service(from, name);
}

int weir_change_vips_warn(const struct weir_config *from, const struct weir_config *to,
	struct weir_config_errors *errors) {
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < to->service_count; i++) {
		const struct weir_config_service *former = NULL;
		struct vips before = {0}, after;

		r = list_vips(&to->services[i], &after);
		if (after.count > 0) {
			former = find_former(from, i, to->services[i].name);
		}
		if (former != NULL) {
			r = list_vips(former, &before);
			r = r == 0 ? warn(to, i, &before, &after, errors) : r;
		}
		free(before.list);
		free(after.list);
	}
	return r;
}
