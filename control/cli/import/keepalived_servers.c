// SPDX-License-Identifier: BSD-3-Clause
//
// Virtual servers of keepalived, their groups of addresses, and their real servers.
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "keepalived_private.h"

#define DELAY_MS 60000 // between checks, by default
#define TIMEOUT_MS 5000 // of a check, by default
#define PERSISTENCE_S "360"

#define SCRIPTS "Weir runs no scripts: follow the log, or weirctl health history --json"
#define SORRY \
	"Weir has no sorry server: with too few healthy backends it also uses unhealthy ones " \
	"(panic_threshold_percent)"

static const struct weir_keepalived_rest of_virtual[] = {
	{"quorum", "a VIP is not withdrawn when few servers are left: see panic_threshold_percent"},
	{"hysteresis", "belongs to quorum"},
	{"quorum_up", SCRIPTS},
	{"quorum_down", SCRIPTS},
	{"sorry_server", SORRY},
	{"sorry_server_inhibit", NULL},
	{"sorry_server_lvs_method", NULL},
	{"omega", SCRIPTS},
	{"alpha", NULL}, // always so
	{"no_alpha", NULL},
	{"inhibit_on_failure", NULL}, // like on_backend_down "keep", the default
	{"ip_family", NULL},
	{"warmup", NULL}, // checks are spread over the interval
	{"delay_before_retry", "failed checks are repeated at the normal interval"},
	{"ha_suspend", "checks run without the VIP"},
	{"persistence_granularity", NULL}, // see persistence_timeout
	{"persistence_engine", "Weir does not inspect payload"},
	{"smtp_alert", "Weir sends no mail"},
	{"sh-fallback", NULL}, // always so
	{"mh-fallback", NULL},
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
	{"delay_before_retry", "failed checks are repeated at the normal interval"},
	{"lthreshold", "a backend gets flows again as soon as it is below its limit"},
	{"snmp_name", NULL},
	{"log_all_failures", NULL},
	{NULL, NULL},
};

struct virtual { // one virtual server
	struct weir_import_service service;
	struct weir_keepalived_defaults defaults;
	uint32_t weight; // default for servers that have none
	int check_line; // of the server whose check is used
	bool any_without_check;
	bool has_method; // its own
};

// --- addresses ----------------------------------------------------------------------------

static void note_mark(struct weir_import *import, struct weir_import_service *service,
	const struct weir_keepalived_statement *statement, const char *mark, bool whole) {
	char what[WEIR_IMPORT_TEXT_BYTES];

	snprintf(what, sizeof(what), "fwmark %.40s", mark);
	service->left_out |= whole;
	weir_import_note(import, &statement->place, WEIR_IMPORT_LEFT_OUT, what,
		"%spackets reach Weir before the firewall marks them. Add the addresses and ports "
		"of the rules for this mark%s",
		whole ? "the service: " : "", whole ? ", as a service of their own" : "");
}

// "192.0.2.1-10": the addresses from .1 to .10; in IPv6 the range is in the last 16 bits, in
// hexadecimal.
static int read_range(const char *text, struct weir_address *ret, unsigned int *ret_count) {
	char first[WEIR_IMPORT_TEXT_BYTES];
	const char *dash = strchr(text, '-');
	unsigned long last, begin;
	uint16_t port;
	char *end;

	*ret_count = 1;
	if (dash == NULL) {
		return strpbrk(text, "[]") != NULL ? -1 : weir_address_parse(text, ret);
	}
	if ((size_t)(dash - text) >= sizeof(first) || strlen(dash + 1) > 4 || dash[1] == '\0') {
		return -1;
	}
	memcpy(first, text, (size_t)(dash - text));
	first[dash - text] = '\0';
	if (weir_import_endpoint(first, ret, &port) < 0 || port != 0) {
		return -1;
	}
	last = strtoul(dash + 1, &end, ret->family == 6 ? 16 : 10);
	begin = ret->family == 6 ? (unsigned long)ret->bytes[14] << 8 | ret->bytes[15]
				 : ret->bytes[3];
	if (*end != '\0' || dash[1] == '+' || dash[1] == '-' || last < begin ||
		last > (ret->family == 6 ? 0xffff : 0xff)) {
		return -1;
	}
	*ret_count = (unsigned int)(last - begin + 1);
	return 0;
}

