// SPDX-License-Identifier: BSD-3-Clause
#include "api_capture_filter.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api_request.h"
#include "append.h"
#include "daemon.h"
#include "nearest.h"

#define PORT_MAX 65535

struct filter { // a filter that is being parsed
	struct weir_daemon *daemon;
	struct weir_api_call *call;
	const json_t *value;
	struct weir_capture_terms *terms;
};

static const char *const reason_names[] = {
#define X(name, key, text) [WEIR_DROP_##name] = key,
	WEIR_DROP_REASONS(X)
#undef X
};

static const char *const action_names[] = {
#define X(name, key) [WEIR_ACTION_##name] = key,
	WEIR_ACTIONS(X)
#undef X
};

static const char *text_of(const struct filter *filter, const char *key) {
	return json_string_value(json_object_get(filter->value, key));
}

// Fails the call because a name is unknown. what: the kind of name, for the message. names: the
// known names, for the message. Returns false.
static bool unknown(const struct filter *filter, enum weir_api_code code, const char *what,
	const char *name, const char *const *names, uint32_t count) {
	const char *nearest = weir_nearest(name, names, count);

	weir_api_fail(filter->call, code, "no such %s: \"%.100s\"%s%.100s%s", what, name,
		nearest != NULL ? "; did you mean \"" : "", nearest != NULL ? nearest : "",
		nearest != NULL ? "\"?" : "");
	return false;
}

static bool wrong(const struct filter *filter, const char *key, const char *must) {
	weir_api_fail(
		filter->call, WEIR_API_BAD_REQUEST, "\"%s\" of the filter must be %s", key, must);
	return false;
}

// --- services and backends ----------------------------------------------------------------

static bool unknown_service(const struct filter *filter, const char *name) {
	const struct weir_tables *tables = filter->daemon->tables;
	uint32_t ids = weir_tables_service_ids(tables), count = 0;
	const char **names = calloc(ids + 1, sizeof(*names));

	for (uint32_t id = 0; names != NULL && id < ids; id++) {
		const char *service = weir_tables_service_name(tables, (uint16_t)id);

		if (service != NULL) {
			names[count++] = service;
		}
	}
	(void)unknown(filter, WEIR_API_NOT_FOUND, "service", name, names, count);
	free(names);
	return false;
}

static bool unknown_backend(const struct filter *filter, const char *name) {
	const struct weir_tables *tables = filter->daemon->tables;
	uint32_t ids = weir_tables_backend_ids(tables), count = 0;
	const char **names = calloc(ids + 1, sizeof(*names));

	for (uint32_t id = 0; names != NULL && id < ids; id++) {
		struct weir_backend_state state;

		if (weir_tables_backend(tables, (uint16_t)id, &state) == 0 && !state.leaving &&
			state.service_id == filter->terms->service) {
			names[count++] = weir_tables_backend_name(tables, (uint16_t)id);
		}
	}
	(void)unknown(filter, WEIR_API_NOT_FOUND, "backend", name, names, count);
	free(names);
	return false;
}

static bool read_owner(const struct filter *filter) {
	const char *service = text_of(filter, "service"), *backend = text_of(filter, "backend");
	int id;

	if (backend != NULL && service == NULL) {
		weir_api_fail(filter->call, WEIR_API_BAD_REQUEST,
			"a filter with \"backend\" must also have \"service\"");
		return false;
	}
	if (service == NULL) {
		return true;
	}
	id = weir_tables_service_find(filter->daemon->tables, service);
	if (id < 0) {
		return unknown_service(filter, service);
	}
	filter->terms->service = (uint16_t)id;
	if (backend == NULL) {
		return true;
	}
	id = weir_tables_backend_find(filter->daemon->tables, service, backend);
	if (id < 0) {
		id = weir_api_find_removed_backend(filter->daemon, filter->call, service, backend);
	}
	if (id == -EEXIST) {
		return false;
	}
	if (id < 0) {
		return unknown_backend(filter, backend);
	}
	filter->terms->backend = (uint16_t)id;
	return true;
}

// --- sets ---------------------------------------------------------------------------------

// Converts the list of names in the filter's member `key` to a bit set: bit i = names[i]. The set
// is 0 if there is no list. On an error, fails the call and returns false.
static bool read_set(const struct filter *filter, const char *key, const char *what,
	const char *const *names, uint32_t count, uint64_t *ret) {
	const json_t *list = json_object_get(filter->value, key);
	const json_t *item;
	size_t i;

	*ret = 0;
	if (list == NULL || json_is_null(list)) {
		return true;
	}
	if (!json_is_array(list) || json_array_size(list) == 0) {
		return wrong(filter, key, "an array of names");
	}
	json_array_foreach (list, i, item) {
		const char *name = json_string_value(item);
		uint32_t bit = 0;

		if (name == NULL) {
			return wrong(filter, key, "an array of names");
		}
		while (bit < count && strcmp(names[bit], name) != 0) {
			bit++;
		}
		if (bit == count) {
			return unknown(filter, WEIR_API_BAD_REQUEST, what, name, names, count);
		}
		*ret |= UINT64_C(1) << bit;
	}
	return true;
}

static bool read_sets(const struct filter *filter) {
	uint64_t actions;

	if (!read_set(filter, "reasons", "drop reason", reason_names, WEIR_DROP_REASON_COUNT,
		    &filter->terms->reasons) ||
		!read_set(filter, "actions", "action", action_names, WEIR_ACTION_COUNT, &actions)) {
		return false;
	}
	filter->terms->actions = (uint32_t)actions;
	return true;
}

// --- flows --------------------------------------------------------------------------------

