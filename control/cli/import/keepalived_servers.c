// SPDX-License-Identifier: BSD-3-Clause
// Converts the virtual servers of a keepalived.conf, with their address groups and real servers.
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "import_refused.h"
#include "keepalived_private.h"

#define DELAY_MS 60000 // default interval of checks
#define TIMEOUT_MS 5000 // default timeout of a check
#define PERSISTENCE_S 360 // default persistence_timeout
#define PERSISTENCE_TEXT "persistence_timeout 360" // the default persistence_timeout, for notes
#define SCHEDULER "wlc" // default lb_algo

#define SCRIPTS \
	"Weir runs one program for changes of all services and backends: set \"notify\" (see " \
	"docs/guide/health.md)"

static const struct weir_keepalived_rest of_virtual[] = {
	{"quorum", NULL}, // weir_keepalived_quorum() reads both
	{"hysteresis", NULL},
	{"quorum_up", SCRIPTS},
	{"quorum_down", SCRIPTS},
	{"sorry_server_inhibit", NULL}, // on_backend_down "keep", Weir's default, does the same
	{"omega", SCRIPTS},
	{"alpha", NULL}, // Weir always behaves in this way
	{"no_alpha", NULL},
	{"inhibit_on_failure", NULL}, // Weir does the same with on_backend_down "keep", its default
	{"ip_family", NULL},
	{"warmup", NULL}, // Weir always spreads checks over the interval
	{"ha_suspend", "checks do not depend on the presence of the VIP"},
	{"nat_mask", NULL}, // has no effect since keepalived 1.2
	{"persistence_engine",
		"Weir does not inspect payload: affinity is by client address, not by SIP call"},
	{"smtp_alert", "Weir sends no mail"},
	{"sh-fallback", NULL}, // Weir always behaves in this way
	{"mh-fallback", NULL},
	{"flag-1", NULL}, // another name for sh-fallback and mh-fallback
	{"flag-3", NULL}, // no scheduler uses this flag
	{"hashed", NULL},
	{"snmp_name", NULL},
	{"log_all_failures", NULL},
	{NULL, NULL},
};

static const struct weir_keepalived_rest of_real[] = {
	{"inhibit_on_failure", NULL},
	{"notify_up", SCRIPTS},
	{"notify_down", SCRIPTS},
	{"smtp_alert", "Weir sends no mail"},
	{"alpha", NULL},
	{"no_alpha", NULL},
	{"warmup", NULL},
	{"lthreshold",
		"a backend gets new flows again as soon as it has fewer flows than its limit"},
	{"snmp_name", NULL},
	{"log_all_failures", NULL},
	{NULL, NULL},
};

struct virtual { // one virtual server
	const struct weir_keepalived_statement *block;
	struct weir_import_service service;
	struct weir_keepalived_defaults defaults;
	uint32_t weight; // default weight of servers
	int check_line; // line of the server whose check is used
	bool any_without_check; // none of the checkers of at least one server could be converted
	json_t *unchecked; // JSON of the backends without a checker, as in service.backends
	uint8_t protocol; // 0 = not configured: UDP is the default
	uint8_t family; // family of the address, 4 or 6; 0 = a group
	struct weir_import_forwarding forwarding; // NAT is the default
	bool any_port; // at least one address has no port
	const struct weir_keepalived_statement *sorry; // the last sorry_server; NULL = none
	struct weir_import_forwarding sorry_forwarding;
	bool has_sorry_forwarding;
};

// --- addresses ----------------------------------------------------------------------------

#define MARKS \
	"packets reach Weir before the firewall marks them. Add a service with the addresses and " \
	"ports of the rules for this mark"

