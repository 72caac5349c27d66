// SPDX-License-Identifier: BSD-3-Clause
#include "api_request.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon.h"
#include "duration.h"
#include "plural.h"
#include "table_walk.h"

#define NAMES_BYTES 400
#define REMOVED_BYTES 256
const char *weir_api_text(const struct weir_api_call *call, const char *name) {
	return json_string_value(json_object_get(weir_api_request(call), name));
}

json_int_t weir_api_integer(
	const struct weir_api_call *call, const char *name, json_int_t fallback) {
	const json_t *value = json_object_get(weir_api_request(call), name);

	return json_is_integer(value) ? json_integer_value(value) : fallback;
}

// Fails a call because no dataplane is attached.
static void fail_unattached(
	const struct weir_daemon *daemon, struct weir_api_call *call, const char *what) {
	const char *why = weir_daemon_unattached(daemon);

	if (why != NULL) {
		weir_api_fail(call, WEIR_API_NO_DATAPLANE,
			"weir-control cannot attach to weir-dataplane: %s", why);
	} else {
		weir_api_fail(call, WEIR_API_NO_DATAPLANE,
			"%s: start weir-dataplane; if it is running, see the log of weir-control",
			what);
	}
}

bool weir_api_has_tables(const struct weir_daemon *daemon, struct weir_api_call *call) {
	if (daemon->tables == NULL) {
		fail_unattached(daemon, call, "no dataplane has been attached yet");
		return false;
	}
	return true;
}

bool weir_api_has_dataplane(const struct weir_daemon *daemon, struct weir_api_call *call) {
	if (daemon->segment == NULL) {
		fail_unattached(daemon, call, "no dataplane is attached");
		return false;
	}
	return true;
}

// Writes how long a removed service is still listed, and the commands that show its flows and
// backends; "" if it is no longer listed. Returns text.
static const char *removed_text(
	const struct weir_daemon *daemon, const char *service, char text[REMOVED_BYTES]) {
	int id = weir_tables_service_find_removed(daemon->tables, service);
	uint64_t now_ns = weir_daemon_now_ns();
	struct weir_service_state state;
	char left[WEIR_DURATION_BYTES];

	text[0] = '\0';
	if (id < 0 || weir_tables_service(daemon->tables, (uint16_t)id, &state) < 0) {
		return text;
	}
	if (state.removal == WEIR_DRAIN_DRAINING && state.removal_until_ns > now_ns) {
		snprintf(text, REMOVED_BYTES,
			": the service was removed, and drains for at most %s; ",
			weir_duration_text((state.removal_until_ns - now_ns) / 1000000, left));
	} else {
		snprintf(text, REMOVED_BYTES,
			": the service was removed, and is listed until its flows have ended and "
			"its binds no longer refuse packets; ");
	}
	strncat(text,
		"\"weirctl backend show\" and \"weirctl flow list\" without a service include its "
		"backends and flows",
		REMOVED_BYTES - strlen(text) - 1);
	return text;
}

// Returns whether the text is "SERVICE/", with the name of a service. This form selects all
// backends of the service in commands for backends.
static bool is_service_with_slash(const struct weir_daemon *daemon, const char *text) {
	char name[WEIR_CONFIG_NAME_BYTES] = "";
	size_t length = strlen(text);

	if (length < 2 || length > sizeof(name) || text[length - 1] != '/') {
		return false;
	}
	memcpy(name, text, length - 1);
	return weir_tables_service_find(daemon->tables, name) >= 0;
}

int weir_api_find_service(struct weir_daemon *daemon, struct weir_api_call *call) {
	const char *service = weir_api_text(call, "service");
	int id = weir_tables_service_find(daemon->tables, service);
	char text[REMOVED_BYTES];

	if (id < 0 && is_service_with_slash(daemon, service)) {
		weir_api_fail(call, WEIR_API_NOT_FOUND,
			"no such service: \"%.100s\": write the name without \"/\"", service);
	} else if (id < 0) {
		weir_api_fail(call, WEIR_API_NOT_FOUND, "no such service: \"%.100s\"%s", service,
			removed_text(daemon, service, text));
	}
	return id;
}

