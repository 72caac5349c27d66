// SPDX-License-Identifier: BSD-3-Clause
//
// Imports a service: names, binds, backends, and the policy for its scheduler.
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "import_affinity.h"
#include "import_forwarding.h"
#include "policy_names.h"

#define NAME_BYTES 56 // maximum bytes of a name; leaves room for a number at its end
#define WHY_BYTES 256

struct scheduler {
	const char *name;
	const char *fields; // hash_fields of the policy maglev; NULL = the default
	const char *why; // how the policy differs from the scheduler; NULL = no difference
	bool equal; // ignores weights, but the policy uses them: all weights become equal
};

#define SOURCE "source"
#define BOTH "source-destination"
#define DESTINATION \
	"also hashes the client address: the clients of a VIP go to different servers, not all " \
	"to one server"

static const struct scheduler schedulers[] = {
	{"rr", NULL, NULL, false},
	{"wrr", NULL, NULL, false},
	{"lc", NULL, NULL, true},
	{"wlc", NULL, NULL, false},
	{"sed", NULL, "counts current connections, without adding the next connection", false},
	{"nq", NULL, "counts connections, but does not prefer an idle server", false},
	{"sh", SOURCE, NULL, false},
	{"mh", SOURCE, NULL, false},
	{"dh", BOTH, DESTINATION, false},
	{"lblc", BOTH, DESTINATION, false},
	{"lblcr", BOTH, DESTINATION, false},
	{"fo", NULL,
		"uses the servers with the highest weight; all others are backups, which are used "
		"together when no other server is healthy",
		false},
	{"ovf", NULL,
		"spreads flows over all servers instead of filling one server first; flow_control "
		"can limit the flows of a server",
		false},
	{"twos", NULL, "ignores weights, except 0", false},
};

static const struct scheduler *find_scheduler(const char *name) {
	for (size_t i = 0; i < sizeof(schedulers) / sizeof(schedulers[0]); i++) {
		if (strcmp(schedulers[i].name, name) == 0) {
			return &schedulers[i];
		}
	}
	return NULL;
}

const char *weir_import_scheduler_policy(const char *name) {
	const struct scheduler *scheduler = find_scheduler(name);

	return scheduler != NULL ? weir_config_policy_elsewhere(scheduler->name) : NULL;
}

// --- names --------------------------------------------------------------------------------

// Create a name that is not in `used` yet, and add the name to `used`. Returns 0, or -1 if out of
// memory.
static int take_name(json_t *used, const char *wanted, char ret[WEIR_CONFIG_NAME_BYTES]) {
	char base[NAME_BYTES];
	size_t bytes = 0;

	if (!isalnum((unsigned char)wanted[0])) {
		base[bytes++] = 's';
	}
	for (; *wanted != '\0' && bytes < sizeof(base) - 1; wanted++) {
		if (*wanted == '[' || *wanted == ']') {
			continue;
		}
		base[bytes++] = isalnum((unsigned char)*wanted) || strchr("._-", *wanted) != NULL
					? *wanted
					: '-';
	}
	base[bytes] = '\0';
	snprintf(ret, WEIR_CONFIG_NAME_BYTES, "%s", base);
	for (unsigned int i = 2; json_object_get(used, ret) != NULL; i++) {
		snprintf(ret, WEIR_CONFIG_NAME_BYTES, "%s-%u", base, i % 100000);
	}
	return json_object_set_new(used, ret, json_true());
}

// --- service ------------------------------------------------------------------------------

static void drop(struct weir_import_service *service) {
	json_decref(service->binds);
	json_decref(service->backends);
	json_decref(service->places);
	json_decref(service->notes);
	json_decref(service->keys);
	json_decref(service->by_address);
	json_decref(service->health_check);
	*service = (struct weir_import_service){.left_out = true};
}

