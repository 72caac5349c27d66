// SPDX-License-Identifier: BSD-3-Clause
#include <jansson.h>

#include "captured.h"
#include "cli_lab.h"
#include "trace_view.h"

// A TCP SYN from 192.0.2.7:40000 to 198.51.100.10:80.
#define SYN "AgAAAAACAgAAAAABCABFAAAoAAEAAD8Gj4rAAAIHxjNkCpxAAFAAAABNAAAAAFACIAAGwAAA"
#define RECEIVED \
	"\"time_ns\": 1795382264092013700, \"worker\": 1, \"port\": \"wan\", \"length\": 54, " \
	"\"data\": \"" SYN "\", \"tables\": 812, \"number\": 1, "
#define PARSED \
	"\"kind\": \"flow\", \"event\": \"syn\", \"path\": \"slow\", \"hash\": \"1f\", " \
	"\"bucket\": 528, "
#define HEAD "#1  21:17:44.092013  TCP SYN seq 77, no data\n"
#define STAGES \
	HEAD "    received     54 bytes on wan by worker 1, table version 812\n" \
	     "    distributed  bucket 528, hash 1f\n" \
	     "    parsed       packet of a flow: syn; slow path\n"
#define ROW(json) "{\"ok\": true, \"result\": [" json "]}"

// --- the view -----------------------------------------------------------------------------------

static void expect_shown(const char *json, bool known, int64_t before_ns, const char *expected) {
	json_t *packet = json_loads(json, 0, NULL);
	struct weir_trace_known facts = {0};
	char *text;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	assert_non_null(packet);
	if (known) {
		facts.service = json_pack("{s:s}", "policy", "maglev");
		facts.backend = json_pack("{s:s}", "address", "10.0.0.12");
	}
	weir_trace_explain(packet, &facts);
	weir_trace_print(out, packet, before_ns);
	fclose(out);
	assert_string_equal(text, expected);
	free(text);
	json_decref(facts.service);
	json_decref(facts.backend);
	json_decref(packet);
}

static int setup(__attribute__((unused)) void **state) {
	return setenv("TZ", "UTC", 1);
}

TEST_GROUP(setup);

TEST(each_stage_shows_its_decision) {
	expect_shown("{" RECEIVED PARSED
		     "\"action\": \"forward\", \"choice\": \"new\", \"service\": \"web\", "
		     "\"backend\": \"web-2\", \"out_port\": \"lan\", \"flow_state\": \"syn-seen\"}",
		true, 0,
		STAGES "    flow table   not found; added; now syn-seen\n"
		       "    service      web\n"
		       "    selection    web-2, by policy maglev\n"
		       "    rewrite      IPv4 in IPv4, to 10.0.0.12\n"
		       "    sent         on lan\n");
	expect_shown("{" RECEIVED PARSED
		     "\"action\": \"forward\", \"choice\": \"untracked\", \"service\": \"web\", "
		     "\"backend\": \"web-2\", \"out_port\": \"lan\", \"flow_state\": null}",
		false, 0,
		STAGES "    flow table   not found; not added\n"
		       "    service      web\n"
		       "    selection    web-2, selected for this packet only\n"
		       "    sent         on lan\n");
	expect_shown("{" RECEIVED PARSED
		     "\"action\": \"forward\", \"choice\": \"replaced\", \"service\": \"web\", "
		     "\"backend\": \"web-2\", \"out_port\": \"lan\", \"flow_state\": \"young\"}",
		true, 1795382264092013700 - 1500000,
		"\n#1  21:17:44.092013  +0.001500  TCP SYN seq 77, no data\n"
		"    received     54 bytes on wan by worker 1, table version 812\n"
		"    distributed  bucket 528, hash 1f\n"
		"    parsed       packet of a flow: syn; slow path\n"
		"    flow table   found; the backend no longer accepts the flow; now young\n"
		"    service      web\n"
		"    selection    web-2, instead of the previous backend\n"
		"    rewrite      IPv4 in IPv4, to 10.0.0.12\n"
		"    sent         on lan\n");
}

