// SPDX-License-Identifier: BSD-3-Clause
#include <stdlib.h>
#include <string.h>

#include "captured.h"
#include "test.h"

static json_t *parse(const char *text) {
	json_t *packet = json_loads(text, 0, NULL);

	assert_non_null(packet);
	return packet;
}

TEST(verdicts_are_one_line) {
	static const struct {
		const char *packet, *verdict;
	} cases[] = {
		{"{\"action\": \"forward\", \"choice\": \"new\", \"service\": \"web\", "
		 "\"backend\": \"web-2\", \"out_port\": \"lan\"}",
			"forward to web-2 of web (new flow) on lan"},
		{"{\"action\": \"forward\", \"choice\": \"flow\", \"service\": \"web\", "
		 "\"backend\": \"web-2\"}",
			"forward to web-2 of web (known flow)"},
		{"{\"action\": \"forward\", \"choice\": \"untracked\", \"service\": \"web\", "
		 "\"backend\": \"b\", \"out_port\": \"lan\"}",
			"forward to b of web (not in the flow table) on lan"},
		{"{\"action\": \"forward\", \"choice\": \"replaced\", \"service\": \"web\", "
		 "\"backend\": \"b\", \"out_port\": \"lan\"}",
			"forward to b of web (backend changed) on lan"},
		{"{\"action\": \"forward\", \"choice\": \"none\"}", "forward"},
		{"{\"action\": \"drop\", \"reason\": \"no_backend\", \"service\": \"web\"}",
			"drop: no_backend, service web"},
		{"{\"action\": \"drop\", \"reason\": \"ipv4_checksum\"}", "drop: ipv4_checksum"},
		{"{\"action\": \"drop\", \"reason\": \"no_neighbour\", \"service\": \"web\", "
		 "\"backend\": \"web-1\"}",
			"drop: no_neighbour, service web, backend web-1"},
		{"{\"action\": \"drop\"}", "drop: -"},
		{"{\"action\": \"reply\", \"reason\": null}", "reply: echo"},
		{"{\"action\": \"reply\", \"reason\": \"mtu_exceeded\", \"service\": \"web\"}",
			"reply: packet too big (mtu_exceeded), service web"},
		{"{\"action\": \"reply\", \"reason\": \"closed_port\"}",
			"reply: rejected (closed_port)"},
		{"{\"action\": \"reply\", \"reason\": \"backend_down\", \"service\": \"web\", "
		 "\"backend\": \"web-1\"}",
			"reply: reset (backend_down), service web, backend web-1"},
		{"{\"action\": \"reply\", \"reason\": \"new_one\"}", "reply: new_one"},
		{"{\"action\": \"kernel\"}", "to the kernel"},
		{"{\"action\": \"offer\"}", "to the next worker"},
		{"{\"action\": \"juggle\"}", "juggle"},
		{"{\"action\": \"a\\u001b[2J\"}", "a\\x1b[2J"},
		{"{}", "-"},
		{"{\"action\": 7, \"reason\": []}", "-"},
	};
	char text[256];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		json_t *packet = parse(cases[i].packet);

		assert_string_equal(
			weir_captured_verdict(packet, text, sizeof(text)), cases[i].verdict);
		json_decref(packet);
	}
}

TEST(data_is_decoded) {
	static const struct {
		const char *packet;
		const char *data;
		size_t bytes;
	} cases[] = {
		{"{\"data\": \"\"}", "", 0},
		{"{\"data\": \"AA==\"}", "\0", 1},
		{"{\"data\": \"AP8=\"}", "\0\xff", 2},
		{"{\"data\": \"AP8Q\"}", "\0\xff\x10", 3},
		{"{\"data\": \"+/+/\"}", "\xfb\xff\xbf", 3},
		{"{\"data\": \"AAAAAAAAAAAAAAAA\"}", "\0\0\0\0\0\0\0\0",
			8}, // truncated to the requested number of bytes
		{"{\"data\": \"A*==\"}", "", 0},
		{"{\"data\": \"A\"}", "", 0},
		{"{\"data\": 4}", "", 0},
		{"{}", "", 0},
	};
	uint8_t data[8];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		json_t *packet = parse(cases[i].packet);

		assert_int_equal(weir_captured_data(packet, data, sizeof(data)), cases[i].bytes);
		assert_memory_equal(data, cases[i].data, cases[i].bytes);
		json_decref(packet);
	}
}

TEST(every_reason_has_a_meaning_and_a_command) {
	assert_true(weir_captured_reason_count > 40 && weir_captured_reason_count <= 64);
	for (uint32_t i = 0; i < weir_captured_reason_count; i++) {
		const char *reason = weir_captured_reasons[i];

		assert_non_null(weir_captured_reason_meaning(reason));
		assert_memory_equal(weir_captured_reason_look(reason), "weirctl ", 8);
	}
	assert_string_equal(
		weir_captured_reason_look("no_backend"), "weirctl backend show SERVICE/");
	assert_null(weir_captured_reason_meaning("of_a_newer_daemon"));
	assert_string_equal(weir_captured_reason_look("of_a_newer_daemon"), "weirctl stats show");
}
