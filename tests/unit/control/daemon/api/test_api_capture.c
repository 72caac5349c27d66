// SPDX-License-Identifier: BSD-3-Clause
//
// Tests capture.start, capture.read and capture.stop: arguments, answers, and the end of a capture.
// The test writes the packet records of the workers.
#include "daemon_web.h"

#include <netinet/in.h>
#include <stdio.h>
#include <unistd.h>

#include "capture.h"

#define WORKER 1

static json_t *ask(int fd, const char *request) {
	json_t *answer;

	lab_send(fd, request, strlen(request));
	lab_send(fd, "\n", 1);
	answer = lab_read_answer(fd);
	assert_non_null(answer);
	return answer;
}

static json_t *result(int fd, const char *request) {
	json_t *answer = ask(fd, request), *value = json_object_get(answer, "result");

	if (value == NULL) {
		fail_msg("%s: %s", request, json_string_value(json_object_get(answer, "error")));
	}
	json_incref(value);
	json_decref(answer);
	return value;
}

static const char *text_of(const json_t *object, const char *name) {
	const char *text = json_string_value(json_object_get(object, name));

	return text != NULL ? text : "(no text)";
}

static json_int_t number_of(const json_t *object, const char *name) {
	return json_integer_value(json_object_get(object, name));
}

static void expect_error(int fd, const char *request, const char *code, const char *part) {
	json_t *answer = ask(fd, request);

	if (strcmp(text_of(answer, "code"), code) != 0 ||
		strstr(text_of(answer, "error"), part) == NULL) {
		fail_msg("%s: %s: %s", request, text_of(answer, "code"), text_of(answer, "error"));
	}
	json_decref(answer);
}

static json_int_t start(int fd, const char *arguments) {
	char request[1024];
	json_t *started;
	json_int_t capture;

	snprintf(request, sizeof(request), JSON({"command": "capture.start"%s}), arguments);
	started = result(fd, request);
	capture = number_of(started, "capture");
	assert_int_equal(number_of(started, "workers"), 2);
	assert_int_equal(json_array_size(json_object_get(started, "ports")), 1);
	json_decref(started);
	return capture;
}

static json_t *read_packets(int fd, json_int_t capture) {
	char request[128];

	snprintf(request, sizeof(request),
		JSON({"command": "capture.read", "capture": %lld}), (long long)capture);
	return result(fd, request);
}

static void stop(int fd, json_int_t capture, json_int_t packets) {
	char request[128];
	json_t *stopped;

	snprintf(request, sizeof(request),
		JSON({"command": "capture.stop", "capture": %lld}), (long long)capture);
	stopped = result(fd, request);
	assert_int_equal(number_of(stopped, "packets"), packets);
	json_decref(stopped);
}

// --- simulated dataplane -------------------------------------------------------------------------

static struct weir_segment *segment_of(struct web *web) {
	return lab_dataplane_segment(web->dataplane);
}

// Returns the active capture order.
static struct weir_capture_terms terms_of(struct web *web) {
	struct weir_capture_terms terms;
	uint64_t number = weir_capture_wanted(segment_of(web));

	assert_int_not_equal(number, 0);
	assert_int_equal(weir_capture_read(segment_of(web), number, &terms), 0);
	return terms;
}

static struct weir_capture_record record_of(struct web *web) {
	struct weir_segment *segment = segment_of(web);

	return (struct weir_capture_record){.time_ns = lab_now_ms() * 1000000,
		.number = weir_capture_wanted(segment),
		.hash = 0x1234,
		.tables = segment->news->updates,
		.length = 60,
		.saved = 5,
		.bucket = WEIR_CAPTURE_NO_BUCKET,
		.service = 0,
		.backend = 1,
		.action = WEIR_ACTION_FORWARD,
		.reason = WEIR_CAPTURE_NONE,
		.choice = WEIR_CHOICE_NEW,
		.kind = WEIR_PACKET_FLOW,
		.event = WEIR_FLOW_EVENT_SYN,
		.path = WEIR_CAPTURE_PATH_SLOW,
		.flow_state = WEIR_FLOW_SYN_SEEN};
}

static void put(struct web *web, uint32_t worker, struct weir_capture_record record) {
	struct weir_segment *segment = segment_of(web);
	uint8_t data[WEIR_CAPTURE_SNAP_MOST] = {0xff, 0xee, 'a', 'b', 0};

	assert_true(weir_capture_put(&segment->capture_rings[worker],
		&segment->capture_control->read[worker], &record, data));
}