// A packet with this forwarding of its backend is shown with this rewrite.
static void expect_rewrite(const char *forwarding, const char *address, const char *expected) {
	struct weir_trace_known facts = {
		.backend = json_pack("{s:s, s:s}", "address", address, "forwarding", forwarding)};
	json_t *packet =
		json_loads("{" RECEIVED PARSED "\"action\": \"forward\", \"choice\": \"flow\", "
			   "\"service\": \"web\", \"backend\": \"web-2\", \"out_port\": \"lan\"}",
			0, NULL);
	const char *text = NULL;
	json_t *stage;
	size_t i;

	weir_trace_explain(packet, &facts);
	json_array_foreach (json_object_get(packet, "stages"), i, stage) {
		if (strcmp(json_string_value(json_object_get(stage, "stage")), "rewrite") == 0) {
			text = json_string_value(json_object_get(stage, "text"));
		}
	}
	assert_string_equal(text, expected);
	json_decref(facts.backend);
	json_decref(packet);
}

TEST(rewrite_shows_the_headers_of_the_forwarding_mode) {
	expect_rewrite("ipip", "10.0.0.12", "IPv4 in IPv4, to 10.0.0.12");
	expect_rewrite("ipip", "2001:db8::12", "IPv4 in IPv6, to 2001:db8::12");
	expect_rewrite("l2", "10.0.0.12", "to the MAC address of 10.0.0.12");
	expect_rewrite("l2", "2001:db8::12", "to the MAC address of 2001:db8::12");
	expect_rewrite("gue", "10.0.0.12", "IPv4 in GUE in IPv4, to 10.0.0.12");
	expect_rewrite("gre", "2001:db8::12", "IPv4 in GRE in IPv6, to 2001:db8::12");
}

TEST(drops_show_the_reason_and_a_command) {
	expect_shown("{" RECEIVED PARSED
		     "\"action\": \"drop\", \"choice\": \"none\", \"service\": \"web\", "
		     "\"reason\": \"no_backend\"}",
		true, 0,
		STAGES "    service      web\n"
		       "    dropped      no_backend: the service has no usable backend\n"
		       "                 see: weirctl backend show web/\n");
	expect_shown("{" RECEIVED "\"kind\": \"broken\", \"action\": \"drop\", \"reason\": "
		     "\"tcp_flags\"}",
		true, 0,
		HEAD "    received     54 bytes on wan by worker 1, table version 812\n"
		     "    parsed       malformed\n"
		     "    service      none\n"
		     "    dropped      tcp_flags: invalid TCP flags (none, SYN+FIN, SYN+RST, ...)\n"
		     "                 see: weirctl stats show\n");
	// The packet was dropped before the pipeline, for a reason that is not defined in this
	// version of weirctl.
	expect_shown("{" RECEIVED "\"kind\": null, \"action\": \"drop\", \"reason\": \"moon\"}",
		true, 0,
		HEAD "    received     54 bytes on wan by worker 1, table version 812\n"
		     "    dropped      moon\n"
		     "                 see: weirctl stats show\n");
}

TEST(other_outcomes_are_shown) {
	expect_shown("{" RECEIVED PARSED
		     "\"action\": \"reply\", \"choice\": \"flow\", \"service\": \"web\", "
		     "\"backend\": \"web-2\", \"out_port\": \"wan\", \"reason\": "
		     "\"mtu_exceeded\"}",
		true, 0,
		STAGES "    flow table   found\n"
		       "    service      web\n"
		       "    selection    web-2, from the flow table\n"
		       "    replied      mtu_exceeded: too big for the path MTU; ICMP error sent\n"
		       "                 see: weirctl doctor\n");
	expect_shown("{" RECEIVED PARSED "\"action\": \"kernel\"}", true, 0,
		STAGES "    service      none\n"
		       "    sent         to the kernel\n");
	expect_shown("{" RECEIVED PARSED "\"action\": \"offer\"}", true, 0,
		STAGES "    service      none\n"
		       "    sent         to the next worker\n");
}

// With names of ten letters, the lines for each reason fit in 80 columns.
TEST(eighty_columns_are_enough) {
	for (uint32_t i = 0; i < weir_captured_reason_count; i++) {
		json_t *packet = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:I, s:i, s:i, s:s}",
			"action", "drop", "reason", weir_captured_reasons[i], "service",
			"ten-letter", "backend", "letters-10", "port", "port-no-10", "data", SYN,
			"tables", (json_int_t)1000000, "length", 1500, "worker", 63, "hash",
			"0123456789abcdef");
		struct weir_trace_known known = {0};
		char *text;
		size_t bytes;
		FILE *out = open_memstream(&text, &bytes);

		weir_trace_explain(packet, &known);
		weir_trace_print(out, packet, 1);
		fclose(out);
		for (const char *line = text; *line != '\0'; line += strcspn(line, "\n") + 1) {
			assert_true(strcspn(line, "\n") <= 80);
		}
		free(text);
		json_decref(packet);
	}
}

