// SPDX-License-Identifier: BSD-3-Clause
//
// API handlers capture.start, capture.read and capture.stop, which show captured packets, and how
// the dataplane processed each of them.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api_audit.h"
#include "api_capture_filter.h"
#include "api_commands.h"
#include "api_show.h"
#include "daemon.h"

#define SNAPLEN_DEFAULT 128
#define RATE_DEFAULT 10000
#define BASE64_BYTES ((WEIR_CAPTURE_SNAP_MOST + 2) / 3 * 4 + 1)

struct reading { // one capture.read request
	struct weir_daemon *daemon;
	struct weir_api_call *call;
};

struct rows { // the rows of one answer
	struct weir_captured *packets;
	uint32_t count, at;
	int64_t since_1970_ns;
	char ports[WEIR_PORTS_MAX][WEIR_NAME_BYTES];
};

static const char *const action_names[] = {
#define X(name, key) [WEIR_ACTION_##name] = key,
	WEIR_ACTIONS(X)
#undef X
};
static const char *const choice_names[] = {
#define X(name, key) [WEIR_CHOICE_##name] = key,
	WEIR_CHOICES(X)
#undef X
};
static const char *const kind_names[] = {
#define X(name, key) [WEIR_PACKET_##name] = key,
	WEIR_PACKET_KINDS(X)
#undef X
};
static const char *const event_names[] = {
#define X(name, key) [WEIR_FLOW_EVENT_##name] = key,
	WEIR_FLOW_EVENT_LIST(X)
#undef X
};
static const char *const path_names[] = {
#define X(name, key) [WEIR_CAPTURE_PATH_##name] = key,
	WEIR_CAPTURE_PATHS(X)
#undef X
};
static const char *const end_names[] = {
#define X(name, key, text) [WEIR_CAPTURE_END_##name] = key,
	WEIR_CAPTURE_ENDS(X)
#undef X
};

// --- packets ------------------------------------------------------------------------------

static json_t *json_bytes(const uint8_t *bytes, uint32_t count) {
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	char text[BASE64_BYTES];
	uint32_t used = 0;

	for (uint32_t i = 0; i < count; i += 3) {
		uint32_t left = count - i;
		uint32_t word = (uint32_t)bytes[i] << 16 |
				(left > 1 ? (uint32_t)bytes[i + 1] << 8 : 0) |
				(left > 2 ? bytes[i + 2] : 0);

		text[used++] = digits[word >> 18];
		text[used++] = digits[word >> 12 & 63];
		text[used++] = left > 1 ? digits[word >> 6 & 63] : '=';
		text[used++] = left > 2 ? digits[word & 63] : '=';
	}
	return json_stringn(text, used);
}

// Returns the name of a value as JSON; null for WEIR_CAPTURE_NONE. weir_capture_take has checked
// that any other value has a name.
static json_t *json_name(const char *const *names, uint8_t value) {
	return value != WEIR_CAPTURE_NONE ? json_string(names[value]) : json_null();
}

static json_t *json_text(const char *text) {
	return text[0] != '\0' ? json_string(text) : json_null();
}

static json_t *json_hash(uint64_t hash) {
	char text[17];

	snprintf(text, sizeof(text), "%016llx", (unsigned long long)hash);
	return hash != 0 ? json_string(text) : json_null();
}

