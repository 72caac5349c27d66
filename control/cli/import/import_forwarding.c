// SPDX-License-Identifier: BSD-3-Clause
#include "import_forwarding.h"

#include <stdlib.h>
#include <string.h>

// While a service is read, each of its backends has the keys "forwarding" and, with GUE,
// "gue_port".
#define MODE "forwarding"
#define GUE_PORT "gue_port"
#define PORTS 65536u

static enum weir_forwarding_mode mode_of(const json_t *backend) {
	const char *name = json_string_value(json_object_get(backend, MODE));
	enum weir_forwarding_mode mode = 0;

	while (mode < WEIR_FORWARDING_COUNT && name != NULL &&
		strcmp(name, weir_forwarding_name(mode)) != 0) {
		mode++;
	}
	return mode;
}

static uint16_t port_of(const json_t *backend) {
	return (uint16_t)json_integer_value(json_object_get(backend, GUE_PORT));
}

void weir_import_forwarding_note(struct weir_import *import, struct weir_import_service *service,
	const struct weir_import_place *place, const struct weir_import_forwarding *forwarding) {
	if (forwarding->nat && !service->nat_noted) {
		service->nat_noted = true;
		weir_import_note(import, place, WEIR_IMPORT_ADJUST, "NAT",
			"Weir does not translate addresses (DSR): each server needs the VIP on a "
			"loopback interface, decapsulation (docs/guide/backends.md), and a route "
			"to the clients");
	} else if (forwarding->mode == WEIR_FORWARDING_L2 && !service->direct_noted) {
		service->direct_noted = true;
		weir_import_note(import, place, WEIR_IMPORT_ADJUST, "direct routing",
			"with forwarding l2, the interface of a port must be on the link of the "
			"servers; the servers keep arp_ignore, arp_announce and the VIP on a "
			"loopback interface");
	}
}

void weir_import_forwarding_set(json_t *backend, const struct weir_import_forwarding *forwarding) {
	json_object_set_new(backend, MODE, json_string(weir_forwarding_name(forwarding->mode)));
	if (forwarding->mode == WEIR_FORWARDING_GUE) {
		json_object_set_new(backend, GUE_PORT, json_integer(forwarding->gue_port));
	}
}

bool weir_import_forwarding_equal(
	const json_t *backend, const struct weir_import_forwarding *forwarding) {
	return mode_of(backend) == forwarding->mode &&
	       (forwarding->mode != WEIR_FORWARDING_GUE ||
		       port_of(backend) == forwarding->gue_port);
}

// Find the most frequent mode and the most frequent GUE port. If several are equally frequent, find
// the first of them.
static void find_most(
	const json_t *backends, uint32_t *per_port, struct weir_import_forwarding *ret) {
	uint32_t per_mode[WEIR_FORWARDING_COUNT + 1] = {0};
	const json_t *backend;
	size_t i;

	json_array_foreach (backends, i, backend) {
		per_mode[mode_of(backend)]++;
		per_port[port_of(backend)]++;
	}
	*ret = (struct weir_import_forwarding){
		.mode = (uint8_t)mode_of(json_array_get(backends, 0))};
	per_port[0] = 0; // backends with another mode were counted as port 0
	json_array_foreach (backends, i, backend) {
		enum weir_forwarding_mode mode = mode_of(backend);
		uint16_t port = port_of(backend);

		ret->mode = per_mode[mode] > per_mode[ret->mode] ? (uint8_t)mode : ret->mode;
		ret->gue_port = per_port[port] > per_port[ret->gue_port] ? port : ret->gue_port;
	}
}

static void note_port(
	struct weir_import *import, const json_t *place, const json_t *backend, uint16_t gue_port) {
	const char *address = json_string_value(json_object_get(backend, "address"));
	const struct weir_import_place at = {
		.file = json_string_value(json_object_get(place, "file")),
		.line = (int)json_integer_value(json_object_get(place, "line"))};

	weir_import_note(import, &at, WEIR_IMPORT_ADJUST, address,
		"the server receives GUE on port %u, but a service has one gue_port for all "
		"servers, %u: make the server also receive on port %u (ip %sfou add port %u gue)",
		port_of(backend), gue_port, gue_port, strchr(address, ':') != NULL ? "-6 " : "",
		gue_port);
}

void weir_import_forwarding_choose(struct weir_import *import, struct weir_import_service *service,
	struct weir_import_forwarding *ret) {
	const json_t *places = json_object_get(service->places, "backends");
	uint32_t *per_port = calloc(PORTS, sizeof(*per_port));
	json_t *backend;
	size_t i;

	*ret = (struct weir_import_forwarding){0};
	if (per_port == NULL) {
		import->failed = true;
		return;
	}
	find_most(service->backends, per_port, ret);
	free(per_port);
	json_array_foreach (service->backends, i, backend) {
		if (mode_of(backend) == WEIR_FORWARDING_GUE && port_of(backend) != ret->gue_port) {
			note_port(import, json_array_get(places, i), backend, ret->gue_port);
		}
		if (mode_of(backend) == ret->mode) {
			json_object_del(backend, MODE);
		}
		json_object_del(backend, GUE_PORT);
	}
}
