// SPDX-License-Identifier: BSD-3-Clause
#include "offline_lab.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SYN 0x02
#define ACK 0x10
#define SECOND_NS 1000000000ull

struct lab {
	struct weir_config *config;
	struct weir_offline *offline;
};

static void open_lab(struct lab *lab, const struct weir_pcap_options *options) {
	char why[256] = "";

	lab->config = lab_config();
	if (weir_offline_create(lab->config, options, &lab->offline, why, sizeof(why)) < 0) {
		fail_msg("%s", why);
	}
}

static void close_lab(struct lab *lab) {
	weir_offline_free(lab->offline);
	weir_config_free(lab->config);
}

static struct weir_offline_result process(struct lab *lab, const struct weir_capture_frame *frame) {
	struct weir_offline_result result;

	weir_offline_process(lab->offline, frame, &result);
	return result;
}

static struct weir_pcap_change make_change(
	enum weir_pcap_change_kind kind, const char *service, const char *backend) {
	struct weir_pcap_change change = {.kind = kind};

	strcpy(change.service, service);
	strcpy(change.backend, backend);
	return change;
}

// A reload before packet 2. file: gets the name of a file with this content, which exists until fd
// is closed; has 64 bytes.
static struct weir_pcap_change make_reload(const char *json, int *fd, char *file) {
	*fd = memfd_create("config", 0);
	assert_int_equal(write(*fd, json, strlen(json)), strlen(json));
	snprintf(file, 64, "/proc/self/fd/%d", *fd);
	return (struct weir_pcap_change){
		.kind = WEIR_PCAP_RELOAD, .packet = 2, .file = file, .file_bytes = strlen(file)};
}

TEST_GROUP(lab_start);

TEST(flow_is_forwarded_and_stays) {
	struct weir_pcap_options options = {0};
	struct weir_offline_result first, second;
	struct weir_capture_frame frame;
	struct lab lab;
	bool ipv4;

	open_lab(&lab, &options);
	frame = lab_tcp(4001, 80, SYN, 0);
	first = process(&lab, &frame);
	assert_int_equal(first.action, WEIR_ACTION_FORWARD);
	assert_int_equal(first.choice, WEIR_CHOICE_NEW);
	assert_string_equal(first.service, "web");
	assert_string_equal(first.port, "wan");
	ipv4 = strcmp(first.backend, "b-1") == 0;
	assert_int_equal(first.sent.bytes, 54u + (ipv4 ? 20 : 40));
	assert_int_equal(first.sent.captured_bytes, first.sent.bytes);
	assert_memory_equal(first.sent.data + 6, ((uint8_t[6]){2, 0, 0, 0, 0, 1}), 6);
	assert_memory_equal(
		first.sent.data, ((uint8_t[6]){2, 0, 0, 1, 0, (uint8_t)first.backend_id}), 6);
	frame = lab_tcp(4001, 80, ACK, 10);
	second = process(&lab, &frame);
	assert_int_equal(second.choice, WEIR_CHOICE_FLOW);
	assert_int_equal(second.backend_id, first.backend_id);
	close_lab(&lab);
}

TEST(out_port_gives_mac_tag_and_gateway) {
	struct weir_pcap_options options = {.out_port = "lan"};
	struct weir_capture_frame frame = lab_tcp(4001, 80, SYN, 0);
	struct weir_offline_result result;
	struct lab lab;

	open_lab(&lab, &options);
	result = process(&lab, &frame);
	assert_string_equal(result.port, "lan");
	assert_memory_equal(result.sent.data, ((uint8_t[6]){2, 0x11, 0x22, 0x33, 0x44, 0x55}), 6);
	assert_memory_equal(
		result.sent.data + 6, ((uint8_t[10]){2, 0, 0, 0, 0, 2, 0x81, 0, 0, 7}), 10);
	close_lab(&lab);
}

TEST(changes_remove_backends) {
	static const enum weir_pcap_change_kind kinds[] = {
		WEIR_PCAP_DRAIN, WEIR_PCAP_DOWN, WEIR_PCAP_WEIGHT};

	for (size_t i = 0; i < 3; i++) {
		struct weir_pcap_options options = {.changes = 1};
		struct lab lab;

		options.change[0] = make_change(kinds[i], "web", "b-1");
		open_lab(&lab, &options);
		for (uint16_t port = 1; port < 100; port++) {
			struct weir_capture_frame frame = lab_tcp(port, 80, SYN, 0);

			assert_string_equal(process(&lab, &frame).backend, "b-2");
		}
		close_lab(&lab);
	}
}