// Read "ADDRESS [PORT]" of a virtual_server.
static void read_address(struct weir_import *import, struct virtual *virtual,
	const struct weir_keepalived_statement *statement) {
	struct weir_import_service *service = &virtual->service;
	const char *text = weir_keepalived_word(statement, 1);
	struct weir_address address;
	uint16_t port;

	if (weir_keepalived_address(import, statement, text, &address) < 0) {
		weir_import_leave_out(import, service, &statement->place, service->name,
			"keepalived also skips this statement: \"%s\" is not an IP address", text);
	} else if (!weir_keepalived_port(weir_keepalived_word(statement, 2), &port)) {
		weir_import_leave_out(import, service, &statement->place, service->name,
			"keepalived also skips this statement: the port is not a number from 0 to "
			"65535");
	} else {
		virtual->any_port |= port == 0;
		virtual->family = address.family;
		weir_import_bind(import, service, &statement->place, &address, port, port);
	}
}

// Increment an address by one.
static void advance(struct weir_address *address) {
	unsigned int i = address->family == 6 ? 16 : 4;

	while (i-- > 0 && ++address->bytes[i] == 0) {
	}
}

// Read "ADDRESS [PORT]", "FIRST-LAST [PORT]" or "ADDRESS/BITS [PORT]" of a virtual_server_group.
static void read_entry(struct weir_import *import, struct virtual *virtual,
	const struct weir_keepalived_statement *line) {
	const char *text = line->word[0], *why;
	struct weir_keepalived_range range;
	uint16_t port;

	if (weir_keepalived_range_read(text, &range, &why) < 0) {
		weir_import_note(import, &line->place, WEIR_IMPORT_MISSING, text,
			"keepalived also skips this statement: %s", why);
		return;
	}
	if (!weir_keepalived_port(weir_keepalived_word(line, 1), &port)) {
		weir_import_note(import, &line->place, WEIR_IMPORT_MISSING, text,
			"keepalived also skips this statement: the port is not a number from 0 to "
			"65535");
		return;
	}
	virtual->any_port |= port == 0;
	// n also counts addresses that are skipped because another service already has them, so
	// that a wide range cannot add a note for each of its addresses.
	for (unsigned int n = 0; n < WEIR_IMPORT_BINDS_MAX &&
				 json_array_size(virtual->service.binds) < WEIR_IMPORT_BINDS_MAX;
		n++) {
		weir_import_bind(import, &virtual->service, &line->place, &range.first, port, port);
		if (memcmp(&range.first, &range.last, sizeof(range.first)) == 0) {
			return;
		}
		advance(&range.first);
	}
	weir_import_note(import, &line->place, WEIR_IMPORT_MISSING, text,
		"a service has at most %d addresses: add further addresses to another service",
		WEIR_IMPORT_BINDS_MAX);
}

static void read_group(struct weir_import *import, struct virtual *virtual,
	const struct weir_keepalived_statement *statement,
	const struct weir_keepalived_statement *groups) {
	const char *name = weir_keepalived_word(statement, 2);
	char what[WEIR_IMPORT_TEXT_BYTES];

	while (groups != NULL && (strcmp(groups->word[0], "virtual_server_group") != 0 ||
					 strcmp(weir_keepalived_word(groups, 1), name) != 0)) {
		groups = groups->next;
	}
	if (groups == NULL) {
		weir_import_leave_out(import, &virtual->service, &statement->place,
			virtual->service.name,
			"keepalived also skips this statement: there is no virtual_server_group "
			"\"%s\"",
			name);
		return;
	}
	for (const struct weir_keepalived_statement *line = groups->children; line != NULL;
		line = line->next) {
		if (strcmp(line->word[0], "fwmark") == 0) {
			weir_import_note(import, &line->place, WEIR_IMPORT_MISSING,
				weir_keepalived_text(line, what, sizeof(what)), MARKS);
			weir_keepalived_extra_words(import, line, 3); // with the family
		} else {
			read_entry(import, virtual, line);
			weir_keepalived_extra_words(import, line, 2);
		}
	}
}

// --- real servers -------------------------------------------------------------------------

// Add a note that a check uses the port of the server instead of the port of the VIP.
static void note_check_port(struct weir_import *import,
	const struct weir_keepalived_statement *server, const json_t *check, uint16_t port,
	uint16_t service_port) {
	if (port != 0 && port != service_port &&
		json_integer_value(json_object_get(check, "port")) == port) {
		weir_import_note(import, &server->place, WEIR_IMPORT_ADJUST, "health check",
			"the health check connects to port %u: remove its \"port\" if the servers "
			"listen on the port of the VIP",
			port);
	}
}