int weir_import_service_begin(struct weir_import *import, struct weir_import_service *service,
	const struct weir_import_place *place, const char *name) {
	*service = (struct weir_import_service){.place = *place,
		.protocol = IPPROTO_TCP,
		.binds = json_array(),
		.backends = json_array(),
		.places = json_pack("{s:o, s:[], s:[]}", "place", weir_import_place_json(place),
			"binds", "backends"),
		.notes = json_array(),
		.keys = json_array(),
		.by_address = json_object()};
	snprintf(service->name, sizeof(service->name), "%s", name);
	if (service->binds == NULL || service->backends == NULL || service->places == NULL ||
		service->notes == NULL || service->keys == NULL || service->by_address == NULL) {
		drop(service);
		import->failed = true;
		return -ENOMEM;
	}
	weir_import_select(import, service);
	return 0;
}

void weir_import_select(struct weir_import *import, const struct weir_import_service *service) {
	import->sink = service != NULL ? service->notes : import->notes;
}

void weir_import_leave_out(struct weir_import *import, struct weir_import_service *service,
	const struct weir_import_place *place, const char *what, const char *format, ...) {
	char why[WHY_BYTES];
	va_list args;

	va_start(args, format);
	vsnprintf(why, sizeof(why), format, args);
	va_end(args);
	service->left_out = true;
	weir_import_note(
		import, place, WEIR_IMPORT_MISSING, what, "the service is not imported: %s", why);
}

static void add_bind(struct weir_import *import, struct weir_import_service *service,
	const struct weir_import_place *place, const struct weir_config_bind *bind) {
	const char *protocol = bind->protocol == IPPROTO_UDP ? "udp" : "tcp";
	char ip[INET6_ADDRSTRLEN];
	json_t *json;

	weir_address_format(&bind->address, ip, sizeof(ip));
	if (bind->port_first == 0 || bind->port_first == bind->port_last) {
		json = json_pack("{s:s, s:s, s:i}", "address", ip, "protocol", protocol, "port",
			(int)bind->port_first);
	} else {
		json = json_pack("{s:s, s:s, s:i, s:i}", "address", ip, "protocol", protocol,
			"port_first", (int)bind->port_first, "port_last", (int)bind->port_last);
	}
	if (json_array_append_new(service->binds, json) < 0 ||
		json_array_append_new(json_object_get(service->places, "binds"),
			weir_import_place_json(place)) < 0) {
		import->failed = true;
	}
	if (json_array_size(service->binds) == 1) {
		service->port = bind->port_first;
	}
}

void weir_import_bind(struct weir_import *import, struct weir_import_service *service,
	const struct weir_import_place *place, const struct weir_address *address,
	uint16_t port_first, uint16_t port_last) {
	struct weir_config_bind bind = {.address = *address,
		.protocol = service->protocol,
		.port_first = port_first,
		.port_last = port_first == 0 ? UINT16_MAX : port_last};
	char text[WEIR_BIND_TEXT_BYTES];
	const json_t *former;

	weir_bind_format(&bind, text, sizeof(text));
	former = json_object_get(import->binds, text);
	if (former != NULL) {
		weir_import_note(import, place, WEIR_IMPORT_LEFT_OUT, text,
			"duplicate of the address in line %" JSON_INTEGER_FORMAT,
			json_integer_value(former));
		service->taken_line = json_integer_value(former);
		return;
	}
	if (json_array_size(service->binds) >= WEIR_IMPORT_BINDS_MAX) {
		weir_import_note(import, place, WEIR_IMPORT_MISSING, text,
			"a service has at most %d addresses: move further addresses to another "
			"service",
			WEIR_IMPORT_BINDS_MAX);
		return;
	}
	if (json_object_set_new(import->binds, text, json_integer(place->line)) < 0 ||
		json_array_append_new(service->keys, json_string(text)) < 0) {
		import->failed = true;
	}
	add_bind(import, service, place, &bind);
}

// --- backends -----------------------------------------------------------------------------

static json_int_t weight_of(struct weir_import *import, const struct weir_import_place *place,
	const char *address, json_int_t weight) {
	if (weight <= UINT16_MAX) {
		return weight;
	}
	weir_import_note(import, place, WEIR_IMPORT_DIFFERS, address,
		"the weight is above the maximum, 65535: scale all weights of the service down");
	return UINT16_MAX;
}