// Finds a backend by its name in any service, except removed backends. Returns its id, -ENOENT, or
// -EEXIST if several services (written to `services`) have a backend of this name.
static int search(const struct weir_daemon *daemon, const char *name, char services[NAMES_BYTES]) {
	uint32_t ids = weir_tables_backend_ids(daemon->tables);
	struct weir_backend_state state;
	size_t used = 0;
	int found = -ENOENT;
	bool ambiguous = false;

	services[0] = '\0';

	for (uint32_t id = 0; id < ids; id++) {
		if (weir_tables_backend(daemon->tables, (uint16_t)id, &state) < 0 ||
			state.leaving || strcmp(state.name, name) != 0) {
			continue;
		}
		ambiguous = ambiguous || found >= 0;
		found = (int)id;
		if (used < NAMES_BYTES) {
			used += (size_t)snprintf(services + used, NAMES_BYTES - used, "%s%s",
				used > 0 ? ", " : "", state.service);
		}
		if (ambiguous && used >= NAMES_BYTES) {
			break;
		}
	}
	return ambiguous ? -EEXIST : found;
}

void weir_api_no_backend(
	const struct weir_daemon *daemon, struct weir_api_call *call, const char *name, bool many) {
	char all[128] = "";

	if (weir_tables_service_find(daemon->tables, name) < 0) {
		weir_api_fail(call, WEIR_API_NOT_FOUND, "no such backend: \"%.100s\"", name);
		return;
	}
	if (many) {
		snprintf(all, sizeof(all), ", or %.100s/ for all its backends", name);
	}
	weir_api_fail(call, WEIR_API_NOT_FOUND,
		"no such backend: \"%.100s\"; a service has this name: specify SERVICE/NAME%s",
		name, all);
}

static int find_anywhere(struct weir_daemon *daemon, struct weir_api_call *call, const char *name) {
	char services[NAMES_BYTES];
	int found = search(daemon, name, services);

	if (found == -EEXIST) {
		weir_api_fail(call, WEIR_API_AMBIGUOUS,
			"several services have a backend \"%.100s\": specify the service (%s)",
			name, services);
	} else if (found < 0) {
		weir_api_no_backend(daemon, call, name, false);
	}
	return found;
}

// Finds the removed backends with this name that the tables still have. service: NULL = in any
// service. If some have flows, those without flows do not count. *ret_id: the first. *ret_flows:
// active flows of all. Returns their number.
static uint32_t find_removed(const struct weir_daemon *daemon, const char *service,
	const char *name, uint16_t *ret_id, uint64_t *ret_flows) {
	uint32_t ids = weir_tables_backend_ids(daemon->tables), count = 0;
	struct weir_backend_state state;

	*ret_flows = 0;
	for (uint32_t id = 0; id < ids; id++) {
		uint64_t flows;

		if (weir_tables_backend(daemon->tables, (uint16_t)id, &state) < 0 ||
			!state.leaving || strcmp(state.name, name) != 0 ||
			(service != NULL && strcmp(state.service, service) != 0)) {
			continue;
		}
		flows = weir_tables_backend_flows(daemon->tables, (uint16_t)id);
		if (count == 0 || (flows > 0 && *ret_flows == 0)) {
			*ret_id = (uint16_t)id;
			count = 1;
		} else if (flows > 0 || *ret_flows == 0) {
			count++;
		}
		*ret_flows += flows;
	}
	return count;
}

// Fails the call, because of a backend that was removed from the configuration.
static void fail_removed(struct weir_daemon *daemon, struct weir_api_call *call,
	const struct weir_backend_state *state, uint64_t flows) {
	char left[64] = "";

	if (daemon->segment != NULL) {
		snprintf(left, sizeof(left), ", and still has %llu active flow%s",
			(unsigned long long)flows, weir_plural(flows));
	}
	weir_api_fail(call, WEIR_API_NOT_FOUND,
		"backend \"%.100s\" of service \"%.100s\" was removed from the configuration%s",
		state->name, state->service, left);
}

int weir_api_find_backend(struct weir_daemon *daemon, struct weir_api_call *call) {
	const char *service = weir_api_text(call, "service");
	const char *name = weir_api_text(call, "backend");
	struct weir_backend_state state;
	uint16_t removed;
	uint64_t flows;
	int id = weir_api_peek_backend(daemon, call);

	if (id == -ENOENT && find_removed(daemon, service, name, &removed, &flows) > 0 &&
		weir_tables_backend(daemon->tables, removed, &state) == 0) {
		fail_removed(daemon, call, &state, flows);
		return -ENOENT;
	}
	if (service == NULL) {
		return find_anywhere(daemon, call, name);
	}
	if (id < 0 && weir_api_find_service(daemon, call) >= 0) {
		weir_api_fail(call, WEIR_API_NOT_FOUND,
			"service \"%.100s\" has no backend \"%.100s\"", service, name);
	}
	return id;
}