// Adds to the check of a server the defaults of keys that only the check of the service has. If
// both checks have the same type, the server's check would otherwise inherit these keys. Returns
// check.
static json_t *own_check(struct weir_import *import, json_t *check, json_t *of_service) {
	const char *key;
	json_t *value;

	json_object_foreach (of_service, key, value) {
		if (json_object_get(check, key) == NULL) {
			import->failed |= weir_import_clear(check, of_service, key) < 0;
		}
	}
	return check;
}

// Use the first converted check as the check of the service. A check that differs from it becomes
// the check of its server only. Takes ownership of `check`; NULL = no check was converted. backend:
// borrowed; NULL = a duplicate server.
static void take_check(struct weir_import *import, struct virtual *virtual,
	const struct weir_keepalived_statement *server, json_t *backend, json_t *check,
	uint16_t port) {
	json_t *used = virtual->service.health_check;

	if (used == NULL && check != NULL) {
		virtual->service.health_check = json_incref(check);
		virtual->check_line = server->place.line;
	} else if (check != NULL && backend != NULL && !json_equal(used, check)) {
		import->failed |= json_object_set(backend, "health_check",
					  own_check(import, check, used)) < 0;
	} else {
		port = 0;
	}
	if (check != NULL) {
		note_check_port(import, server, check, port, virtual->service.port);
	}
	json_decref(check);
}

static bool read_real_key(struct weir_import *import,
	const struct weir_keepalived_statement *statement, struct weir_import_backend *backend) {
	const char *keyword = statement->word[0];
	uint64_t number;

	if (strcmp(keyword, "weight") == 0) {
		if (weir_keepalived_number(import, statement, 0, UINT16_MAX, &number)) {
			backend->weight = (json_int_t)number;
		}
	} else if (strcmp(keyword, "uthreshold") == 0) {
		if (weir_keepalived_number(import, statement, 0, UINT32_MAX, &number)) {
			backend->upper = (uint32_t)number;
		}
	} else if (strcmp(keyword, "lvs_method") == 0) {
		weir_keepalived_method(import, statement, &backend->forwarding);
	} else {
		return false;
	}
	return true;
}

static bool is_loopback(const struct weir_address *address) {
	static const uint8_t loopback[16] = {[15] = 1};

	return address->family == 4 ? address->bytes[0] == 127
				    : memcmp(address->bytes, loopback, sizeof(loopback)) == 0;
}

// Returns whether keepalived uses this server. If not, adds a note.
static bool read_real_head(struct weir_import *import,
	const struct weir_keepalived_statement *server, struct weir_import_backend *backend) {
	char what[WEIR_IMPORT_TEXT_BYTES];
	const char *why = NULL;

	if (weir_keepalived_address(
		    import, server, weir_keepalived_word(server, 1), &backend->address) < 0) {
		why = "not an IP address";
	} else if (!weir_keepalived_port(weir_keepalived_word(server, 2), &backend->port)) {
		why = "the port is not a number from 0 to 65535";
	}
	if (why != NULL) {
		weir_import_note(import, &server->place, WEIR_IMPORT_MISSING,
			weir_keepalived_text(server, what, sizeof(what)),
			"keepalived also skips this statement: %s", why);
	}
	return why == NULL;
}

static void read_real(struct weir_import *import, struct virtual *virtual,
	const struct weir_keepalived_statement *server) {
	struct weir_keepalived_defaults defaults = virtual->defaults;
	struct weir_import_backend backend = {
		.weight = virtual->weight, .forwarding = virtual->forwarding};
	struct weir_keepalived_target target = {.address = &backend.address,
		.protocol = virtual->service.protocol,
		.service_port = virtual->service.port};
	bool was_checked = false;
	json_t *imported, *check;

	if (!read_real_head(import, server, &backend)) {
		return;
	}
	for (const struct weir_keepalived_statement *statement = server->children;
		statement != NULL; statement = statement->next) {
		if (!weir_keepalived_default(import, statement, 1, &defaults) &&
			!read_real_key(import, statement, &backend) &&
			!weir_keepalived_is_checker(statement->word[0])) {
			weir_keepalived_note(import, statement, of_real);
		}
	}
	target.port = backend.port;
	imported = weir_import_backend(import, &virtual->service, &server->place, &backend);
	check = weir_keepalived_check(import, server, &defaults, &target, &was_checked);
	if (imported != NULL && !was_checked) {
		import->failed |= json_array_append(virtual->unchecked, imported) < 0;
	}
	virtual->any_without_check |= was_checked && check == NULL;
	virtual->service.was_checked |= was_checked;
	take_check(import, virtual, server, imported, check,
		backend.forwarding.nat ? backend.port : 0);
}