static struct weir_config *subset_config(void) {
	static const char text[] =
		"{\"instance\": {\"name\": \"lb-1\", \"client_id\": 1, \"clients\": 2},\n"
		" \"ports\": [{\"name\": \"wan\", \"device\": \"net_null0\"}],\n"
		" \"workers\": {\"cores\": [0, 0, 0]},\n"
		" \"flow_table\": {\"flows_per_worker\": 4096},\n"
		" \"services\": [{\"name\": \"web\", \"forwarding\": \"ipip\", "
		"\"table_size\": 251,\n"
		"   \"binds\": [{\"address\": \"198.51.100.10\", \"protocol\": \"tcp\", "
		"\"port\": 80}],\n"
		"   \"subset\": {\"algorithm\": \"deterministic\", \"size\": 2, "
		"\"client\": \"worker\"},\n"
		"   \"backends\": [{\"name\": \"b0\", \"address\": \"10.0.0.10\"},\n"
		"    {\"name\": \"b1\", \"address\": \"10.0.0.11\"},\n"
		"    {\"name\": \"b2\", \"address\": \"10.0.0.12\"},\n"
		"    {\"name\": \"b3\", \"address\": \"10.0.0.13\"},\n"
		"    {\"name\": \"b4\", \"address\": \"10.0.0.14\"},\n"
		"    {\"name\": \"b5\", \"address\": \"10.0.0.15\"}]}]}\n";
	return lab_config_of(text);
}

// The result is the subset of a real worker. The instance is the only member of group 1 and has 3
// workers.
TEST(subset_is_that_of_the_worker) {
	static const uint8_t usable[6] = {1, 1, 1, 1, 1, 1};

	for (uint32_t worker = 0; worker < 3; worker++) {
		struct weir_subset_params subset = {
			.algorithm = WEIR_SUBSET_DETERMINISTIC, .size = 2, .client = 3 + worker};
		struct weir_pcap_options options = {.worker = worker};
		uint32_t chosen[6], scratch[64], seen = 0, expected = 0, n;
		char why[256] = "";
		struct lab lab;

		assert_true(weir_subset_scratch_count(6) <= 64);
		n = weir_subset_choose(&subset, usable, 6, chosen, scratch);
		assert_int_equal(n, 2);
		for (uint32_t i = 0; i < n; i++) {
			expected |= 1u << chosen[i];
		}
		lab.config = subset_config();
		if (weir_offline_create(lab.config, &options, &lab.offline, why, sizeof(why)) < 0) {
			fail_msg("%s", why);
		}
		for (uint16_t port = 1; port < 100; port++) {
			struct weir_capture_frame frame = lab_tcp(port, 80, SYN, 0);

			seen |= 1u << (process(&lab, &frame).backend[1] - '0');
		}
		assert_int_equal(seen, expected);
		close_lab(&lab);
	}
}

TEST(unknown_names_are_refused) {
	struct weir_pcap_options backend = {.changes = 1}, in = {.in_port = "x"},
				 out = {.out_port = "y"}, worker = {.worker = 1};
	struct weir_config *config = lab_config();
	struct weir_offline *offline = NULL;
	char why[256];

	backend.change[0] = make_change(WEIR_PCAP_DRAIN, "web", "b-3");
	assert_int_equal(
		weir_offline_create(config, &backend, &offline, why, sizeof(why)), -EINVAL);
	assert_non_null(strstr(why, "web/b-3"));
	assert_int_equal(weir_offline_create(config, &in, &offline, why, sizeof(why)), -EINVAL);
	assert_non_null(strstr(why, "\"x\""));
	assert_int_equal(weir_offline_create(config, &out, &offline, why, sizeof(why)), -EINVAL);
	assert_non_null(strstr(why, "\"y\""));
	assert_int_equal(weir_offline_create(config, &worker, &offline, why, sizeof(why)), -EINVAL);
	assert_non_null(strstr(why, "no worker 1: the number of workers is 1"));
	assert_null(offline);
	weir_config_free(config);
}

TEST(drops_name_their_reason) {
	struct weir_pcap_options options = {0};
	struct weir_capture_frame frame;
	struct weir_offline_result result;
	struct lab lab;

	open_lab(&lab, &options);
	frame = lab_tcp(1, 81, SYN, 0);
	result = process(&lab, &frame);
	assert_int_equal(result.action, WEIR_ACTION_DROP);
	assert_int_equal(result.reason, WEIR_DROP_NO_BACKEND);
	assert_string_equal(result.service, "gone");
	assert_null(result.backend);
	assert_null(result.port);
	frame = lab_tcp(1, 82, SYN, 0);
	assert_int_equal(process(&lab, &frame).action, WEIR_ACTION_KERNEL);
	frame.bytes = frame.captured_bytes = 5;
	assert_int_equal(process(&lab, &frame).reason, WEIR_DROP_FRAME_TOO_SHORT);
	frame.bytes = frame.captured_bytes = 0;
	assert_int_equal(process(&lab, &frame).reason, WEIR_DROP_FRAME_TOO_SHORT);
	close_lab(&lab);
}