// "ADDRESS [PORT]" of words from `at` on.
static void read_address(struct weir_import *import, struct weir_import_service *service,
	const struct weir_keepalived_statement *statement, unsigned int at) {
	const char *text = weir_keepalived_word(statement, at);
	const char *port_text = weir_keepalived_word(statement, at + 1);
	struct weir_address address;
	unsigned int count;
	uint64_t port = 0;

	if (read_range(text, &address, &count) < 0) {
		weir_import_error(import, &statement->place,
			"\"%s\" is not an IP address, nor a range such as 192.0.2.1-10", text);
		return;
	}
	if (port_text[0] != '\0' && !weir_import_number(port_text, UINT16_MAX, &port)) {
		weir_import_error(import, &statement->place,
			"port \"%s\": use a number from 0 (every port) to 65535", port_text);
		return;
	}
	for (unsigned int i = 0; i < count && i <= WEIR_IMPORT_BINDS_MAX; i++) {
		struct weir_address one = address;

		if (one.family == 6) {
			unsigned int low =
				((unsigned int)address.bytes[14] << 8 | address.bytes[15]) + i;

			one.bytes[14] = (uint8_t)(low >> 8);
			one.bytes[15] = (uint8_t)low;
		} else {
			one.bytes[3] = (uint8_t)(address.bytes[3] + i);
		}
		weir_import_bind(
			import, service, &statement->place, &one, (uint16_t)port, (uint16_t)port);
	}
}

static void read_group(struct weir_import *import, struct weir_import_service *service,
	const struct weir_keepalived_statement *statement,
	const struct weir_keepalived_statement *groups) {
	const char *name = weir_keepalived_word(statement, 2);

	while (groups != NULL && (strcmp(groups->word[0], "virtual_server_group") != 0 ||
					 strcmp(weir_keepalived_word(groups, 1), name) != 0)) {
		groups = groups->next;
	}
	if (groups == NULL) {
		weir_import_error(import, &statement->place,
			"there is no virtual_server_group \"%s\": add it, or correct the name",
			name);
		return;
	}
	for (const struct weir_keepalived_statement *line = groups->children; line != NULL;
		line = line->next) {
		if (strcmp(line->word[0], "fwmark") == 0) {
			note_mark(import, service, line, weir_keepalived_word(line, 1), false);
		} else {
			read_address(import, service, line, 0);
		}
	}
}

// --- real servers -------------------------------------------------------------------------

static void read_method(struct weir_import *import, struct weir_import_service *service,
	const struct weir_keepalived_statement *statement) {
	const char *method = weir_keepalived_word(statement, 1);
	const char *type = weir_keepalived_word(statement, 3);

	if (strcmp(method, "DR") == 0 || strcmp(method, "NAT") == 0) {
		weir_import_forwarding(
			import, service, &statement->place, method[0] == 'D' ? 'g' : 'm');
	} else if (strcmp(method, "TUN") != 0) {
		weir_import_error(import, &statement->place, "%s \"%s\": use NAT, DR or TUN",
			statement->word[0], method);
	} else if (strcmp(weir_keepalived_word(statement, 2), "type") == 0 &&
		   strcmp(type, "ipip") != 0) {
		weir_import_note(import, &statement->place, WEIR_IMPORT_DIFFERS, "tunnel",
			"Weir's tunnels are IP in IP, not %s: change the decapsulation on the "
			"servers",
			type);
	}
}

static bool has_method(const struct weir_keepalived_statement *block) {
	const struct weir_keepalived_statement *key = block->children;

	while (key != NULL && strcmp(key->word[0], "lb_kind") != 0 &&
		strcmp(key->word[0], "lvs_method") != 0) {
		key = key->next;
	}
	return key != NULL;
}

// A check on the server's own port also uses that port, not the VIP's.
static void note_check_port(struct weir_import *import,
	const struct weir_keepalived_statement *server, const json_t *check, uint16_t port) {
	if (port != 0 && json_integer_value(json_object_get(check, "port")) == port) {
		weir_import_note(import, &server->place, WEIR_IMPORT_ADJUST, "health check",
			"it checks port %u: remove its \"port\" if the servers listen on the port "
			"of the VIP",
			port);
	}
}