// Read "sorry_server ADDRESS [PORT]": keepalived uses this server when too few real servers are
// healthy, and does not check it. In Weir, the server becomes a backup.
static void read_sorry(struct weir_import *import, struct virtual *virtual) {
	const struct weir_keepalived_statement *statement = virtual->sorry;
	struct weir_import_backend backend = {.backup = true,
		.forwarding = virtual->has_sorry_forwarding ? virtual->sorry_forwarding
							    : virtual->forwarding};
	char what[WEIR_IMPORT_TEXT_BYTES];
	json_t *imported;

	if (!read_real_head(import, statement, &backend)) {
		return;
	}
	weir_keepalived_text(statement, what, sizeof(what));
	if (is_loopback(&backend.address)) {
		weir_import_note(import, &statement->place, WEIR_IMPORT_MISSING, what,
			"the sorry server runs on the balancer, but Weir forwards packets to other "
			"hosts only: run it on another host, as a backend with \"backup\": true");
		return;
	}
	imported = weir_import_backend(import, &virtual->service, &statement->place, &backend);
	if (imported != NULL) {
		import->failed |= json_array_append(virtual->unchecked, imported) < 0;
	}
}

// --- virtual servers ----------------------------------------------------------------------

static void read_protocol(struct weir_import *import, struct virtual *virtual,
	const struct weir_keepalived_statement *statement) {
	struct weir_import_service *service = &virtual->service;
	const char *protocol = weir_keepalived_word(statement, 1);

	if (strcasecmp(protocol, "UDP") == 0) {
		virtual->protocol = IPPROTO_UDP;
	} else if (strcasecmp(protocol, "TCP") == 0) {
		virtual->protocol = IPPROTO_TCP;
	} else if (strcasecmp(protocol, "SCTP") == 0) {
		weir_import_leave_out(import, service, &statement->place, service->name,
			"Weir supports TCP and UDP only");
	} else {
		weir_keepalived_ignored(import, statement, "use TCP, UDP or SCTP");
	}
}

// Read the protocol statements. Called before the addresses are read.
static void read_protocols(struct weir_import *import, struct virtual *virtual,
	const struct weir_keepalived_statement *statement) {
	for (const struct weir_keepalived_statement *key = statement->children;
		key != NULL && !virtual->service.left_out; key = key->next) {
		if (strcmp(key->word[0], "protocol") == 0) {
			read_protocol(import, virtual, key);
		}
	}
	virtual->service.protocol = virtual->protocol != 0 ? virtual->protocol : IPPROTO_UDP;
	if (virtual->protocol == 0) {
		weir_import_note(import, &statement->place, WEIR_IMPORT_ADJUST, "no protocol",
			"the default of keepalived is UDP: add \"protocol TCP\" and import again, "
			"if clients use TCP");
	}
}

static void read_persistence_timeout(struct weir_import *import, struct virtual *virtual,
	const struct weir_keepalived_statement *statement) {
	struct weir_import_service *service = &virtual->service;
	char what[WEIR_IMPORT_TEXT_BYTES];
	uint64_t seconds = 0;

	if (statement->count < 2) {
		weir_import_persistence(service, &statement->place,
			PERSISTENCE_TEXT ", the default", PERSISTENCE_S);
	} else if (!weir_import_number(statement->word[1], 0, &seconds) && // 0 has no effect
		   weir_keepalived_number(import, statement, 1, WEIR_IMPORT_TIMEOUT_S, &seconds)) {
		weir_import_persistence(service, &statement->place,
			weir_keepalived_text(statement, what, sizeof(what)), (uint32_t)seconds);
	}
}

