// SPDX-License-Identifier: BSD-3-Clause
//
// Links: which failed checks do not count as a result, because a link was down.
#include <string.h>

#include "links.h"
#include "tables_lab.h"

#define TIMEOUT_MS 500

static struct weir_links two_ports(void) {
	return (struct weir_links){.count = 2, .ports = {{.name = "wan"}, {.name = "lan"}}};
}

static bool excuses(const struct weir_links *links, int port, uint64_t began_ms, const char *why) {
	char text[64] = "";
	bool excused = weir_links_excuse(links, port, began_ms, TIMEOUT_MS, text, sizeof(text));

	assert_string_equal(text, why);
	return excused;
}

TEST(failures_without_a_link_are_no_result) {
	struct weir_links links = two_ports();

	(void)state;
	assert_false(excuses(&links, 0, 9000, ""));
	links.ports[0].down = true;
	links.ports[0].down_ms = 9400;
	assert_true(excuses(&links, 0, 9000, "no result: port wan has no link"));
	assert_false(excuses(&links, 1, 9000, "")); // port 1 has a link
}

// The link failed and came back while the check was running, or while a neighbour was being
// resolved again.
TEST(failures_just_after_a_link_is_back_are_no_result) {
	struct weir_links links = two_ports();

	(void)state;
	links.ports[0].down_ms = 9400;
	assert_true(excuses(&links, 0, 9000, "no result: port wan had no link"));
	assert_true(excuses(&links, 0, 9400 + TIMEOUT_MS - 1, "no result: port wan had no link"));
	assert_false(excuses(&links, 0, 9400 + TIMEOUT_MS, ""));
}

TEST(an_unknown_port_needs_all_links_down) {
	struct weir_links links = two_ports();

	(void)state;
	links.ports[0].down = true;
	assert_false(excuses(&links, -1, 9000, ""));
	assert_false(excuses(&links, 7, 9000, "")); // the dataplane has no port 7 any more
	links.ports[1].down = true;
	assert_true(excuses(&links, -1, 9000, "no result: port wan has no link"));
	assert_true(excuses(&links, 7, 9000, "no result: port wan has no link"));
	links.count = 0; // no dataplane
	assert_false(excuses(&links, -1, 9000, ""));
	assert_false(excuses(&links, 0, 9000, ""));
}