TEST(foreign_text_is_safe) {
	expect_shown(JSON({"action": "\u001b[2J", "port": "\u0007", "data": "!", "kind": "\u001b",
		"service": "a\nb", "worker": "x"}),
		true, 0,
		"#0  00:00:00.000000  incomplete Ethernet header\n"
		"    received     0 bytes on \\x07 by worker 0\n"
		"    parsed       \\x1b\n"
		"    service      a\\x0ab\n"
		"    sent         \\x1b[2J\n");
}

// --- the command --------------------------------------------------------------------------------

#define START "{\"ok\": true, \"result\": {\"capture\": 7, \"workers\": 1, \"ports\": [\"wan\"]}}"
#define STOPPED "{\"ok\": true, \"result\": {\"packets\": 9, \"lost\": 0, \"limited\": 0}}"
#define READ(ended, packets) \
	"{\"ok\": true, \"result\": {\"packets\": [" packets \
	"], \"lost\": 2, \"limited\": 0, \"more\": false, \"ended\": " ended "}}"
#define PACKET \
	"{" RECEIVED PARSED \
	"\"action\": \"forward\", \"choice\": \"new\", \"service\": \"web\", \"backend\": " \
	"\"web-2\", \"out_port\": \"lan\"}"
#define FLOW "tcp", "192.0.2.7:40000", "198.51.100.10:80"

static const struct server_answer answers[] = {{"capture.start", START},
	{"capture.read", READ("null", PACKET ", " PACKET)}, {"capture.stop", STOPPED},
	{"service.show", ROW(JSON({"name": "web", "policy": "maglev"}))},
		{"backend.show", ROW(JSON({"name": "web-2", "address": "2001:db8::12"}))}, {0}};

TEST(packets_are_shown_as_they_arrive) {
	struct server *server = server_start(SERVER_ANSWER, answers);
	struct outcome outcome = RUN(server_folder(server), "trace", "--packets=3", FLOW);

	assert_int_equal(outcome.status, 0);
	expect_contains(outcome.out, HEAD);
	expect_contains(outcome.out, "\n\n#3  ");
	assert_null(strstr(outcome.out, "#4"));
	expect_contains(outcome.out, "web-2, by policy maglev\n");
	expect_contains(outcome.out, "IPv4 in IPv6, to 2001:db8::12\n");
	assert_string_equal(server_request(server), JSON({"command":"capture.stop","capture":7}));
	free_outcome(&outcome);
	server_stop(server);
}

TEST(json_is_one_object_per_line) {
	struct server *server = server_start(SERVER_ANSWER, answers);
	struct outcome outcome = RUN(server_folder(server), "trace", "--json", FLOW);
	const char *line = outcome.out;
	int count = 0;

	assert_int_equal(outcome.status, 0);
	for (; *line != '\0'; line += strcspn(line, "\n") + 1) {
		json_t *packet = json_loadb(line, strcspn(line, "\n"), 0, NULL);

		assert_int_equal(json_integer_value(json_object_get(packet, "number")), ++count);
		assert_string_equal(json_string_value(json_object_get(packet, "headers")),
			"TCP SYN seq 77, no data");
		assert_int_equal(json_array_size(json_object_get(packet, "stages")), 8);
		json_decref(packet);
	}
	assert_int_equal(count, WEIR_TRACE_PACKETS);
	free_outcome(&outcome);
	server_stop(server);
}

TEST(the_flow_is_the_filter) {
	static const struct server_answer refuse[] = {
		{"*", "{\"ok\": false, \"code\": \"refused\", \"error\": \"uid 7 captures\"}"},
		{0}};
	struct server *server = server_start(SERVER_ANSWER, refuse);
	struct outcome outcome = RUN(
		server_folder(server), "trace", "udp", "[2001:db8::7]:53", "[2001:db8::10]:4000");
	json_t *request = json_loads(server_request(server), 0, NULL);
	json_t *expected = json_pack("{s:s, s:i, s:{s:s, s:s, s:i, s:s, s:i}}", "command",
		"capture.start", "packets", WEIR_TRACE_PACKETS, "filter", "protocol", "udp",
		"client", "2001:db8::7", "source_port", 53, "destination", "2001:db8::10",
		"destination_port", 4000);

	assert_int_equal(outcome.status, 1);
	assert_string_equal(outcome.err, "weirctl: refused: uid 7 captures\n");
	assert_true(json_equal(request, expected));
	json_decref(expected);
	json_decref(request);
	free_outcome(&outcome);
	server_stop(server);
}