// Read "persistence_granularity NETMASK" (IPv4) or "persistence_granularity BITS" (IPv6). The
// address of the virtual server determines the family. A group can have addresses of both families:
// then a text with a dot is a netmask.
static void read_granularity(struct weir_import *import, struct virtual *virtual,
	const struct weir_keepalived_statement *statement) {
	struct weir_import_service *service = &virtual->service;
	const char *text = weir_keepalived_word(statement, 1);
	uint8_t family = virtual->family;
	char what[WEIR_IMPORT_TEXT_BYTES];

	if (family == 0) {
		family = strchr(text, '.') != NULL ? 4 : 6;
	}
	if (!weir_import_granularity(import, service, &statement->place,
		    weir_keepalived_text(statement, what, sizeof(what)), family, text)) {
		weir_keepalived_ignored(import, statement, "use %s",
			family == 6 ? "a prefix length from 1 to 128"
				    : "a netmask such as 255.255.255.0");
	} else if (!service->persistence.is_set) {
		weir_import_persistence(service, &statement->place,
			"persistence_granularity (" PERSISTENCE_TEXT ")", PERSISTENCE_S);
	}
}

static void read_scheduler(struct weir_import *import, struct weir_import_service *service,
	const struct weir_keepalived_statement *statement) {
	const char *name = weir_keepalived_word(statement, 1);

	if (weir_import_scheduler_policy(name) != NULL) {
		snprintf(service->scheduler, sizeof(service->scheduler), "%s", name);
	} else {
		weir_keepalived_ignored(import, statement, "unknown scheduler; using %s",
			service->scheduler[0] != '\0' ? service->scheduler : SCHEDULER);
	}
}

// Read a scheduler flag like "sh-port", which must follow "lb_algo sh".
static void read_flag(struct weir_import *import, struct weir_import_service *service,
	const struct weir_keepalived_statement *statement) {
	const char *keyword = statement->word[0];

	if (strncmp(service->scheduler, keyword, 2) == 0 && service->scheduler[2] == '\0') {
		service->hashes_ports = true;
	} else {
		weir_keepalived_ignored(
			import, statement, "put the flag after \"lb_algo %.2s\"", keyword);
	}
}

static bool read_virtual_key(struct weir_import *import, struct virtual *virtual,
	const struct weir_keepalived_statement *statement) {
	struct weir_import_service *service = &virtual->service;
	const char *keyword = statement->word[0];
	uint64_t number;

	if (strcmp(keyword, "lb_algo") == 0 || strcmp(keyword, "lvs_sched") == 0) {
		read_scheduler(import, service, statement);
	} else if (strcmp(keyword, "persistence_timeout") == 0) {
		read_persistence_timeout(import, virtual, statement);
	} else if (strcmp(keyword, "persistence_granularity") == 0) {
		read_granularity(import, virtual, statement);
	} else if (strcmp(keyword, "ops") == 0) {
		service->one_packet = true;
	} else if (strcmp(keyword, "sh-port") == 0 || strcmp(keyword, "mh-port") == 0) {
		read_flag(import, service, statement);
	} else if (strcmp(keyword, "flag-2") == 0) { // sh-port or mh-port, for any scheduler
		service->hashes_ports = true;
	} else if (strcmp(keyword, "weight") == 0) {
		if (weir_keepalived_number(import, statement, 1, UINT16_MAX, &number)) {
			virtual->weight = (uint32_t)number;
		}
	} else if (strcmp(keyword, "sorry_server") == 0) {
		virtual->sorry = statement;
	} else if (strcmp(keyword, "sorry_server_lvs_method") == 0) {
		virtual->sorry_forwarding = virtual->forwarding;
		virtual->has_sorry_forwarding = true;
		weir_keepalived_method(import, statement, &virtual->sorry_forwarding);
	} else if (strcmp(keyword, "lb_kind") == 0 || strcmp(keyword, "lvs_method") == 0) {
		weir_keepalived_method(import, statement, &virtual->forwarding);
	} else {
		// These statements are read in other passes: the protocol before the addresses, and
		// the servers last.
		return strcmp(keyword, "protocol") == 0 || strcmp(keyword, "real_server") == 0;
	}
	return true;
}