int weir_api_find_removed_backend(struct weir_daemon *daemon, struct weir_api_call *call,
	const char *service, const char *name) {
	uint16_t id;
	uint64_t flows;
	uint32_t count = find_removed(daemon, service, name, &id, &flows);

	if (count > 1) {
		weir_api_fail(call, WEIR_API_AMBIGUOUS,
			"%u removed backends have the name \"%.100s\"%s", count, name,
			service == NULL ? ": specify the service" : "");
		return -EEXIST;
	}
	return count == 1 ? id : -ENOENT;
}

int weir_api_find_any_backend(struct weir_daemon *daemon, struct weir_api_call *call) {
	int id = weir_api_peek_backend(daemon, call);

	if (id == -ENOENT) {
		id = weir_api_find_removed_backend(daemon, call, weir_api_text(call, "service"),
			weir_api_text(call, "backend"));
		if (id == -EEXIST) {
			return id;
		}
	}
	return id >= 0 ? id : weir_api_find_backend(daemon, call);
}

int weir_api_peek_backend(const struct weir_daemon *daemon, const struct weir_api_call *call) {
	const char *service = weir_api_text(call, "service");
	const char *name = weir_api_text(call, "backend");
	char services[NAMES_BYTES];

	if (daemon->tables == NULL || name == NULL) {
		return -ENOENT;
	}
	return service != NULL ? weir_tables_backend_find(daemon->tables, service, name)
			       : search(daemon, name, services);
}

// Converts an IPv4-mapped address, and its prefix length, to IPv4. Servers that listen for both
// families log an IPv4 client as ::ffff:192.0.2.7, so users search for this form.
static void unmap(struct weir_address *address, long *bits) {
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

	if (address->family == 6 && *bits > 96 &&
		memcmp(address->bytes, mapped, sizeof(mapped)) == 0) {
		*address = weir_address_of(4, address->bytes + sizeof(mapped));
		*bits -= 96;
	}
}

bool weir_api_parse_prefix(const char *text, struct weir_address *ret, uint8_t *ret_bits) {
	const char *slash = strchr(text, '/');
	size_t length = slash != NULL ? (size_t)(slash - text) : strlen(text);
	struct weir_address address;
	char copy[64] = "", *end = copy;
	long bits, most;

	if (length >= sizeof(copy)) {
		return false;
	}
	memcpy(copy, text, length);
	if (weir_address_parse(copy, &address) < 0) {
		return false;
	}
	most = address.family == 4 ? 32 : 128;
	bits = slash == NULL                        ? most
	       : slash[1] >= '0' && slash[1] <= '9' ? strtol(slash + 1, &end, 10)
						    : -1;
	if (bits < 0 || bits > most || (slash != NULL && *end != '\0')) {
		return false;
	}
	unmap(&address, &bits);
	*ret = address;
	*ret_bits = (uint8_t)bits;
	return true;
}

bool weir_api_parse_address(const char *text, struct weir_address *ret) {
	uint8_t bits;

	return strchr(text, '/') == NULL && weir_api_parse_prefix(text, ret, &bits);
}

void weir_api_publish_now(struct weir_daemon *daemon, struct weir_api_call *call) {
	int r;

	daemon->dirty = true;
	r = weir_daemon_publish(daemon);
	weir_api_not_published(call, weir_daemon_unpublished(daemon), r < 0);
}

// Fails the call because its request to the workers failed. error: -ENOTCONN, -ETIMEDOUT or
// -ENOMEM. limit_ms: time for which weir-control waits for a response.
static void fail_request(struct weir_api_call *call, int error, unsigned int limit_ms) {
	if (error == -ENOTCONN) {
		weir_api_fail(
			call, WEIR_API_NO_DATAPLANE, "the dataplane exited before it replied");
	} else if (error == -ETIMEDOUT) {
		weir_api_fail(call, WEIR_API_TIMEOUT,
			"no response from any worker within %u ms: weir-dataplane is hung or short "
			"of CPU time",
			limit_ms);
	} else {
		weir_api_fail(call, WEIR_API_INTERNAL, "out of memory");
	}
}

void weir_api_fail_lookup(struct weir_api_call *call, int error) {
	if (error == -EBUSY) {
		weir_api_fail(call, WEIR_API_REFUSED,
			"too many lookups are in progress: try again later");
	} else {
		fail_request(call, error, WEIR_LOOKUP_MS);
	}
}

void weir_api_fail_list(struct weir_api_call *call, int error) {
	if (error == -EBUSY) {
		weir_api_fail(call, WEIR_API_REFUSED,
			"%d lists of flows are in progress: try again later", WEIR_FLOW_LISTS_MAX);
	} else {
		fail_request(call, error, WEIR_TABLE_WALK_MS);
	}
}
