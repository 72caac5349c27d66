// SPDX-License-Identifier: BSD-3-Clause
//
// Tests the lines that weir-agent writes to a shed hook. Hooks are run by shed_end_to_end.py.
#include <arpa/inet.h>
#include <string.h>

#include "shed_hook.h"
#include "test.h"

TEST(hook_reads_addresses_and_ports) {
	struct weir_shed_connection shed = {
		.family = AF_INET, .id = {.idiag_sport = htons(80), .idiag_dport = htons(51034)}};
	char line[WEIR_SHED_HOOK_LINE_BYTES];
	size_t length;

	inet_pton(AF_INET, "198.51.100.10", shed.id.idiag_src);
	inet_pton(AF_INET, "203.0.113.7", shed.id.idiag_dst);
	weir_shed_hook_line(&shed, line);
	assert_string_equal(line, "203.0.113.7 51034 198.51.100.10 80\n");
	// A dual-stack socket has IPv4-mapped addresses.
	shed.family = AF_INET6;
	inet_pton(AF_INET6, "::ffff:198.51.100.10", shed.id.idiag_src);
	inet_pton(AF_INET6, "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", shed.id.idiag_dst);
	length = weir_shed_hook_line(&shed, line);
	assert_int_equal(length, strlen(line));
	assert_string_equal(
		line, "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff 51034 198.51.100.10 80\n");
}