// The captured headers are checked. Zeros replace the missing bytes after the headers, and the
// output marks them as missing.
TEST(truncated_frames_get_a_verdict) {
	struct weir_pcap_options options = {0};
	struct weir_capture_frame frame = lab_tcp(7, 80, SYN, 1000);
	struct weir_offline_result result;
	uint32_t outer;
	struct lab lab;

	open_lab(&lab, &options);
	frame.captured_bytes = 96;
	result = process(&lab, &frame);
	assert_int_equal(result.action, WEIR_ACTION_FORWARD);
	assert_true(result.cut);
	outer = strcmp(result.backend, "b-1") == 0 ? 20 : 40;
	assert_int_equal(result.sent.bytes, 1054 + outer);
	assert_int_equal(result.sent.captured_bytes, 96 + outer);
	assert_int_equal(result.sent.data[96 + outer - 1], 0x42);

	// The frame is truncated just after the headers, in the TCP header, then in the IP header.
	frame.captured_bytes = 54;
	assert_int_equal(process(&lab, &frame).action, WEIR_ACTION_FORWARD);
	frame.captured_bytes = 53;
	assert_int_equal(process(&lab, &frame).reason, WEIR_DROP_TCP_TRUNCATED);
	frame.captured_bytes = 33;
	assert_int_equal(process(&lab, &frame).reason, WEIR_DROP_IPV4_TRUNCATED);
	frame.captured_bytes = 0;
	assert_int_equal(process(&lab, &frame).reason, WEIR_DROP_FRAME_TOO_SHORT);
	// Bytes of an earlier frame must not appear after the bytes of the truncated frame.
	frame = lab_tcp(7, 80, ACK, 1000);
	frame.captured_bytes = 60;
	result = process(&lab, &frame);
	for (uint32_t i = 60 + outer; i < result.sent.bytes; i++) {
		assert_int_equal(result.sent.data[i], 0);
	}
	close_lab(&lab);
}

TEST(long_frames_are_answered_or_dropped) {
	struct weir_pcap_options options = {.out_port = "lan"};
	struct weir_capture_frame frame;
	struct weir_offline_result result;
	struct lab lab;

	open_lab(&lab, &options);
	frame = lab_tcp(9, 80, ACK, 8000);
	result = process(&lab, &frame);
	assert_int_equal(result.action, WEIR_ACTION_FORWARD);
	assert_true(result.sent.bytes > 8054);
	frame = lab_tcp(9, 80, ACK, 30000);
	result = process(&lab, &frame);
	assert_int_equal(result.action, WEIR_ACTION_REPLY);
	assert_int_equal(result.reason, WEIR_DROP_MTU_EXCEEDED);
	assert_string_equal(result.port, "wan");
	frame = lab_tcp(9, 80, ACK, WEIR_OFFLINE_FRAME_BYTES_MAX - 54);
	assert_int_equal(process(&lab, &frame).action, WEIR_ACTION_REPLY);
	frame.bytes++;
	result = process(&lab, &frame);
	assert_int_equal(result.action, WEIR_ACTION_DROP);
	assert_int_equal(result.reason, WEIR_DROP_FRAME_TOO_LONG);
	frame.bytes = UINT32_MAX;
	assert_int_equal(process(&lab, &frame).reason, WEIR_DROP_FRAME_TOO_LONG);
	close_lab(&lab);
}

// Timestamps advance the clock of the flow table: half-open flows expire after five seconds.
TEST(timestamps_drive_the_clock) {
	struct weir_pcap_options options = {0};
	struct weir_capture_frame frame = lab_tcp(11, 80, SYN, 0);
	struct lab lab;

	open_lab(&lab, &options);
	frame.time_ns = 1700000000 * SECOND_NS;
	assert_int_equal(process(&lab, &frame).choice, WEIR_CHOICE_NEW);
	frame.time_ns += 4 * SECOND_NS;
	assert_int_equal(process(&lab, &frame).choice, WEIR_CHOICE_FLOW);
	frame.time_ns += 6 * SECOND_NS;
	assert_int_equal(process(&lab, &frame).choice, WEIR_CHOICE_NEW);
	// If a timestamp is earlier than the previous timestamp, the clock does not change.
	frame.time_ns -= 3600 * SECOND_NS;
	assert_int_equal(process(&lab, &frame).choice, WEIR_CHOICE_FLOW);
	frame.time_ns = 0;
	assert_int_equal(process(&lab, &frame).choice, WEIR_CHOICE_FLOW);
	close_lab(&lab);
}