static void read_head(struct weir_import *import, struct virtual *virtual,
	const struct weir_keepalived_statement *statement,
	const struct weir_keepalived_statement *groups) {
	const char *kind = weir_keepalived_word(statement, 1);

	if (strcmp(kind, "fwmark") == 0) {
		weir_import_leave_out(
			import, &virtual->service, &statement->place, virtual->service.name, MARKS);
		return;
	}
	read_protocols(import, virtual, statement);
	if (virtual->service.left_out) {
		return;
	}
	if (strcmp(kind, "group") == 0) {
		read_group(import, virtual, statement, groups);
	} else {
		read_address(import, virtual, statement);
	}
}

static void read_keys(struct weir_import *import, struct virtual *virtual,
	const struct weir_keepalived_statement *statement) {
	for (const struct weir_keepalived_statement *key = statement->children; key != NULL;
		key = key->next) {
		if (!weir_keepalived_default(import, key, 1, &virtual->defaults) &&
			!read_virtual_key(import, virtual, key)) {
			weir_keepalived_note(import, key, of_virtual);
		}
	}
	if (virtual->any_port && !virtual->service.persistence.is_set) {
		weir_import_persistence(&virtual->service, &statement->place,
			"every port (" PERSISTENCE_TEXT ")", PERSISTENCE_S);
	}
	if (virtual->service.scheduler[0] == '\0') {
		snprintf(virtual->service.scheduler, sizeof(virtual->service.scheduler), "%s",
			SCHEDULER);
	}
}

static void name_of(const struct weir_keepalived_statement *statement, char *name, size_t bytes) {
	const char *kind = weir_keepalived_word(statement, 1);
	bool group = strcmp(kind, "group") == 0;

	snprintf(name, bytes, "%s%s%s", group ? weir_keepalived_word(statement, 2) : kind,
		statement->count > 2 && !group ? "-" : "",
		group ? "" : weir_keepalived_word(statement, 2));
}

void weir_keepalived_server(struct weir_import *import,
	const struct weir_keepalived_statement *statement,
	const struct weir_keepalived_statement *groups) {
	struct virtual virtual = {.block = statement,
		.defaults = {.delay_ms = DELAY_MS, .timeout_ms = TIMEOUT_MS},
		.weight = 1,
		.forwarding = {.nat = true}};
	struct weir_import_service *service = &virtual.service;
	char name[WEIR_IMPORT_TEXT_BYTES];
	json_t *backend;
	size_t i;

	name_of(statement, name, sizeof(name));
	if (weir_import_service_begin(import, service, &statement->place, name) < 0) {
		return;
	}
	virtual.unchecked = json_array();
	read_head(import, &virtual, statement, groups);
	if (!service->left_out) {
		read_keys(import, &virtual, statement);
		weir_keepalived_extra_in(import, statement);
		for (const struct weir_keepalived_statement *key = statement->children; key != NULL;
			key = key->next) {
			if (strcmp(key->word[0], "real_server") == 0) {
				read_real(import, &virtual, key);
			}
		}
		if (virtual.sorry != NULL) {
			read_sorry(import, &virtual);
		}
	}
	weir_keepalived_quorum(import, statement, service);
	if (virtual.any_without_check && service->health_check != NULL) {
		weir_import_note(import, &statement->place, WEIR_IMPORT_DIFFERS, "health check",
			"the check of line %d also applies to servers whose checks are left out",
			virtual.check_line);
	}
	json_array_foreach (virtual.unchecked, i, backend) {
		import->failed |= service->health_check != NULL &&
				  json_object_set_new(backend, "health_check",
					  json_pack("{s:s}", "type", "none")) < 0;
	}
	json_decref(virtual.unchecked);
	weir_import_service_end(import, service);
}
