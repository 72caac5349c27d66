// SPDX-License-Identifier: BSD-3-Clause
#include "import_affinity.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TIMEOUT_MOST_S (5u * 86400) // maximum of affinity.timeout_ms
#define IPV4_BITS 32
#define IPV6_BITS 128

void weir_import_persistence(struct weir_import_service *service,
	const struct weir_import_place *place, const char *what, uint32_t timeout_s) {
	struct weir_import_persistence *persistence = &service->persistence;

	persistence->is_set = true;
	persistence->timeout_s = timeout_s;
	persistence->place = *place;
	snprintf(persistence->what, sizeof(persistence->what), "%s", what);
}

// Convert a netmask into a prefix length. If the netmask is not a prefix, only its leading 1 bits
// are used: addresses that count as one client with the netmask also count as one client with this
// prefix. Without leading 1 bits, all addresses would count as one client, so the whole address is
// used instead.
static uint8_t prefix_of(struct weir_import *import, const struct weir_import_place *place,
	const char *what, uint32_t mask) {
	uint8_t bits = 0;

	while (bits < IPV4_BITS && (mask << bits & 1u << 31) != 0) {
		bits++;
	}
	if (bits == 0) {
		weir_import_note(import, place, WEIR_IMPORT_ADJUST, what,
			"the netmask has no leading 1 bits: each address counts as a separate "
			"client; to treat networks as clients, set ipv4_prefix of affinity");
		return IPV4_BITS;
	}
	if (bits < IPV4_BITS && mask << bits != 0) {
		weir_import_note(import, place, WEIR_IMPORT_ADJUST, what,
			"the netmask is not a prefix: using its leading 1 bits, ipv4_prefix %u, so "
			"that more addresses count as one client",
			bits);
	}
	return bits;
}

bool weir_import_granularity(struct weir_import *import, struct weir_import_service *service,
	const struct weir_import_place *place, const char *what, uint8_t family, const char *text) {
	struct in_addr mask;
	uint64_t bits;

	if (family == 6) {
		if (!weir_import_number(text, IPV6_BITS, &bits) || bits == 0) {
			return false;
		}
		service->persistence.ipv6_prefix = (uint8_t)bits;
		return true;
	}
	if (inet_aton(text, &mask) == 0) {
		return false;
	}
	service->persistence.ipv4_prefix = prefix_of(import, place, what, ntohl(mask.s_addr));
	return true;
}

#define WEIGHT \
	"if the weight of a server becomes 0, its clients move immediately; in IPVS, clients " \
	"move only with expire_quiescent_template"

static void note_differences(struct weir_import *import,
	const struct weir_import_persistence *persistence, bool hashes) {
	if (hashes) {
		weir_import_note(import, &persistence->place, WEIR_IMPORT_DIFFERS,
			persistence->what,
			"with policy maglev, affinity has no timeout: a server that is added or "
			"returns gets its share of the clients immediately; in IPVS, the server "
			"gets clients only after the timeout; " WEIGHT);
		return;
	}
	weir_import_note(import, &persistence->place, WEIR_IMPORT_DIFFERS, persistence->what,
		"an affinity entry expires timeout_ms after the beginning of the client's last "
		"flow or the end of its last TCP connection; in IPVS, an entry does not expire "
		"while the client has a connection; " WEIGHT);
	if (persistence->timeout_s > TIMEOUT_MOST_S) {
		weir_import_note(import, &persistence->place, WEIR_IMPORT_DIFFERS,
			persistence->what, "above the maximum of Weir; using %u s", TIMEOUT_MOST_S);
	}
}

static json_t *prefix_json(uint8_t bits, uint8_t whole) {
	return bits != 0 && bits != whole ? json_integer(bits) : NULL;
}

json_t *weir_import_affinity(struct weir_import *import,
	const struct weir_import_persistence *persistence, const char *policy) {
	uint32_t timeout_s = persistence->timeout_s;
	json_t *affinity;

	if (!persistence->is_set) {
		return NULL;
	}
	note_differences(import, persistence, strcmp(policy, "maglev") == 0);
	timeout_s = timeout_s > TIMEOUT_MOST_S ? TIMEOUT_MOST_S : timeout_s;
	affinity = json_pack("{s:s, s:o*, s:o*, s:I}", "by", "source", "ipv4_prefix",
		prefix_json(persistence->ipv4_prefix, IPV4_BITS), "ipv6_prefix",
		prefix_json(persistence->ipv6_prefix, IPV6_BITS), "timeout_ms",
		(json_int_t)timeout_s * 1000);
	import->failed |= affinity == NULL;
	return affinity;
}

// Returns the addresses and weights of the servers, in order, as text that the caller frees; NULL =
// out of memory. The scheduler sh depends only on these properties of a service.
static char *servers_of(const struct weir_import_service *service) {
	json_t *servers = json_array();
	const json_t *backend;
	char *text;
	size_t i;

	json_array_foreach (service->backends, i, backend) {
		json_array_append(servers, json_object_get(backend, "address"));
		json_array_append(servers, json_object_get(backend, "weight"));
	}
	text = json_dumps(servers, JSON_COMPACT);
	json_decref(servers);
	return text;
}

void weir_import_note_same_servers(
	struct weir_import *import, const struct weir_import_service *service) {
	const json_t *former;
	char *servers;

	if (strcmp(service->scheduler, "sh") != 0 || service->hashes_ports ||
		json_array_size(service->backends) < 2) {
		return;
	}
	servers = servers_of(service);
	if (servers == NULL) {
		import->failed = true;
		return;
	}
	former = json_object_get(import->hashed, servers);
	if (former == NULL) {
		json_object_set_new(import->hashed, servers, json_integer(service->place.line));
	} else {
		weir_import_note(import, &service->place, WEIR_IMPORT_DIFFERS, service->scheduler,
			"a client may get another server than in the service of line "
			"%" JSON_INTEGER_FORMAT ", which has the same servers: if clients need the "
			"same server in both services, add the binds of this service to that "
			"service",
			json_integer_value(former));
	}
	free(servers);
}