static void note_limit(struct weir_import_service *service, uint32_t upper) {
	size_t before = json_array_size(service->backends) - service->backups - 1;

	service->uppers_differ |= before > 0 && upper != service->upper;
	service->upper = upper > service->upper ? upper : service->upper;
	service->uppers += upper > 0;
}

static void note_port(struct weir_import *import, const struct weir_import_service *service,
	const struct weir_import_place *place, const char *address,
	const struct weir_import_backend *backend) {
	if (backend->port == 0 || backend->port == service->port) {
		return;
	}
	if (backend->forwarding.nat) {
		weir_import_note(import, place, WEIR_IMPORT_ADJUST, address,
			"the server listens on port %u: Weir does not translate ports, so the "
			"server must listen on the port of the VIP",
			backend->port);
	} else {
		weir_import_note(import, place, WEIR_IMPORT_LEFT_OUT, address,
			"port %u has no effect, as in IPVS with direct routing and tunnels: "
			"packets arrive at the port of the VIP",
			backend->port);
	}
}

json_t *weir_import_backend(struct weir_import *import, struct weir_import_service *service,
	const struct weir_import_place *place, const struct weir_import_backend *backend) {
	char address[INET6_ADDRSTRLEN];
	json_int_t weight;
	json_t *former;

	weir_address_format(&backend->address, address, sizeof(address));
	weight = weight_of(import, place, address,
		!backend->backup      ? backend->weight
		: service->weight > 0 ? service->weight
				      : 1);
	note_port(import, service, place, address, backend);
	former = json_object_get(service->by_address, address);
	if (former != NULL && backend->backup) {
		weir_import_note(import, place, WEIR_IMPORT_LEFT_OUT, address,
			"the server is also a real server, so it cannot be a backup");
		return NULL;
	}
	if (former != NULL) { // in IPVS a server has one entry for each of its ports
		weight = weight_of(import, place, address,
			json_integer_value(json_object_get(former, "weight")) + weight);
		json_object_set_new(former, "weight", json_integer(weight));
		service->weight = service->weight > 0 ? service->weight : weight;
		service->weights_differ = true;
		weir_import_note(import, place, WEIR_IMPORT_DIFFERS, address,
			"duplicate server in a service: imported once, with the sum of the "
			"weights%s",
			weir_import_forwarding_equal(former, &backend->forwarding)
				? ""
				: " and the forwarding method of its first entry");
		return NULL;
	}
	weir_import_forwarding_note(import, service, place, &backend->forwarding);
	former =
		json_pack("{s:s, s:s, s:I}", "name", address, "address", address, "weight", weight);
	weir_import_forwarding_set(former, &backend->forwarding);
	if (json_object_set(service->by_address, address, former) < 0 ||
		json_array_append_new(service->backends, former) < 0 ||
		json_array_append_new(json_object_get(service->places, "backends"),
			weir_import_place_json(place)) < 0) {
		import->failed = true;
		return NULL;
	}
	if (backend->backup) {
		json_object_set_new(former, "backup", json_true());
		service->backups++;
		return former;
	}
	if (service->weight == 0) {
		service->weight = weight;
	}
	service->weights_differ |= weight != 0 && weight != service->weight;
	note_limit(service, backend->upper);
	return former;
}

// --- what differs -------------------------------------------------------------------------

void weir_import_checksum(struct weir_import *import, const struct weir_import_place *place,
	const char *what, enum weir_forwarding_mode mode, const char *option) {
	if (strcmp(option, "remcsum") == 0) {
		weir_import_note(import, place, WEIR_IMPORT_DIFFERS, what,
			"Weir does not use remote checksum offload: the servers need no change");
	} else if (strcmp(option, "csum") == 0 && mode == WEIR_FORWARDING_GRE) {
		weir_import_note(import, place, WEIR_IMPORT_ADJUST, what,
			"Weir sends GRE without checksums, and tunnel devices with a checksum drop "
			"such packets: remove csum or icsum from the devices of the servers");
	} else if (strcmp(option, "csum") == 0) {
		weir_import_note(import, place, WEIR_IMPORT_DIFFERS, what,
			"Weir sends GUE with UDP checksum 0, which the kernel accepts: the servers "
			"need no change");
	}
}

