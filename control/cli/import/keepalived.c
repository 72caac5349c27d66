// SPDX-License-Identifier: BSD-3-Clause
#include "keepalived.h"

#include <stdio.h>
#include <string.h>

#include "keepalived_private.h"
#include "nearest.h"

#define VRRP \
	"Weir does not move addresses, and a VIP must not be an address of the balancer: " \
	"remove the virtual_server blocks and use keepalived only for an address that is the " \
	"routers' next hop to the VIPs, or announce the VIPs with a BGP daemon"
#define MAILS "Weir sends no mail: the log and \"weirctl health history\" show the changes"

static const struct weir_keepalived_rest top[] = {
	{"vrrp_instance", VRRP},
	{"vrrp_sync_group", VRRP},
	{"vrrp_script", VRRP},
	{"vrrp_track_file", VRRP},
	{"vrrp_track_process", VRRP},
	{"track_file", VRRP},
	{"track_process", VRRP},
	{"track_group", VRRP},
	{"garp_group", VRRP},
	{"bfd_instance", "configure BFD in the routing daemon"},
	{"static_ipaddress", "set addresses in the network configuration of the host"},
	{"static_routes", "set routes in the network configuration of the host"},
	{"static_rules", "set rules in the network configuration of the host"},
	{"static_track_group", VRRP},
	{"interface_up_down_delays", VRRP},
	{"linkbeat_interfaces", VRRP},
	{"net_namespace", "start Weir in the namespace: set NetworkNamespacePath= in its units"},
	{"instance", NULL},
	{"use_pid_dir", NULL},
	{"virtual_server_group", NULL}, // read with the virtual servers
	{NULL, NULL},
};

static const struct weir_keepalived_rest global[] = {
	{"notification_email", MAILS},
	{"notification_email_from", NULL}, // notification_email has a note
	{"smtp_server", NULL},
	{"smtp_helo_name", NULL},
	{"smtp_connect_timeout", NULL},
	{"smtp_alert", MAILS},
	{"smtp_alert_checker", MAILS},
	{"email_faults", MAILS},
	{"enable_script_security", NULL},
	{"script_user", NULL},
	{"max_auto_priority", NULL},
	{"process_names", NULL},
	{"checker_process_name", NULL},
	{"lvs_flush", NULL},
	{"lvs_flush_on_stop",
		"not needed: without weir-control, weir-dataplane forwards with its last tables"},
	{"lvs_flush_onstop",
		"not needed: without weir-control, weir-dataplane forwards with its last tables"},
	{"lvs_sync_daemon", "Weir does not synchronise connections: policy maglev chooses the same "
			    "backend on all balancers"},
	{"lvs_netlink_cmd_rcv_bufs", NULL},
	{"snmp_socket", "Weir has no SNMP"},
	{"enable_snmp_checker", "Weir has no SNMP"},
	{"enable_snmp_vrrp", "Weir has no SNMP"},
	{"enable_dbus", "Weir has no D-Bus: use the control socket"},
	{NULL, NULL},
};

// --- global_defs --------------------------------------------------------------------------

static bool is_name(const char *text) {
	size_t bytes = strlen(text);

	return bytes > 0 && bytes < WEIR_CONFIG_NAME_BYTES && strchr("._-", text[0]) == NULL &&
	       text[strspn(text, "._-0123456789abcdefghijklmnopqrstuvwxyz"
				 "ABCDEFGHIJKLMNOPQRSTUVWXYZ")] == '\0';
}

static bool is_timeout(const char *name) {
	return strcmp(name, "tcp") == 0 || strcmp(name, "tcpfin") == 0 || strcmp(name, "udp") == 0;
}

// Reads a statement such as "lvs_timeouts tcp 7200 tcpfin 120 udp 60".
static void read_timeouts(
	struct weir_import *import, const struct weir_keepalived_statement *statement) {
	for (unsigned int i = 1; i < statement->count; i++) {
		const char *name = statement->word[i];
		const char *value = is_timeout(name) ? weir_keepalived_word(statement, i + 1) : "";
		char what[WEIR_IMPORT_TEXT_BYTES];
		uint64_t seconds;

		if (!weir_import_number(value, WEIR_IMPORT_TIMEOUT_S, &seconds) ||
			!weir_import_timeout(import, &statement->place, name, seconds)) {
			weir_import_note(import, &statement->place, WEIR_IMPORT_ADJUST,
				weir_keepalived_text(statement, what, sizeof(what)),
				"keepalived and the import ignore \"%s%s%s\": use tcp, tcpfin or "
				"udp, followed by seconds",
				name, value[0] != '\0' ? " " : "", value);
		}
		i += is_timeout(name);
	}
}