// The check of a real server becomes that of the service if it is the first one.
static void take_check(struct weir_import *import, struct virtual *virtual,
	const struct weir_keepalived_statement *server, json_t *check, uint16_t port) {
	json_t *used = virtual->service.health_check;

	if (check == NULL) {
		virtual->any_without_check = true;
		return;
	}
	if (used == NULL) {
		virtual->service.health_check = check;
		virtual->check_line = server->place.line;
		note_check_port(import, server, check, port);
		return;
	}
	if (!json_equal(used, check)) {
		weir_import_note(import, &server->place, WEIR_IMPORT_DIFFERS,
			weir_keepalived_word(server, 1),
			"a service has one health check: using that of the server in line %d",
			virtual->check_line);
	}
	json_decref(check);
}

static bool read_real_key(struct weir_import *import, struct virtual *virtual,
	const struct weir_keepalived_statement *statement, struct weir_import_backend *backend) {
	const char *keyword = statement->word[0];
	uint64_t number;

	if (strcmp(keyword, "weight") == 0) {
		if (weir_keepalived_number(import, statement, INT32_MAX, &number)) {
			backend->weight = (json_int_t)number;
		}
	} else if (strcmp(keyword, "uthreshold") == 0) {
		if (weir_keepalived_number(import, statement, UINT32_MAX, &number)) {
			backend->upper = (uint32_t)number;
		}
	} else if (strcmp(keyword, "lvs_method") == 0 || strcmp(keyword, "lb_kind") == 0) {
		read_method(import, &virtual->service, statement);
	} else {
		return false;
	}
	return true;
}

static void read_real(struct weir_import *import, struct virtual *virtual,
	const struct weir_keepalived_statement *server) {
	struct weir_keepalived_defaults defaults = virtual->defaults;
	struct weir_import_backend backend = {.weight = virtual->weight};
	uint64_t port = 0;

	if (weir_address_parse(weir_keepalived_word(server, 1), &backend.address) < 0) {
		weir_import_error(import, &server->place,
			"\"%s\" is not an IP address: write real_server ADDRESS PORT",
			weir_keepalived_word(server, 1));
		return;
	}
	if (server->count > 2 && !weir_import_number(server->word[2], UINT16_MAX, &port)) {
		weir_import_error(import, &server->place,
			"port \"%s\": use a number from 0 to 65535", server->word[2]);
		return;
	}
	backend.port = (uint16_t)port;
	for (const struct weir_keepalived_statement *statement = server->children;
		statement != NULL; statement = statement->next) {
		if (!weir_keepalived_default(import, statement, &defaults) &&
			!read_real_key(import, virtual, statement, &backend) &&
			!weir_keepalived_is_checker(statement->word[0])) {
			weir_keepalived_note(import, statement, of_real);
		}
	}
	weir_import_backend(import, &virtual->service, &server->place, &backend);
	if (!virtual->has_method && !has_method(server)) {
		weir_import_forwarding(import, &virtual->service, &server->place, 'm');
	}
	take_check(import, virtual, server,
		weir_keepalived_check(
			import, server, &defaults, virtual->service.port, backend.port),
		backend.port);
}

// --- virtual servers ----------------------------------------------------------------------

static void read_protocol(struct weir_import *import, struct weir_import_service *service,
	const struct weir_keepalived_statement *statement) {
	const char *protocol = weir_keepalived_word(statement, 1);

	if (strcasecmp(protocol, "UDP") == 0) {
		service->protocol = IPPROTO_UDP;
	} else if (strcasecmp(protocol, "SCTP") == 0) {
		service->left_out = true;
		weir_import_note(import, &statement->place, WEIR_IMPORT_LEFT_OUT, "protocol SCTP",
			"the service: Weir supports TCP and UDP only");
	} else if (strcasecmp(protocol, "TCP") != 0) {
		weir_import_error(import, &statement->place,
			"protocol \"%s\": use TCP, UDP or SCTP", protocol);
	}
}