// --- answers ------------------------------------------------------------------------------------

TEST_GROUP(lab_own_network);
TEST_GROUP(web_start, web_stop);

TEST(a_packet_is_shown_with_names) {
	struct web *web = *state;
	int fd = lab_connect(&web->lab);
	json_int_t capture = start(fd, "");
	struct weir_capture_record record = record_of(web);
	json_t *reading, *packet;

	put(web, WORKER, record);
	reading = read_packets(fd, capture);
	packet = json_array_get(json_object_get(reading, "packets"), 0);
	assert_int_equal(json_array_size(json_object_get(reading, "packets")), 1);
	assert_string_equal(text_of(packet, "data"), "/+5hYgA=");
	assert_string_equal(text_of(packet, "service"), "web");
	assert_string_equal(text_of(packet, "backend"), "w-2");
	assert_string_equal(text_of(packet, "port"), "wan");
	assert_string_equal(text_of(packet, "out_port"), "wan");
	assert_string_equal(text_of(packet, "action"), "forward");
	assert_string_equal(text_of(packet, "choice"), "new");
	assert_string_equal(text_of(packet, "kind"), "flow");
	assert_string_equal(text_of(packet, "event"), "syn");
	assert_string_equal(text_of(packet, "path"), "slow");
	assert_string_equal(text_of(packet, "hash"), "0000000000001234");
	assert_string_equal(text_of(packet, "flow_state"), "syn-seen");
	assert_true(json_is_null(json_object_get(packet, "reason")));
	assert_true(json_is_null(json_object_get(packet, "bucket")));
	assert_int_equal(number_of(packet, "worker"), WORKER);
	assert_int_equal(number_of(packet, "length"), 60);
	// "tables" is the number that stats.show calls "publications". It is not the position in
	// the update log.
	assert_int_equal(
		number_of(packet, "tables"), (json_int_t)segment_of(web)->notes->publications);
	assert_true(number_of(packet, "time_ns") > 1700000000000000000ll); // nanoseconds since 1970
	assert_true(json_is_null(json_object_get(reading, "ended")));
	assert_true(json_is_false(json_object_get(reading, "more")));
	json_decref(reading);
	reading = read_packets(fd, capture); // this request waits for a packet, but none arrives
	assert_int_equal(json_array_size(json_object_get(reading, "packets")), 0);
	json_decref(reading);
	stop(fd, capture, 1);
	assert_int_equal(weir_capture_wanted(segment_of(web)), 0);
	reading = read_packets(fd, capture);
	assert_string_equal(text_of(reading, "ended"), "stopped");
	json_decref(reading);
	close(fd);
}

TEST(a_packet_without_a_pipeline_has_nulls) {
	static const char *const nulls[] = {"service", "backend", "port", "out_port", "kind",
		"event", "path", "hash", "flow_state", "bucket"};
	struct web *web = *state;
	int fd = lab_connect(&web->lab);
	json_int_t capture = start(fd, "");
	struct weir_capture_record record = {.number = weir_capture_wanted(segment_of(web)),
		.service = WEIR_SERVICE_NONE,
		.backend = WEIR_BACKEND_NONE,
		.port = WEIR_CAPTURE_NONE,
		.out_port = WEIR_CAPTURE_NONE,
		.action = WEIR_ACTION_DROP,
		.reason = WEIR_DROP_HANDOFF_FULL,
		.kind = WEIR_CAPTURE_NONE,
		.event = WEIR_CAPTURE_NONE,
		.path = WEIR_CAPTURE_NONE,
		.bucket = WEIR_CAPTURE_NO_BUCKET,
		.flow_state = WEIR_CAPTURE_NONE};
	json_t *reading, *packet;

	put(web, 0, record);
	reading = read_packets(fd, capture);
	packet = json_array_get(json_object_get(reading, "packets"), 0);
	assert_string_equal(text_of(packet, "reason"), "handoff_full");
	assert_string_equal(text_of(packet, "action"), "drop");
	assert_string_equal(text_of(packet, "data"), "");
	for (size_t i = 0; i < sizeof(nulls) / sizeof(nulls[0]); i++) {
		if (!json_is_null(json_object_get(packet, nulls[i]))) {
			fail_msg("%s is not null", nulls[i]);
		}
	}
	json_decref(reading);
	stop(fd, capture, 1);
	close(fd);
}