static void read_global(struct weir_import *import, const struct weir_keepalived_statement *block) {
	for (const struct weir_keepalived_statement *statement = block->children; statement != NULL;
		statement = statement->next) {
		const char *keyword = statement->word[0], *value;

		weir_keepalived_extra(import, statement);
		value = weir_keepalived_word(statement, 1);
		if (strcmp(keyword, "router_id") == 0 || strcmp(keyword, "lvs_id") == 0) {
			if (is_name(value)) {
				json_object_set_new(import->instance, "name", json_string(value));
			}
		} else if (strcmp(keyword, "lvs_timeouts") == 0) {
			read_timeouts(import, statement);
		} else if (strncmp(keyword, "vrrp_", 5) == 0) {
			weir_import_note(
				import, &statement->place, WEIR_IMPORT_LEFT_OUT, keyword, VRRP);
		} else {
			weir_keepalived_note(import, statement, global);
		}
	}
}

// --- the file -----------------------------------------------------------------------------

static void check_group(struct weir_import *import, const struct weir_keepalived_statement *group,
	const struct weir_keepalived_statement *first) {
	weir_keepalived_extra(import, group);
	for (; first != NULL; first = first->next) {
		if (strcmp(first->word[0], "virtual_server") == 0 &&
			strcmp(weir_keepalived_word(first, 1), "group") == 0 &&
			strcmp(weir_keepalived_word(first, 2), weir_keepalived_word(group, 1)) ==
				0) {
			return;
		}
	}
	weir_import_note(import, &group->place, WEIR_IMPORT_LEFT_OUT, group->word[0],
		"no virtual_server uses this virtual_server_group");
}

static bool is_top(const char *keyword) {
	const struct weir_keepalived_rest *row = top;

	while (row->name != NULL && strcmp(row->name, keyword) != 0) {
		row++;
	}
	return row->name != NULL;
}

static void suggest(struct weir_import *import, const struct weir_keepalived_statement *statement) {
	static const char *const known[] = {"virtual_server", "virtual_server_group", "global_defs",
		"vrrp_instance", "vrrp_script", "vrrp_sync_group"};
	const char *nearest = weir_nearest(statement->word[0], known, 6);
	char what[WEIR_IMPORT_TEXT_BYTES];

	if (nearest != NULL && !is_top(statement->word[0])) {
		weir_import_note(import, &statement->place,
			strncmp(nearest, "virtual", strlen("virtual")) == 0 ? WEIR_IMPORT_MISSING
									    : WEIR_IMPORT_LEFT_OUT,
			weir_keepalived_text(statement, what, sizeof(what)),
			"keepalived also skips this block: did you mean %s?", nearest);
	} else {
		weir_keepalived_note(import, statement, top);
	}
}

void weir_import_keepalived(struct weir_import *import, const struct weir_keepalived_files *files,
	const char *file, const char *text, size_t bytes) {
	struct weir_keepalived_tree tree;

	weir_keepalived_read(import, files, file, text, bytes, &tree);
	for (const struct weir_keepalived_statement *statement = tree.statements;
		statement != NULL && !import->failed; statement = statement->next) {
		const char *keyword = statement->word[0];

		if (strcmp(keyword, "global_defs") == 0) {
			read_global(import, statement);
		} else if (strcmp(keyword, "virtual_server") == 0) {
			weir_keepalived_server(import, statement, tree.statements);
		} else if (strcmp(keyword, "virtual_server_group") == 0) {
			check_group(import, statement, tree.statements);
		} else if (statement->block) {
			suggest(import, statement);
		} else {
			weir_keepalived_note(import, statement, top);
		}
	}
	weir_keepalived_free(&tree);
}