static bool read_virtual_key(struct weir_import *import, struct virtual *virtual,
	const struct weir_keepalived_statement *statement) {
	struct weir_import_service *service = &virtual->service;
	const char *keyword = statement->word[0], *value = weir_keepalived_word(statement, 1);
	char what[WEIR_IMPORT_TEXT_BYTES];
	uint64_t number;

	if (strcmp(keyword, "lb_algo") == 0 || strcmp(keyword, "lvs_sched") == 0) {
		snprintf(service->scheduler, sizeof(service->scheduler), "%s", value);
	} else if (strcmp(keyword, "lb_kind") == 0 || strcmp(keyword, "lvs_method") == 0) {
		read_method(import, service, statement);
	} else if (strcmp(keyword, "persistence_timeout") == 0) {
		snprintf(what, sizeof(what), "persistence_timeout %.20s",
			value[0] != '\0' ? value : PERSISTENCE_S);
		weir_import_persistence(import, &statement->place, what);
	} else if (strcmp(keyword, "ops") == 0) {
		weir_import_one_packet(import, &statement->place, "ops");
	} else if (strcmp(keyword, "sh-port") == 0 || strcmp(keyword, "mh-port") == 0) {
		service->hashes_ports = true;
	} else if (strcmp(keyword, "weight") == 0) {
		if (weir_keepalived_number(import, statement, INT32_MAX, &number)) {
			virtual->weight = (uint32_t)number;
		}
	} else {
		// The protocol is read before the addresses, and servers last.
		return strcmp(keyword, "protocol") == 0 || strcmp(keyword, "real_server") == 0;
	}
	return true;
}

static void read_head(struct weir_import *import, struct weir_import_service *service,
	const struct weir_keepalived_statement *statement,
	const struct weir_keepalived_statement *groups) {
	const char *kind = weir_keepalived_word(statement, 1);

	if (strcmp(kind, "fwmark") == 0) {
		note_mark(import, service, statement, weir_keepalived_word(statement, 2), true);
	} else if (strcmp(kind, "group") == 0) {
		read_group(import, service, statement, groups);
	} else {
		read_address(import, service, statement, 1);
	}
}

static void name_of(const struct weir_keepalived_statement *statement, char *name, size_t bytes) {
	const char *kind = weir_keepalived_word(statement, 1);
	bool group = strcmp(kind, "group") == 0;

	snprintf(name, bytes, "%.40s%s%.20s", group ? weir_keepalived_word(statement, 2) : kind,
		statement->count > 2 && !group ? "-" : "",
		group ? "" : weir_keepalived_word(statement, 2));
}

void weir_keepalived_server(struct weir_import *import,
	const struct weir_keepalived_statement *statement,
	const struct weir_keepalived_statement *groups) {
	struct virtual virtual = {
		.defaults = {.delay_ms = DELAY_MS, .timeout_ms = TIMEOUT_MS}, .weight = 1};
	const struct weir_keepalived_statement *key;
	char name[WEIR_IMPORT_TEXT_BYTES];

	name_of(statement, name, sizeof(name));
	if (weir_import_service_begin(import, &virtual.service, &statement->place, name) < 0) {
		return;
	}
	snprintf(virtual.service.scheduler, sizeof(virtual.service.scheduler), "wlc");
	virtual.has_method = has_method(statement);
	for (key = statement->children; key != NULL; key = key->next) {
		if (strcmp(key->word[0], "protocol") == 0) {
			read_protocol(import, &virtual.service, key);
		}
	}
	read_head(import, &virtual.service, statement, groups);
	for (key = statement->children; key != NULL && !virtual.service.left_out; key = key->next) {
		if (!weir_keepalived_default(import, key, &virtual.defaults) &&
			!read_virtual_key(import, &virtual, key)) {
			weir_keepalived_note(import, key, of_virtual);
		}
	}
	for (key = statement->children; key != NULL && !virtual.service.left_out; key = key->next) {
		if (strcmp(key->word[0], "real_server") == 0) {
			read_real(import, &virtual, key);
		}
	}
	if (virtual.any_without_check && virtual.service.health_check != NULL) {
		weir_import_note(import, &statement->place, WEIR_IMPORT_DIFFERS, "health check",
			"that of line %d also applies to the servers without one",
			virtual.check_line);
	}
	weir_import_service_end(import, &virtual.service);
}