// Two workers have more packets than fit into one answer. The packets are returned in the order of
// their times, without duplicates or gaps.
TEST(packets_of_workers_are_ordered_by_time) {
	struct web *web = *state;
	int fd = lab_connect(&web->lab);
	json_int_t capture = start(fd, ", \"rate\": 1000000"), count = 0, last = 0;
	struct weir_capture_record record = record_of(web);
	bool more = true;

	for (uint64_t i = 0; i < 1200; i++) {
		record.time_ns = i + 1;
		put(web, i % 3 == 0 ? 0 : 1, record);
	}
	while (more) {
		json_t *reading = read_packets(fd, capture), *packet;
		size_t i;

		json_array_foreach (json_object_get(reading, "packets"), i, packet) {
			assert_true(number_of(packet, "time_ns") > last || count % 500 == 0);
			last = number_of(packet, "time_ns");
			count++;
		}
		assert_true(i <= 500);
		more = json_is_true(json_object_get(reading, "more"));
		json_decref(reading);
	}
	assert_int_equal(count, 1200);
	stop(fd, capture, 1200);
	close(fd);
}

TEST(packets_not_recorded_are_counted) {
	struct web *web = *state;
	struct weir_capture_ring *rings = segment_of(web)->capture_rings;
	int fd = lab_connect(&web->lab);
	json_int_t capture = start(fd, "");
	json_t *reading;

	for (uint32_t worker = 0; worker < 2; worker++) {
		weir_capture_begin(&rings[worker], weir_capture_wanted(segment_of(web)));
		rings[worker].lost = 3 + worker;
		rings[worker].limited = 10;
	}
	reading = read_packets(fd, capture);
	assert_int_equal(number_of(reading, "lost"), 7);
	assert_int_equal(number_of(reading, "limited"), 20);
	json_decref(reading);
	stop(fd, capture, 0);
	close(fd);
}

TEST(stalled_workers_are_counted) {
	struct web *web = *state;
	int fd = lab_connect(&web->lab);
	json_int_t capture = start(fd, ""), stalled = 0;

	lab_dataplane_hang(web->dataplane, true);
	for (uint64_t until = lab_now_ms() + LAB_DEADLINE_MS;
		stalled < 2 && lab_now_ms() < until;) {
		json_t *reading = read_packets(fd, capture);

		stalled = number_of(reading, "stalled");
		json_decref(reading);
	}
	lab_dataplane_hang(web->dataplane, false);
	assert_int_equal(stalled, 2);
	stop(fd, capture, 0);
	close(fd);
}

// --- end ----------------------------------------------------------------------------------------

static json_t *last_entry(struct web *web, json_t **holder) {
	*holder = lab_result(&web->lab, JSON({"command": "audit.show"}));
	return json_array_get(*holder, json_array_size(*holder) - 1);
}

TEST(a_number_of_packets_ends_it) {
	struct web *web = *state;
	int fd = lab_connect(&web->lab);
	json_int_t capture = start(fd, ", \"packets\": 2, \"filter\": {\"service\": \"web\"}");
	json_t *reading, *audit, *entry;

	for (int i = 0; i < 3; i++) {
		put(web, 0, record_of(web));
	}
	reading = read_packets(fd, capture);
	assert_int_equal(json_array_size(json_object_get(reading, "packets")), 2);
	assert_string_equal(text_of(reading, "ended"), "packets");
	assert_true(json_is_false(json_object_get(reading, "more")));
	json_decref(reading);
	assert_int_equal(weir_capture_wanted(segment_of(web)), 0);
	entry = last_entry(web, &audit);
	assert_string_equal(text_of(entry, "command"), "capture.stop");
	assert_string_equal(text_of(entry, "object"), "service web");
	assert_string_equal(
		text_of(entry, "after"), "2 packets read, 0 lost, 0 over the rate limit");
	assert_string_equal(text_of(entry, "why"), "packet limit reached");
	entry = json_array_get(audit, json_array_size(audit) - 2);
	assert_string_equal(text_of(entry, "command"), "capture.start");
	assert_string_equal(text_of(entry, "after"),
		"at most 128 bytes of each packet, 10000 packets per second "
		"and worker, ends after 2 packets");
	json_decref(audit);
	close(fd);
}

