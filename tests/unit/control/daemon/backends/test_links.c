// SPDX-License-Identifier: BSD-3-Clause
//
// Tests which failed checks do not count as a result, because a link was down.
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "link_state.h"
#include "links.h"
#include "shell.h"
#include "tables_lab.h"

#define TIMEOUT_MS 500

static struct weir_links two_ports(void) {
	return (struct weir_links){
		.count = 2, .ports = {{.info = {.name = "wan"}}, {.info = {.name = "lan"}}}};
}

static bool excuses_without_route(const struct weir_links *links, int port, uint64_t began_ms,
	uint64_t since_ms, const char *why) {
	const struct weir_links_failure failure = {.way = {.port = port, .since_ms = since_ms},
		.began_ms = began_ms,
		.timeout_ms = TIMEOUT_MS};
	char text[64] = "";
	bool excused = weir_links_excuse(links, &failure, text, sizeof(text));

	assert_string_equal(text, why);
	return excused;
}

// Like excuses_without_route(), but the kernel has had a route all the time.
static bool excuses(const struct weir_links *links, int port, uint64_t began_ms, const char *why) {
	return excuses_without_route(links, port, began_ms, 1, why);
}

TEST(failures_without_a_link_are_no_result) {
	struct weir_links links = two_ports();

	(void)state;
	assert_false(excuses(&links, 0, 9000, ""));
	// if only the route is missing, the failure counts
	assert_false(excuses_without_route(&links, 0, 9000, 0, ""));
	links.ports[0].down = true;
	links.ports[0].down_ms = 9400;
	assert_true(excuses(&links, 0, 9000, "no result: port wan has no link"));
	assert_false(excuses(&links, 1, 9000, "")); // port lan has a link
}

// A route for the time without the interface of a port. If a link explains the failure, too, that
// is the reason.
TEST(failures_with_a_route_that_refuses_are_no_result) {
	const struct weir_links_failure failure = {
		.way = {.port = -1, .refused = true}, .began_ms = 9000, .timeout_ms = TIMEOUT_MS};
	struct weir_links links = two_ports();
	char text[96] = "";

	(void)state;
	assert_true(weir_links_excuse(&links, &failure, text, sizeof(text)));
	assert_string_equal(text, "no result: a route of this host refuses packets to the backend");
	links.ports[0].down = links.ports[1].down = true;
	assert_true(weir_links_excuse(&links, &failure, text, sizeof(text)));
	assert_string_equal(text, "no result: port wan has no link");
}

// The link was down while the check ran, or came back less than a timeout before the check started.
// In the second case, a neighbour may not be resolved again yet.
TEST(failures_just_after_a_link_is_back_are_no_result) {
	struct weir_links links = two_ports();

	(void)state;
	links.ports[0].down_ms = 9400;
	assert_true(excuses(&links, 0, 9000, "no result: port wan had no link"));
	assert_true(excuses(&links, 0, 9400 + TIMEOUT_MS - 1, "no result: port wan had no link"));
	assert_false(excuses(&links, 0, 9400 + TIMEOUT_MS, ""));
}

TEST(failures_until_a_route_is_back_after_the_link_are_no_result) {
	static const char why[] = "no result: port wan had no link";
	struct weir_links links = two_ports();
	const uint64_t down_ms = 9400, end_ms = down_ms + WEIR_LINKS_ROUTE_MS + TIMEOUT_MS;

	(void)state;
	links.ports[0].down_ms = down_ms;
	assert_true(excuses_without_route(&links, 0, 14000, 0, why)); // no route yet
	assert_true(excuses_without_route(&links, 0, 14000 + TIMEOUT_MS - 1, 14000, why));
	assert_false(excuses_without_route(&links, 0, 14000 + TIMEOUT_MS, 14000, ""));
	// Failures are ignored only for a limited time, even if the route disappears and returns.
	assert_true(excuses_without_route(&links, 0, end_ms - 1, 0, why));
	assert_false(excuses_without_route(&links, 0, end_ms, 0, ""));
	assert_false(excuses_without_route(&links, 0, end_ms + 1000, end_ms + 900, ""));
}