// Sets all weights except 0 to the weight of the first backend whose weight is not 0.
static void equalize(const struct weir_import_service *service) {
	json_t *backend;
	size_t i;

	json_array_foreach (service->backends, i, backend) {
		if (json_integer_value(json_object_get(backend, "weight")) > 0) {
			json_object_set_new(backend, "weight", json_integer(service->weight));
		}
	}
}

// Choose the policy that corresponds to the scheduler of a service.
static const char *policy_of(
	struct weir_import *import, const struct weir_import_service *service) {
	const struct scheduler *known = find_scheduler(service->scheduler);
	const char *policy = weir_import_scheduler_policy(service->scheduler);

	if (known == NULL) {
		weir_import_note(import, &service->place, WEIR_IMPORT_DIFFERS, service->scheduler,
			"unknown scheduler: using policy maglev, the default; "
			"docs/reference/policies.md describes all policies");
		return "maglev";
	}
	if (known->why != NULL) {
		weir_import_note(import, &service->place, WEIR_IMPORT_DIFFERS, known->name,
			"policy %s %s", policy, known->why);
	}
	if (known->equal && service->weights_differ) {
		equalize(service);
		weir_import_note(import, &service->place, WEIR_IMPORT_DIFFERS, known->name,
			"all weights except 0 become equal: %s ignores weights, but policy %s uses "
			"weights",
			known->name, policy);
	}
	return policy;
}

// The scheduler fo uses a server with the highest weight. The servers with lower weights become
// backups.
static void choose_backups(struct weir_import_service *service) {
	json_int_t most = 0;
	json_t *backend;
	size_t i;

	if (strcmp(service->scheduler, "fo") != 0) {
		return;
	}
	json_array_foreach (service->backends, i, backend) {
		json_int_t weight = json_integer_value(json_object_get(backend, "weight"));

		if (!json_is_true(json_object_get(backend, "backup"))) {
			most = weight > most ? weight : most;
		}
	}
	json_array_foreach (service->backends, i, backend) {
		if (json_integer_value(json_object_get(backend, "weight")) < most) {
			json_object_set_new(backend, "backup", json_true());
		}
	}
}

// Returns the hash_fields of a service, or NULL for the default, which includes ports. With
// affinity, the default is needed, because affinity hashes the source.
static const char *hash_fields_of(const struct weir_import_service *service) {
	const struct scheduler *known = find_scheduler(service->scheduler);

	return known == NULL || service->hashes_ports || service->persistence.is_set
		       ? NULL
		       : known->fields;
}

static json_t *limits_of(struct weir_import *import, const struct weir_import_service *service) {
	if (service->uppers == 0) {
		return NULL;
	}
	if (service->uppers < json_array_size(service->backends) - service->backups) {
		weir_import_note(import, &service->place, WEIR_IMPORT_LEFT_OUT, "upper threshold",
			"flow_control has one limit for all servers of a service, and some servers "
			"of the service have no limit");
		return NULL;
	}
	if (service->uppers_differ) {
		weir_import_note(import, &service->place, WEIR_IMPORT_DIFFERS, "upper threshold",
			"all backends get the highest limit, because flow_control has one limit "
			"for all backends");
	}
	return json_pack("{s:I, s:s}", "max_active_flows", (json_int_t)service->upper,
		"when_exhausted", "reject");
}

// Name the backends. Names are assigned last, so that skipped entries do not take names.
static int name_backends(struct weir_import_service *service) {
	json_t *used = json_object(), *backend;
	char name[WEIR_CONFIG_NAME_BYTES];
	size_t i;
	int r = used == NULL ? -ENOMEM : 0;

	json_array_foreach (service->backends, i, backend) {
		if (r == 0) {
			r = take_name(
				used, json_string_value(json_object_get(backend, "name")), name);
			json_object_set_new(backend, "name", json_string(name));
		}
	}
	json_decref(used);
	return r;
}

void weir_import_note_unchecked(struct weir_import *import, const struct weir_import_place *place) {
	weir_import_note(import, place, WEIR_IMPORT_ADJUST, "no health check imported",
		"a dead server keeps getting flows: add a health_check or agents "
		"(docs/guide/health.md)");
}