TEST(the_end_of_its_connection_ends_it) {
	struct web *web = *state;
	int fd = lab_connect(&web->lab), other = lab_connect(&web->lab);
	json_int_t capture = start(fd, "");
	char request[128];
	json_t *audit;

	expect_error(
		other, JSON({"command": "capture.start"}), "busy", "is already capturing packets");
	snprintf(request, sizeof(request),
		JSON({"command": "capture.read", "capture": %lld}), (long long)capture);
	expect_error(other, request, "not-found", "this connection has no capture");
	expect_error(fd, JSON({"command": "capture.read", "capture": 999999}), "not-found", "999999");
	expect_error(fd, JSON({"command": "capture.stop", "capture": 0}), "not-found", "no capture 0");
	close(fd);
	LAB_UNTIL(weir_capture_wanted(segment_of(web)) == 0);
	LAB_UNTIL(strcmp(text_of(last_entry(web, &audit), "why"),
			  "the connection of the client was closed") == 0 ||
		  (json_decref(audit), false));
	json_decref(audit);
	capture = start(other, "");
	stop(other, capture, 0);
	close(other);
}

// The client disconnects while its request waits for packets.
TEST(a_reader_may_disconnect_in_the_middle) {
	struct web *web = *state;
	int fd = lab_connect(&web->lab);
	json_int_t capture = start(fd, "");
	char request[128];

	snprintf(request, sizeof(request), "{\"command\": \"capture.read\", \"capture\": %lld}\n",
		(long long)capture);
	lab_send(fd, request, strlen(request));
	close(fd);
	LAB_UNTIL(weir_capture_wanted(segment_of(web)) == 0);
}

TEST(the_end_of_the_dataplane_ends_it) {
	struct web *web = *state;
	int fd = lab_connect(&web->lab);
	json_int_t capture = start(fd, "");
	char request[128];
	json_t *answer;

	snprintf(request, sizeof(request), "{\"command\": \"capture.read\", \"capture\": %lld}\n",
		(long long)capture);
	lab_send(fd, request, strlen(request));
	lab_dataplane_stop(web->dataplane);
	answer = lab_read_answer(fd);
	assert_string_equal(text_of(json_object_get(answer, "result"), "ended"), "no-dataplane");
	json_decref(answer);
	expect_error(fd, JSON({"command": "capture.start"}), "no-dataplane", "start weir-dataplane");
	web->dataplane = lab_dataplane_start(&web->lab, 2);
	LAB_UNTIL(lab_attached(&web->lab));
	capture = start(fd, "");
	stop(fd, capture, 0);
	close(fd);
}

// A control process was killed while its capture order was active.
TEST(a_new_control_process_withdraws_the_order) {
	struct web *web = *state;
	int fd = lab_connect(&web->lab);

	(void)start(fd, "");
	lab_kill(&web->lab);
	close(fd);
	assert_int_not_equal(weir_capture_wanted(segment_of(web)), 0);
	lab_start(&web->lab);
	LAB_UNTIL(lab_attached(&web->lab));
	assert_int_equal(weir_capture_wanted(segment_of(web)), 0);
}

// --- names --------------------------------------------------------------------------------------

#define DNS_AND(services) services ", " DNS_SERVICE
#define WEB_OF(name, address) \
	"{\"name\": \"web\", \"binds\": [{\"address\": \"198.51.100.10\", \"protocol\": \"tcp\", " \
	"\"port\": 80}], \"table_size\": 1009, \"backends\": [{\"name\": \"w-1\", \"address\": " \
	"\"10.0.1.11\", \"weight\": 100}, {\"name\": \"" name "\", \"address\": \"" address \
	"\", \"weight\": 300}]}"

static void reload(struct web *web, const char *services) {
	lab_write_config(&web->lab, services);
	json_decref(lab_result(&web->lab, JSON({"command": "config.reload"})));
}

static json_int_t id_of(struct web *web, const char *backend) {
	json_t *list = lab_result(&web->lab, JSON({"command": "backend.show"})), *row;
	json_int_t id = -1;
	size_t i;

	json_array_foreach (list, i, row) {
		if (strcmp(text_of(row, "name"), backend) == 0) {
			id = number_of(row, "id");
		}
	}
	json_decref(list);
	return id;
}