static bool read_protocol(const struct filter *filter) {
	const char *text = text_of(filter, "protocol");

	if (text == NULL) {
		return true;
	}
	if (strcmp(text, "tcp") == 0) {
		filter->terms->protocol = IPPROTO_TCP;
	} else if (strcmp(text, "udp") == 0) {
		filter->terms->protocol = IPPROTO_UDP;
	} else if (strcmp(text, "icmp") == 0) {
		filter->terms->protocol = WEIR_CAPTURE_ICMP;
	} else {
		return wrong(filter, "protocol", "\"tcp\", \"udp\" or \"icmp\"");
	}
	return true;
}

static bool read_addresses(const struct filter *filter) {
	const char *client = text_of(filter, "client"), *to = text_of(filter, "destination");
	struct weir_capture_terms *terms = filter->terms;
	struct weir_address address;

	if (client != NULL) {
		if (!weir_api_parse_prefix(client, &address, &terms->client_bits)) {
			return wrong(filter, "client", "an address, or a prefix like 192.0.2.0/24");
		}
		terms->client_family = address.family;
		memcpy(terms->client, address.bytes, sizeof(terms->client));
	}
	if (to != NULL) {
		if (!weir_api_parse_address(to, &address)) {
			return wrong(filter, "destination", "an address");
		}
		terms->destination_family = address.family;
		memcpy(terms->destination, address.bytes, sizeof(terms->destination));
	}
	return true;
}

static bool read_port(const struct filter *filter, const char *key, uint16_t *ret) {
	const json_t *value = json_object_get(filter->value, key);
	json_int_t number = json_integer_value(value);

	if (value == NULL || json_is_null(value)) {
		return true;
	}
	if (!json_is_integer(value) || number < 1 || number > PORT_MAX) {
		return wrong(filter, key, "a number from 1 to 65535");
	}
	*ret = (uint16_t)number;
	return true;
}

// --- complete filter ----------------------------------------------------------------------

// If two terms of the filter contradict each other, fails the call and returns false. Does not
// check all pairs of terms: for example, not service and destination. Without this check, a client
// with such a filter would wait forever.
static bool can_match(const struct filter *filter) {
	static const uint32_t with_reasons = 1u << WEIR_ACTION_DROP | 1u << WEIR_ACTION_REPLY;
	const struct weir_capture_terms *terms = filter->terms;

	if (terms->client_family != 0 && terms->destination_family != 0 &&
		terms->client_family != terms->destination_family) {
		return wrong(filter, "destination", "of the same IP version as \"client\"");
	}
	if (terms->protocol == WEIR_CAPTURE_ICMP &&
		(terms->source_port != 0 || terms->destination_port != 0)) {
		return wrong(filter, "protocol",
			"\"tcp\" or \"udp\" if the filter has a port: ICMP has no ports");
	}
	if (terms->reasons != 0 && terms->actions != 0 && (terms->actions & with_reasons) == 0) {
		return wrong(
			filter, "actions", "\"drop\" or \"reply\" if the filter has \"reasons\"");
	}
	return true;
}

static bool check_keys(const struct filter *filter) {
	static const char *const keys[] = {"service", "backend", "reasons", "actions", "protocol",
		"client", "destination", "source_port", "destination_port"};
	const uint32_t count = sizeof(keys) / sizeof(keys[0]);
	static const uint32_t texts = 0x73; // bit i: the value of keys[i] is a string
	const char *key;
	json_t *value;

	json_object_foreach ((json_t *)filter->value, key, value) {
		uint32_t at = 0;

		while (at < count && strcmp(keys[at], key) != 0) {
			at++;
		}
		if (at == count) {
			return unknown(filter, WEIR_API_BAD_REQUEST, "filter", key, keys, count);
		}
		if ((texts >> at & 1) != 0 && !json_is_string(value) && !json_is_null(value)) {
			return wrong(filter, key, "a string");
		}
	}
	return true;
}

bool weir_api_capture_filter(
	struct weir_daemon *daemon, struct weir_api_call *call, struct weir_capture_terms *terms) {
	const struct filter filter = {.daemon = daemon,
		.call = call,
		.value = json_object_get(weir_api_request(call), "filter"),
		.terms = terms};

	if (filter.value == NULL || json_is_null(filter.value)) {
		return true;
	}
	return check_keys(&filter) && read_owner(&filter) && read_sets(&filter) &&
	       read_protocol(&filter) && read_addresses(&filter) &&
	       read_port(&filter, "source_port", &terms->source_port) &&
	       read_port(&filter, "destination_port", &terms->destination_port) &&
	       can_match(&filter);
}

// Append a value of the filter to the text, after a space.
static void append_value(char *text, const json_t *value) {
	char *other;

	if (json_is_string(value)) {
		weir_append(text, WEIR_AUDIT_OBJECT_BYTES, " %s", json_string_value(value));
		return;
	}
	other = json_dumps(value, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY);
	weir_append(text, WEIR_AUDIT_OBJECT_BYTES, " %s", other != NULL ? other : "");
	free(other);
}

void weir_api_capture_name(const struct weir_api_call *call, char *ret) {
	json_t *filter = json_object_get(weir_api_request(call), "filter"), *value, *element;
	const char *key;
	size_t i;

	ret[0] = '\0';
	json_object_foreach (filter, key, value) {
		weir_append(ret, WEIR_AUDIT_OBJECT_BYTES, "%s%s", ret[0] != '\0' ? ", " : "", key);
		if (!json_is_array(value)) {
			append_value(ret, value);
		}
		json_array_foreach (value, i, element) {
			append_value(ret, element);
		}
	}
	if (ret[0] == '\0') {
		snprintf(ret, WEIR_AUDIT_OBJECT_BYTES, "all packets");
	}
}