static json_t *json_packet(const struct rows *rows, const struct weir_captured *captured) {
	const struct weir_capture_record *record = &captured->packet.record;
	json_t *packet = json_object();

#define SET(key, value) (void)json_object_set_new(packet, key, value)
	SET("time_ns", json_integer(rows->since_1970_ns + (json_int_t)record->time_ns));
	SET("worker", json_integer(captured->worker));
	SET("port",
		record->port < WEIR_PORTS_MAX ? json_text(rows->ports[record->port]) : json_null());
	SET("length", json_integer(record->length));
	SET("data", json_bytes(captured->packet.data, record->saved));
	SET("action", json_name(action_names, record->action));
	SET("reason",
		record->reason != WEIR_CAPTURE_NONE
			? json_string(weir_drop_reason_name((enum weir_drop_reason)record->reason))
			: json_null());
	SET("choice", json_name(choice_names, record->choice));
	SET("service", json_text(captured->service));
	SET("backend", json_text(captured->backend));
	SET("out_port", record->out_port < WEIR_PORTS_MAX ? json_text(rows->ports[record->out_port])
							  : json_null());
	SET("kind", json_name(kind_names, record->kind));
	SET("event", json_name(event_names, record->event));
	SET("path", json_name(path_names, record->path));
	SET("hash", json_hash(record->hash));
	SET("bucket", record->bucket < WEIR_BUCKETS ? json_integer(record->bucket) : json_null());
	SET("tables", json_integer((json_int_t)captured->publications));
	SET("flow_state", record->flow_state != WEIR_CAPTURE_NONE
				  ? json_string(weir_api_flow_state_name(record->flow_state))
				  : json_null());
#undef SET
	return packet;
}

static int next_row(void *context, json_t **ret) {
	struct rows *rows = context;

	if (rows->at == rows->count) {
		return 0;
	}
	*ret = json_packet(rows, &rows->packets[rows->at++]);
	return 1;
}

static void free_rows(void *context) {
	struct rows *rows = context;

	free(rows->packets);
	free(rows);
}

static void name_ports(const struct weir_segment *segment, struct rows *rows) {
	for (uint32_t i = 0; segment != NULL && i < segment->ports; i++) {
		snprintf(rows->ports[i], sizeof(rows->ports[i]), "%.63s",
			segment->header->port[i].name);
	}
}

// --- readings -----------------------------------------------------------------------------

static void on_read(void *context, int error, struct weir_capture_reading *reading) {
	struct reading *request = context;
	struct weir_api_call *call = request->call;
	const uint32_t stalled = weir_daemon_stalls(request->daemon)->count;
	struct rows *rows = error == 0 ? calloc(1, sizeof(*rows)) : NULL;
	const struct weir_api_rows list = {next_row, free_rows, rows};

	if (rows == NULL) {
		free(request);
		weir_api_fail(call, WEIR_API_INTERNAL, "out of memory");
		return;
	}
	*rows = (struct rows){.packets = reading->packets,
		.count = reading->count,
		.since_1970_ns = reading->since_1970_ns};
	reading->packets = NULL;
	name_ports(request->daemon->segment, rows);
	free(request);
	weir_api_answer_rows(call,
		json_pack("{s:I, s:I, s:I, s:b, s:o}", "lost", (json_int_t)reading->lost, "limited",
			(json_int_t)reading->limited, "stalled", (json_int_t)stalled, "more",
			(int)reading->more, "ended", json_text(end_names[reading->ended])),
		"packets", &list);
}

// Checks that the argument `capture` is the ID of the last capture, and that the client's
// connection has started that capture. If not, fails the call and returns false.
static bool find_capture(const struct weir_daemon *daemon, struct weir_api_call *call) {
	const struct weir_capture_status status = weir_captures_status(daemon->captures);
	json_int_t number = weir_api_integer(call, "capture", 0);

	if (status.number == 0 || number != (json_int_t)status.number ||
		status.connection != weir_api_connection(call)) {
		weir_api_fail(call, WEIR_API_NOT_FOUND, "this connection has no capture %lld",
			(long long)number);
		return false;
	}
	return true;
}

void weir_api_capture_read(struct weir_daemon *daemon, struct weir_api_call *call) {
	struct reading *reading;

	if (!find_capture(daemon, call)) {
		return;
	}
	reading = calloc(1, sizeof(*reading));
	if (reading == NULL) {
		weir_api_fail(call, WEIR_API_INTERNAL, "out of memory");
		return;
	}
	*reading = (struct reading){.daemon = daemon, .call = call};
	weir_captures_read(daemon->captures, on_read, reading);
}

void weir_api_capture_stop(struct weir_daemon *daemon, struct weir_api_call *call) {
	struct weir_capture_status status;

	if (!find_capture(daemon, call)) {
		return;
	}
	weir_captures_stop(daemon->captures, WEIR_CAPTURE_END_STOPPED);
	status = weir_captures_status(daemon->captures);
	weir_api_answer(
		call, json_pack("{s:I, s:I, s:I}", "packets", (json_int_t)status.packets, "lost",
			      (json_int_t)status.lost, "limited", (json_int_t)status.limited));
}