// Before a captured packet is read, its backend is removed, and another backend gets the same id.
// The packet must still have the name of the removed backend.
TEST(names_are_those_at_the_time_of_the_packet) {
	struct web *web = *state;
	int fd = lab_connect(&web->lab);
	json_int_t capture = start(fd, ""), id = id_of(web, "w-2");
	struct weir_capture_record record = record_of(web);
	json_t *reading, *packets;

	record.backend = (uint16_t)id;
	put(web, 0, record);
	reload(web, DNS_AND(JSON({"name": "web", "binds": [{"address": "198.51.100.10",
		"protocol": "tcp", "port": 80}], "table_size": 1009, "backends": [{"name": "w-1",
		"address": "10.0.1.11"}]})));
	LAB_UNTIL(id_of(web, "w-2") < 0);
	reload(web, DNS_AND(WEB_OF("w-9", "10.0.1.19")));
	assert_int_equal(id_of(web, "w-9"), id);
	record.tables = segment_of(web)->news->updates;
	record.time_ns++;
	put(web, 0, record);
	reading = read_packets(fd, capture);
	packets = json_object_get(reading, "packets");
	assert_int_equal(json_array_size(packets), 2);
	assert_true(json_is_null(json_object_get(json_array_get(packets, 0), "backend")));
	assert_string_equal(text_of(json_array_get(packets, 0), "service"), "web");
	assert_string_equal(text_of(json_array_get(packets, 1), "backend"), "w-9");
	json_decref(reading);
	stop(fd, capture, 2);
	close(fd);
	reload(web, WEB_SERVICES ", " DNS_SERVICE);
}

#define WEB_WITHOUT_W2 \
	DNS_AND(JSON({"name": "web", "binds": [{"address": "198.51.100.10", "protocol": "tcp", \
		"port": 80}], "table_size": 1009, "backends": [{"name": "w-1", \
		"address": "10.0.1.11"}]}))

// A backend that a reload has removed is in the tables until its flows end. Until then a filter may
// name it.
TEST(filter_names_a_removed_backend) {
	struct web *web = *state;
	int fd = lab_connect(&web->lab);
	json_int_t capture, id = id_of(web, "w-2");
	struct weir_share_counters *flows =
		weir_segment_backend_counters(segment_of(web), 0, (uint16_t)id);

	__atomic_store_n(&flows->active_flows, flows->active_flows + 3, __ATOMIC_RELAXED);
	reload(web, WEB_WITHOUT_W2);
	capture = start(fd, ", \"filter\": {\"service\": \"web\", \"backend\": \"w-2\"}");
	assert_int_equal(terms_of(web).backend, id);
	stop(fd, capture, 0);
	close(fd);
	__atomic_store_n(&flows->active_flows, flows->active_flows - 3, __ATOMIC_RELAXED);
	reload(web, WEB_SERVICES ", " DNS_SERVICE);
}

// --- arguments ----------------------------------------------------------------------------------

TEST(arguments_are_checked) {
	static const struct {
		const char *arguments, *code, *part;
	} rows[] = {
		{"\"snaplen\": 63", "bad-request", "from 64 to 1536"},
		{"\"snaplen\": 1537", "bad-request", "from 64 to 1536"},
		{"\"snaplen\": 64.5", "bad-request", "whole number"},
		{"\"rate\": 0", "bad-request", "from 1 to 1000000"},
		{"\"rate\": 1000001", "bad-request", "from 1 to 1000000"},
		{"\"packets\": 0", "bad-request", "\"packets\""},
		{"\"filter\": []", "bad-request", "must be an object"},
		{"\"filter\": {\"servce\": \"web\"}", "bad-request",
			"no such filter: \"servce\"; did you mean \"service\"?"},
		{"\"filter\": {\"service\": 7}", "bad-request", "must be a string"},
		{"\"filter\": {\"service\": \"wbe\"}", "not-found",
			"no such service: \"wbe\"; did you mean \"web\"?"},
		{"\"filter\": {\"backend\": \"w-1\"}", "bad-request", "must also have \"service\""},
		{"\"filter\": {\"service\": \"web\", \"backend\": \"w-3\"}", "not-found",
			"no such backend: \"w-3\"; did you mean \"w-"},
		{"\"filter\": {\"reasons\": [\"tx_ful\"]}", "bad-request",
			"no such drop reason: \"tx_ful\"; did you mean \"tx_full\"?"},
		{"\"filter\": {\"reasons\": []}", "bad-request", "an array of names"},
		{"\"filter\": {\"reasons\": [7]}", "bad-request", "an array of names"},
		{"\"filter\": {\"reasons\": \"tx_full\"}", "bad-request", "an array of names"},
		{"\"filter\": {\"actions\": [\"dorp\"]}", "bad-request",
			"no such action: \"dorp\"; did you mean \"drop\"?"},
		{"\"filter\": {\"protocol\": \"sctp\"}", "bad-request", "\"udp\" or \"icmp\""},
		{"\"filter\": {\"client\": \"192.0.2.0/33\"}", "bad-request", "a prefix like"},
		{"\"filter\": {\"client\": \"nobody\"}", "bad-request", "a prefix like"},
		{"\"filter\": {\"destination\": \"192.0.2.0/24\"}", "bad-request", "an address"},
		{"\"filter\": {\"source_port\": 0}", "bad-request", "from 1 to 65535"},
		{"\"filter\": {\"destination_port\": 65536}", "bad-request", "from 1 to 65535"},
		{"\"filter\": {\"destination_port\": \"80\"}", "bad-request", "from 1 to 65535"},
		{"\"filter\": {\"client\": \"2001:db8::7\", \"destination\": \"198.51.100.10\"}",
			"bad-request", "of the same IP version as \"client\""},
		{"\"filter\": {\"protocol\": \"icmp\", \"destination_port\": 80}", "bad-request",
			"ICMP has no ports"},
		{"\"filter\": {\"actions\": [\"forward\"], \"reasons\": [\"tx_full\"]}",
			"bad-request", "\"drop\" or \"reply\""},
	};
	struct web *web = *state;
	int fd = lab_connect(&web->lab);

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char request[512];

		snprintf(request, sizeof(request),
			JSON({"command": "capture.start", %s}), rows[i].arguments);
		expect_error(fd, request, rows[i].code, rows[i].part);
		assert_int_equal(weir_capture_wanted(segment_of(web)), 0);
	}
	close(fd);
}