static json_t *positive(uint32_t value) {
	return value > 0 ? json_integer(value) : NULL;
}

static void add_service(struct weir_import *import, struct weir_import_service *service) {
	char name[WEIR_CONFIG_NAME_BYTES];
	struct weir_import_forwarding forwarding;
	const char *policy, *fields = hash_fields_of(service);
	// IPVS ignores one-packet scheduling of TCP services.
	const bool by_datagram = service->one_packet && service->protocol == IPPROTO_UDP;
	json_t *limits, *affinity;

	if (take_name(import->names, service->name, name) < 0 || name_backends(service) < 0) {
		import->failed = true;
		return;
	}
	import->backends += (uint32_t)json_array_size(service->backends);
	weir_import_forwarding_choose(import, service, &forwarding);
	// Must be called before policy_of, because both add notes, and notes keep this order.
	limits = limits_of(import, service);
	choose_backups(service);
	policy = policy_of(import, service);
	weir_import_note_same_servers(import, service);
	affinity = weir_import_affinity(import, &service->persistence, policy);
	if (service->was_checked && service->health_check == NULL) {
		weir_import_note_unchecked(import, &service->place);
	}
	if (json_array_append_new(import->services,
		    json_pack("{s:s, s:O, s:{s:s}, s:s*, s:o*, s:s*, s:s, s:o*, s:o*, s:o*, s:o*, "
			      "s:o*, s:O*, s:O}",
			    "name", name, "binds", service->binds, "policy", "name", policy,
			    "hash_fields", fields, "affinity", affinity, "udp",
			    by_datagram ? "datagram" : NULL, "forwarding",
			    weir_forwarding_name(forwarding.mode), "gue_port",
			    forwarding.gue_port != 0 ? json_integer(forwarding.gue_port) : NULL,
			    "flow_control", limits, "quorum", positive(service->quorum),
			    "hysteresis", positive(service->hysteresis), "panic_threshold_percent",
			    // keepalived gives a failed server no connections, even if most
			    // servers have failed
			    service->health_check != NULL ? json_integer(0) : NULL, "health_check",
			    service->health_check, "backends", service->backends)) < 0 ||
		json_array_append(import->places, service->places) < 0) {
		import->failed = true;
	}
}

// Leave out a service: keep only the notes that give the reason, and release its addresses for
// other services.
static void forget(struct weir_import *import, struct weir_import_service *service) {
	const json_t *key, *note;
	size_t i;

	json_array_foreach (service->keys, i, key) {
		json_object_del(import->binds, json_string_value(key));
	}
	json_array_foreach (service->notes, i, note) {
		if (strcmp(json_string_value(json_object_get(note, "kind")),
			    weir_import_kind_names[WEIR_IMPORT_MISSING]) == 0) {
			json_array_append(import->notes, (json_t *)note);
		}
	}
}

void weir_import_service_end(struct weir_import *import, struct weir_import_service *service) {
	const struct weir_import_place *place = &service->place;

	weir_import_select(import, service);
	if (!service->left_out && json_array_size(service->binds) == 0 && service->taken_line > 0) {
		weir_import_leave_out(import, service, place, service->name,
			"another service already has its addresses (line %" JSON_INTEGER_FORMAT ")",
			service->taken_line);
	} else if (!service->left_out && json_array_size(service->binds) == 0) {
		weir_import_leave_out(
			import, service, place, service->name, "it has no usable address");
	} else if (!service->left_out && json_array_size(service->backends) == 0) {
		weir_import_leave_out(import, service, place, service->name,
			"the virtual server has no real servers, and a service of Weir needs at "
			"least one");
	} else if (json_array_size(import->services) >= WEIR_IMPORT_SERVICES_MAX) {
		weir_import_leave_out(import, service, place, service->name,
			"the limit of %d services is reached", WEIR_IMPORT_SERVICES_MAX);
	}
	weir_import_select(import, NULL);
	if (service->left_out) {
		forget(import, service);
	} else if (!import->failed) {
		weir_import_select(import, service);
		add_service(import, service);
		weir_import_select(import, NULL);
		json_array_extend(import->notes, service->notes);
	}
	drop(service);
}
