// SPDX-License-Identifier: BSD-3-Clause
#include "offline_lab.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report.h"

// Makes a report on five packets: two are forwarded, one is replied to, one goes to the kernel, and
// one is dropped.
static char *make_report(bool json, const char *error) {
	static const struct {
		uint16_t source_port, port;
		uint8_t flags;
		uint32_t payload;
	} packets[] = {{1, 80, 0x02, 0}, {1, 80, 0x10, 5}, {1, 80, 0x10, 1460}, {1, 99, 0x02, 0},
		{1, 80, 0x03, 0}};
	struct weir_pcap_options options = {.changes = 1};
	struct weir_config *config = lab_config();
	struct weir_offline *offline;
	struct weir_pcap_report *report;
	char why[256], *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	strcpy(options.change[0].service, "web");
	strcpy(options.change[0].backend, "b-2");
	options.change[0].kind = WEIR_PCAP_DRAIN;
	assert_int_equal(weir_offline_create(config, &options, &offline, why, sizeof(why)), 0);
	assert_int_equal(
		weir_pcap_report_begin(out, json, weir_offline_tables(offline), &report), 0);
	for (uint64_t i = 0; i < sizeof(packets) / sizeof(packets[0]); i++) {
		struct weir_capture_frame frame = lab_tcp(packets[i].source_port, packets[i].port,
			packets[i].flags, packets[i].payload);
		struct weir_offline_result result;

		weir_offline_process(offline, &frame, &result);
		if (i == 1) {
			frame.bytes += 100;
			result.cut = true;
		}
		weir_pcap_report_packet(report, i + 1, &frame, &result);
	}
	assert_int_equal(weir_pcap_report_end(report, weir_offline_tables(offline), error), 0);
	fclose(out);
	weir_offline_free(offline);
	weir_config_free(config);
	return text;
}

TEST_GROUP(lab_start);

TEST(lines_are_readable) {
	char *text = make_report(false, NULL);

	assert_string_equal(text,
		"1 forwarded service=web backend=b-1 why=new port=wan\n"
		"2 forwarded service=web backend=b-1 why=flow port=wan "
		"[truncated: 59 of 159 bytes captured]\n"
		"3 replied service=web backend=b-1 why=too_big port=wan reason=mtu_exceeded "
		"(too big for the path MTU; ICMP error sent)\n"
		"4 kernel\n"
		"5 dropped reason=tcp_flags (invalid TCP flags (none, SYN+FIN, SYN+RST, ...))\n"
		"packets 5 = forwarded 2 + replied 1 + kernel 1 + dropped 1\n"
		"dropped 1 tcp_flags\n"
		"backend web/b-1: 2 packets, 1 new flow\n");
	free(text);
}

// An id can be reused after a reload, and then belongs to another backend.
TEST(totals_belong_to_the_name_of_a_backend) {
	static const char *const names[] = {"old", "b-1", "old"};
	struct weir_pcap_options options = {0};
	struct weir_config *config = lab_config();
	struct weir_offline *offline;
	struct weir_pcap_report *report;
	char why[256], *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	assert_int_equal(weir_offline_create(config, &options, &offline, why, sizeof(why)), 0);
	assert_int_equal(
		weir_pcap_report_begin(out, false, weir_offline_tables(offline), &report), 0);
	for (uint64_t i = 0; i < 3; i++) {
		const struct weir_offline_result result = {.action = WEIR_ACTION_FORWARD,
			.choice = WEIR_CHOICE_NEW,
			.service = "web",
			.backend = names[i]};

		weir_pcap_report_packet(report, i + 1, &(struct weir_capture_frame){0}, &result);
	}
	assert_int_equal(weir_pcap_report_end(report, weir_offline_tables(offline), NULL), 0);
	fclose(out);
	assert_non_null(strstr(text, "backend web/b-1: 1 packet, 1 new flow\nbackend web/old: 2 "
				     "packets, 2 new flows\n"));
	free(text);
	weir_offline_free(offline);
	weir_config_free(config);
}

TEST(json_is_complete) {
	char *text = make_report(true, "file \"x\": broken");
	json_error_t error;
	json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, &error), *packets, *totals;
	long long n[5];

	assert_non_null(root);
	packets = json_object_get(root, "packets");
	totals = json_object_get(root, "totals");
	assert_int_equal(json_array_size(packets), 5);
	for (size_t i = 0; i < 5; i++) {
		static const char *const actions[] = {
			"forwarded", "forwarded", "replied", "kernel", "dropped"};
		json_t *packet = json_array_get(packets, i);

		assert_int_equal(json_integer_value(json_object_get(packet, "number")), i + 1);
		assert_string_equal(
			json_string_value(json_object_get(packet, "action")), actions[i]);
	}
	assert_string_equal(
		json_string_value(json_object_get(json_array_get(packets, 0), "why")), "new");
	assert_true(json_is_null(json_object_get(json_array_get(packets, 3), "backend")));
	assert_string_equal(
		json_string_value(json_object_get(json_array_get(packets, 4), "reason")),
		"tcp_flags");
	n[0] = json_integer_value(json_object_get(totals, "packets"));
	n[1] = json_integer_value(json_object_get(totals, "forwarded"));
	n[2] = json_integer_value(json_object_get(totals, "replied"));
	n[3] = json_integer_value(json_object_get(totals, "kernel"));
	n[4] = json_integer_value(json_object_get(totals, "dropped"));
	assert_int_equal(n[0], 5);
	assert_int_equal(n[0], n[1] + n[2] + n[3] + n[4]);
	assert_int_equal(
		json_integer_value(json_object_get(json_object_get(totals, "drops"), "tcp_flags")),
		1);
	assert_int_equal(json_array_size(json_object_get(totals, "backends")), 3);
	assert_string_equal(
		json_string_value(json_object_get(root, "error")), "file \"x\": broken");
	json_decref(root);
	free(text);
}

TEST(unwritable_output_is_reported) {
	struct weir_pcap_options options = {0};
	struct weir_config *config = lab_config();
	struct weir_offline *offline;
	struct weir_pcap_report *report;
	FILE *full = fopen("/dev/full", "w");
	char why[256];

	assert_non_null(full);
	assert_int_equal(weir_offline_create(config, &options, &offline, why, sizeof(why)), 0);
	assert_int_equal(
		weir_pcap_report_begin(full, true, weir_offline_tables(offline), &report), 0);
	assert_int_equal(weir_pcap_report_end(report, weir_offline_tables(offline), NULL), -EIO);
	fclose(full);
	weir_offline_free(offline);
	weir_config_free(config);
}