TEST(a_filter_becomes_terms) {
	static const uint8_t client[16] = {0x20, 0x01, 0x0d, 0xb8};
	struct web *web = *state;
	int fd = lab_connect(&web->lab);
	struct weir_capture_terms terms;
	json_int_t capture = start(fd,
		", \"snaplen\": 1536, \"rate\": 3, \"filter\": {\"service\": \"web\", \"backend\": "
		"\"w-1\", \"reasons\": [\"tx_full\", \"no_backend\"], \"actions\": [\"drop\", "
		"\"offer\"], \"protocol\": \"tcp\", \"client\": \"2001:db8::/32\", "
		"\"destination\": \"2001:db8::10\", \"source_port\": 1, \"destination_port\": "
		"65535}");
	json_t *audit;

	assert_string_equal(text_of(last_entry(web, &audit), "object"),
		"service web, backend w-1, reasons tx_full no_backend, actions drop offer, "
		"protocol tcp, client 2001:db8::/32, destination 2001:db8::10, source_port 1, "
		"destination_port 65535");
	json_decref(audit);
	terms = terms_of(web);
	assert_int_equal(terms.snap_bytes, 1536);
	assert_int_equal(terms.interval_ns, 333333333);
	assert_int_equal(terms.service, 0);
	assert_int_equal(terms.backend, 0);
	assert_int_equal(terms.reasons,
		UINT64_C(1) << WEIR_DROP_TX_FULL | UINT64_C(1) << WEIR_DROP_NO_BACKEND);
	assert_int_equal(terms.actions, 1u << WEIR_ACTION_DROP | 1u << WEIR_ACTION_OFFER);
	assert_int_equal(terms.protocol, IPPROTO_TCP);
	assert_int_equal(terms.client_family, 6);
	assert_int_equal(terms.client_bits, 32);
	assert_memory_equal(terms.client, client, 16);
	assert_int_equal(terms.destination_family, 6);
	assert_int_equal(terms.destination[15], 0x10);
	assert_int_equal(terms.source_port, 1);
	assert_int_equal(terms.destination_port, 65535);
	stop(fd, capture, 0);
	capture = start(fd, ", \"filter\": {\"protocol\": \"icmp\", \"client\": "
			    "\"::ffff:192.0.2.7\", \"destination\": \"::ffff:198.51.100.10\"}");
	terms = terms_of(web);
	assert_int_equal(terms.protocol, WEIR_CAPTURE_ICMP);
	assert_int_equal(terms.client_family, 4);
	assert_int_equal(terms.client_bits, 32);
	assert_int_equal(terms.client[3], 7);
	assert_int_equal(terms.destination_family, 4);
	stop(fd, capture, 0);
	capture = start(fd, ", \"filter\": {\"service\": null, \"reasons\": null}");
	terms = terms_of(web);
	assert_int_equal(terms.service, WEIR_SERVICE_NONE);
	assert_int_equal(terms.backend, WEIR_BACKEND_NONE);
	assert_true(terms.reasons == 0 && terms.actions == 0 && terms.client_family == 0);
	stop(fd, capture, 0);
	close(fd);
}
