// SPDX-License-Identifier: BSD-3-Clause
#include "difference.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>

const char *weir_config_forwarding_name(enum weir_config_forwarding forwarding) {
	switch (forwarding) {
	case WEIR_CONFIG_IPIP:
		return "ipip";
	}
	return "unknown";
}

const char *weir_bind_format(const struct weir_config_bind *bind, char *buffer, size_t bytes) {
	char address[INET6_ADDRSTRLEN], ports[16];
	const char *protocol = bind->protocol == IPPROTO_TCP ? "tcp" : "udp";

	weir_address_format(&bind->address, address, sizeof(address));
	if (bind->port_first == 0 && bind->port_last == 65535) {
		snprintf(ports, sizeof(ports), "*");
	} else if (bind->port_first == bind->port_last) {
		snprintf(ports, sizeof(ports), "%u", bind->port_first);
	} else {
		snprintf(ports, sizeof(ports), "%u-%u", bind->port_first, bind->port_last);
	}
	snprintf(buffer, bytes, bind->address.family == 6 ? "%s [%s]:%s" : "%s %s:%s", protocol,
		address, ports);
	return buffer;
}

static const char *kind_name(enum weir_change_kind kind) {
	switch (kind) {
#define X(name, key) \
	case WEIR_CHANGE_##name: \
		return key;
		WEIR_CHANGE_KINDS(X)
#undef X
	}
	return "change";
}

json_t *weir_difference_json(const struct weir_difference *difference) {
	json_t *list = json_array();

	for (uint32_t i = 0; i < difference->count; i++) {
		const struct weir_change *change = &difference->change[i];
		json_t *item = json_pack("{s:s, s:s, s:s*, s:s*, s:s*}", "kind",
			kind_name(change->kind), "what", change->what, "from", change->from, "to",
			change->to, "note", change->needs_restart ? WEIR_CHANGE_RESTART : NULL);

		if (json_array_append_new(list, item) < 0) {
			json_decref(list);
			return NULL;
		}
	}
	return list;
}

const char *weir_change_format(const struct weir_change *change, char *buffer, size_t bytes) {
	const char *note_text = change->needs_restart ? " (" WEIR_CHANGE_RESTART ")" : "";

	if (change->from != NULL && change->to != NULL) {
		snprintf(buffer, bytes, "%s %s: %s -> %s%s", kind_name(change->kind), change->what,
			change->from, change->to, note_text);
	} else if (change->from != NULL || change->to != NULL) {
		snprintf(buffer, bytes, "%s %s: %s%s", kind_name(change->kind), change->what,
			change->from != NULL ? change->from : change->to, note_text);
	} else {
		snprintf(
			buffer, bytes, "%s %s%s", kind_name(change->kind), change->what, note_text);
	}
	return buffer;
}