TEST(an_unknown_port_needs_all_links_down) {
	struct weir_links links = two_ports();

	(void)state;
	links.ports[0].down = true;
	assert_false(excuses(&links, -1, 9000, ""));
	assert_false(excuses(&links, 7, 9000, "")); // a port of a dataplane that had more ports
	links.ports[1].down = true;
	assert_true(excuses(&links, -1, 9000, "no result: port wan has no link"));
	assert_true(excuses(&links, 7, 9000, "no result: port wan has no link"));
	links.count = 0; // no dataplane was attached yet
	assert_false(excuses(&links, -1, 9000, ""));
	assert_false(excuses(&links, 0, 9000, ""));
}

static void make_link(void) {
	assert_int_equal(unshare(CLONE_NEWNET), 0);
	SHELL("ip link add lb0 type veth peer name far0 && ip link set lb0 up && ip link set far0 "
	      "up");
}

// The kernel updates the link's flags some time after the carrier is lost.
static void wait_for_link(uint32_t ifindex, enum weir_link_state wanted) {
	const struct timespec pause = {.tv_nsec = 10000000};

	for (int i = 0; i < 2000 && weir_link_state_read(ifindex) != wanted; i++) {
		nanosleep(&pause, NULL);
	}
	assert_int_equal(weir_link_state_read(ifindex), wanted);
}

// Without a route, a check fails before it sends a packet, and before the links are read again.
TEST(link_that_has_just_failed_is_found) {
	const struct weir_links_of of = {.segment = NULL};
	struct weir_links links = two_ports();

	(void)state;
	make_link();
	links.ports[0].info.kernel_ifindex = if_nametoindex("lb0");
	wait_for_link(links.ports[0].info.kernel_ifindex, WEIR_LINK_UP);
	weir_links_read(&links, of, 9000);
	assert_false(excuses(&links, 0, 9001, ""));
	SHELL("ip link set lb0 down");
	weir_links_update(&links, of, 1, 9001); // another port
	assert_false(excuses(&links, 0, 9001, ""));
	weir_links_update(&links, of, 0, 9001);
	assert_true(excuses(&links, 0, 9001, "no result: port wan has no link"));
	SHELL("ip link del lb0");
}

// When a dataplane restarts, it takes down the link of some devices, and creates its taps again.
TEST(links_are_read_without_a_dataplane) {
	const struct weir_links_of of = {.segment = NULL};
	struct weir_links links = two_ports();

	(void)state;
	make_link();
	snprintf(links.ports[0].info.kernel_interface, sizeof(links.ports[0].info.kernel_interface),
		"lb0");
	links.ports[0].info.kernel_ifindex = if_nametoindex("lb0");
	wait_for_link(links.ports[0].info.kernel_ifindex, WEIR_LINK_UP);
	weir_links_read(&links, of, 9000);
	assert_false(excuses(&links, 0, 9000, ""));
	SHELL("ip link set far0 down");
	wait_for_link(links.ports[0].info.kernel_ifindex, WEIR_LINK_NO_CARRIER);
	weir_links_read(&links, of, 9100);
	assert_true(excuses(&links, 0, 9000, "no result: port wan has no link"));
	SHELL("ip link del lb0");
	weir_links_read(&links, of, 9200);
	assert_true(excuses(&links, 0, 9000, "no result: port wan has no link"));
	SHELL("ip link add lb0 index 77 type veth peer name far0 && ip link set lb0 up &&"
	      "ip link set far0 up");
	wait_for_link(if_nametoindex("lb0"), WEIR_LINK_UP);
	weir_links_read(&links, of, 9300);
	assert_true(excuses(&links, 0, 9200, "no result: port wan had no link"));
	assert_false(excuses(&links, 0, 9200 + TIMEOUT_MS, ""));
	SHELL("ip link del lb0");
}