TEST(flow_table_is_bounded) {
	struct weir_config *config = lab_config();

	assert_int_equal(weir_offline_flows(config), 4096);
	config->flow_table.flows_per_worker = 1u << 28;
	assert_int_equal(weir_offline_flows(config), 1048576);
	weir_config_free(config);
}

// A gateway cannot be the next hop of backends in forwarding mode l2.
TEST(reload_keeps_a_backend_without_next_hop_down) {
	static const char json[] =
		"{\"instance\": {\"name\": \"lb-0\"}, \"flow_table\": {\"flows_per_worker\": "
		"4096}, \"ports\": [{\"name\": \"wan\", \"device\": "
		"\"net_null0\", \"gateway_mac\": \"02:11:22:33:44:55\"}], \"services\": [{"
		"\"name\": \"web\", \"forwarding\": \"l2\", \"binds\": [{\"address\": "
		"\"198.51.100.10\", \"protocol\": \"tcp\", \"port\": 80}], \"backends\": [{"
		"\"name\": \"a\", \"address\": \"10.0.0.11\"}]}]}";
	struct weir_pcap_options options = {
		.changes = 2, .change = {make_change(WEIR_PCAP_DOWN, "web", "a")}};
	struct lab lab = {.config = lab_config_of(json)};
	struct weir_backend_state backend;
	char file[64], why[256] = "";
	int fd;

	options.change[1] = make_reload(json, &fd, file);
	assert_int_equal(
		weir_offline_create(lab.config, &options, &lab.offline, why, sizeof(why)), 0);
	assert_int_equal(weir_offline_change(lab.offline, 2, why, sizeof(why)), 0);
	assert_int_equal(weir_tables_backend(weir_offline_tables(lab.offline), 0, &backend), 0);
	assert_int_equal(backend.health, WEIR_HEALTH_REFUSING);
	close_lab(&lab);
	close(fd);
}

TEST(reload_changes_the_next_hop_and_the_outer_source) {
#define CONFIG(port) \
	("{\"instance\": {\"name\": \"lb-0\"}, \"flow_table\": {\"flows_per_worker\": " \
	 "4096}, \"ports\": [{\"name\": \"wan\", \"device\": " \
	 "\"net_null0\", " port "}], \"services\": [{\"name\": \"web\", \"binds\": [{" \
	 "\"address\": \"198.51.100.10\", \"protocol\": \"tcp\", \"port\": 80}], " \
	 "\"backends\": [{\"name\": \"a\", \"address\": \"10.0.0.11\"}]}]}")
	static const char *const after =
		CONFIG("\"gateway_mac\": \"02:11:22:33:44:66\", \"source_ipv4\": \"10.0.0.2\"");
	struct weir_pcap_options options = {.changes = 1};
	struct weir_capture_frame frame = lab_tcp(4001, 80, SYN, 0);
	struct weir_offline_result result;
	char file[64], why[256] = "";
	int fd;
	struct lab lab = {.config = lab_config_of(CONFIG("\"gateway_mac\": \"02:11:22:33:44:55\", "
							 "\"source_ipv4\": \"10.0.0.1\""))};

	options.change[0] = make_reload(after, &fd, file);
	assert_int_equal(
		weir_offline_create(lab.config, &options, &lab.offline, why, sizeof(why)), 0);
	result = process(&lab, &frame);
	assert_memory_equal(result.sent.data, ((uint8_t[6]){2, 0x11, 0x22, 0x33, 0x44, 0x55}), 6);
	assert_memory_equal(result.sent.data + 26, ((uint8_t[4]){10, 0, 0, 1}), 4);
	assert_int_equal(weir_offline_change(lab.offline, 2, why, sizeof(why)), 0);
	result = process(&lab, &frame);
	assert_memory_equal(result.sent.data, ((uint8_t[6]){2, 0x11, 0x22, 0x33, 0x44, 0x66}), 6);
	assert_memory_equal(result.sent.data + 26, ((uint8_t[4]){10, 0, 0, 2}), 4);
	close_lab(&lab);
	close(fd);
}