TEST(a_flow_without_packets_is_reported) {
	static const struct server_answer silent[] = {{"capture.start", START},
		{"capture.read", READ("null", "")}, {"capture.stop", STOPPED}, {0}};
	struct server *server = server_start(SERVER_ANSWER, silent);
	struct outcome outcome = RUN(server_folder(server), "trace", "--duration=0.1", FLOW);

	assert_int_equal(outcome.status, 0);
	assert_string_equal(outcome.out, "no packets of this flow captured\n");
	free_outcome(&outcome);
	server_stop(server);
}

#define STALLED(count) \
	"{\"ok\": true, \"result\": {\"packets\": [], \"lost\": 0, \"limited\": 0, " \
	"\"stalled\": " #count ", \"more\": false, \"ended\": null}}"

// Without the message, it would look as if the packets did not arrive.
TEST(stalled_workers_are_reported_by_trace) {
	static const char started[] = "{\"ok\": true, \"result\": {\"capture\": 7, \"workers\": 2, "
				      "\"ports\": [\"wan\"]}}";
	static const struct server_answer one[] = {{"capture.start", started},
		{"capture.read", STALLED(1)}, {"capture.stop", STOPPED}, {0}};
	static const struct server_answer all[] = {{"capture.start", started},
		{"capture.read", STALLED(2)}, {"capture.stop", STOPPED}, {0}};
	struct server *server = server_start(SERVER_ANSWER, one);
	struct outcome outcome = RUN(server_folder(server), "trace", "--duration=0.1", FLOW);

	assert_int_equal(outcome.status, 1);
	assert_string_equal(outcome.out, "no packets of this flow captured\n");
	assert_string_equal(outcome.err,
		"weirctl: 1 of 2 workers of weir-dataplane is hung or short of CPU time: the "
		"packets of its queues are not captured; see weirctl status\n");
	free_outcome(&outcome);
	server_stop(server);
	server = server_start(SERVER_ANSWER, all);
	outcome = RUN(server_folder(server), "trace", "--duration=0.1", FLOW);
	assert_int_equal(outcome.status, 1);
	assert_string_equal(outcome.err,
		"weirctl: weir-dataplane is hung or short of CPU time: its packets are not "
		"captured; see weirctl status\n");
	free_outcome(&outcome);
	server_stop(server);
}

TEST(the_end_of_the_dataplane_is_reported_by_trace) {
	static const struct server_answer gone[] = {
		{"capture.start", START}, {"capture.read", READ("\"no-dataplane\"", "")}, {0}};
	struct server *server = server_start(SERVER_ANSWER, gone);
	struct outcome outcome = RUN(server_folder(server), "trace", FLOW);

	assert_int_equal(outcome.status, 1);
	expect_contains(outcome.err, "weir-dataplane has exited or was restarted\n");
	expect_contains(
		outcome.err, "weirctl: packets are missing: 2 lost, 0 over the rate limit\n");
	free_outcome(&outcome);
	server_stop(server);
}

// The reply to service.show may still come. It must not be taken for that to the next capture.read.
TEST(trace_ends_when_control_does_not_answer) {
	static const struct server_answer silent[] = {{"capture.start", START},
		{"capture.read", READ("null", PACKET)}, {"service.show", NULL}, {0}};
	struct server *server = server_start(SERVER_ANSWER, silent);
	struct outcome outcome =
		RUN(server_folder(server), "trace", "--timeout=100", "--packets=2", FLOW);

	assert_int_equal(outcome.status, 3);
	expect_contains(outcome.err, "no reply from weir-control within 1100 ms");
	expect_contains(server_request(server), "service.show");
	free_outcome(&outcome);
	server_stop(server);
}

TEST(other_arguments_are_usage_errors) {
	struct outcome outcome =
		RUN("/nonexistent", "trace", "tcp", "192.0.2.7", "198.51.100.10:80");

	assert_int_equal(outcome.status, 2);
	expect_contains(outcome.err, "invalid endpoint \"192.0.2.7\"");
	free_outcome(&outcome);
}