// --- start --------------------------------------------------------------------------------

// Read an argument that is a whole number from `least` to `most`. otherwise: value if the request
// does not have the argument. On an error, fails the call and returns false.
static bool read_number(struct weir_api_call *call, const char *name, json_int_t least,
	json_int_t most, json_int_t otherwise, json_int_t *ret) {
	const json_t *value = json_object_get(weir_api_request(call), name);

	*ret = weir_api_integer(call, name, otherwise);
	if (value == NULL || json_is_null(value) ||
		(json_is_integer(value) && *ret >= least && *ret <= most)) {
		return true;
	}
	weir_api_fail(call, WEIR_API_BAD_REQUEST,
		"argument \"%s\" must be a whole number from %lld to %lld", name, (long long)least,
		(long long)most);
	return false;
}

static void on_disconnect(void *context, uint64_t connection) {
	const struct weir_daemon *daemon = context;

	if (weir_captures_status(daemon->captures).connection == connection) {
		weir_captures_stop(daemon->captures, WEIR_CAPTURE_END_CLOSED);
	}
}

static void fail_start(const struct weir_daemon *daemon, struct weir_api_call *call, int error) {
	const struct weir_capture_status status = weir_captures_status(daemon->captures);

	if (error == -EBUSY) {
		weir_api_fail(call, WEIR_API_BUSY,
			"user %u is already capturing packets (pid %d): stop that capture, or wait",
			(unsigned int)status.who.uid, (int)status.who.pid);
	} else {
		weir_api_fail(call, WEIR_API_INTERNAL, "out of memory");
	}
}

static json_t *json_ports(const struct weir_segment *segment) {
	json_t *ports = json_array();
	char name[WEIR_NAME_BYTES];

	for (uint32_t i = 0; i < segment->ports; i++) {
		snprintf(name, sizeof(name), "%.63s", segment->header->port[i].name);
		json_array_append_new(ports, json_string(name));
	}
	return ports;
}

void weir_api_capture_start(struct weir_daemon *daemon, struct weir_api_call *call) {
	const struct weir_api_peer *peer = weir_api_peer(call);
	struct weir_capture_request request = {
		.terms = {.service = WEIR_SERVICE_NONE, .backend = WEIR_BACKEND_NONE},
		.connection = weir_api_connection(call),
		.who = {.known = true, .uid = peer->uid, .gid = peer->gid, .pid = peer->pid}};
	json_int_t snaplen, rate, packets;
	uint64_t number;
	int r;

	if (!weir_api_has_dataplane(daemon, call) ||
		!read_number(call, "snaplen", WEIR_CAPTURE_SNAP_LEAST, WEIR_CAPTURE_SNAP_MOST,
			SNAPLEN_DEFAULT, &snaplen) ||
		!read_number(call, "rate", 1, WEIR_CAPTURE_RATE_MOST, RATE_DEFAULT, &rate) ||
		!read_number(call, "packets", 1, INT64_MAX, 0, &packets) ||
		!weir_api_capture_filter(daemon, call, &request.terms)) {
		return;
	}
	request.terms.snap_bytes = (uint32_t)snaplen;
	request.terms.interval_ns = WEIR_CAPTURE_SECOND_NS / (uint64_t)rate;
	request.packets = (uint64_t)packets;
	weir_api_capture_name(call, request.what);
	r = weir_captures_start(daemon->captures, &request, &number);
	if (r < 0) {
		fail_start(daemon, call, r);
		return;
	}
	weir_api_on_disconnect(call, on_disconnect, daemon);
	weir_api_audit_capture(call, &request, (uint32_t)rate);
	weir_api_answer(call, json_pack("{s:I, s:I, s:o}", "capture", (json_int_t)number, "workers",
				      (json_int_t)daemon->segment->workers, "ports",
				      json_ports(daemon->segment)));
}
