// SPDX-License-Identifier: BSD-3-Clause
//
// Tests which addresses are watched: reports after each call of weir_neighbours_configure(), its
// limits and its callback, and that it needs no privilege. The tests need root.
#include "neighbours_lab.h"

#include <errno.h>
#include <grp.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

TEST_GROUP(watch_lab_enter);

static bool was_called_again(void *context) {
	return ((struct lab *)context)->calls >= 2;
}

TEST(neighbours_are_reported_once_per_configure, setup, teardown) {
	struct lab *lab = *state;
	struct seen *seen;

	watch(lab, "10.0.0.11");
	watch(lab, "10.0.0.11");
	configure(lab);
	assert_int_equal(lab->calls, 0);
	seen = expect(lab, "10.0.0.11", MAC0);
	watch_lab_idle(&lab->loop, 600);
	assert_int_equal(seen->calls, 1);
	configure(lab);
	watch_lab_run(&lab->loop, was_called_again, lab, 2000, "second report");
	watch_lab_idle(&lab->loop, 300);
	assert_int_equal(seen->calls, 2);
	assert_true(seen->hop.resolved);

	lab->address_count = 0;
	configure(lab);
	SHELL("ip neigh replace 10.0.0.11 lladdr 02:00:00:00:00:aa dev lb0");
	watch_lab_idle(&lab->loop, 300);
	assert_int_equal(lab->calls, 2);
}

TEST(neighbours_configure_refuses_invalid_input, setup, teardown) {
	struct lab *lab = *state;
	struct weir_address bad = {.family = 5};

	assert_int_equal(
		weir_neighbours_configure(lab->neighbours, lab->ports, 2, &bad, 1), -EINVAL);
	assert_int_equal(
		weir_neighbours_configure(lab->neighbours, lab->ports, WEIR_PORTS_MAX + 1, NULL, 0),
		-EINVAL);
}

static bool was_called(void *context) {
	return ((struct lab *)context)->calls > 0;
}

TEST(neighbours_callback_may_configure, setup, teardown) {
	struct lab *lab = *state;

	lab->clear_in_callback = true;
	watch(lab, "10.0.0.11");
	watch(lab, "10.1.0.11");
	watch(lab, "2001:db8:0::11");
	configure(lab);
	watch_lab_run(&lab->loop, was_called, lab, 5000, "first report");
	watch_lab_idle(&lab->loop, 300);
	assert_int_equal(lab->calls, 1);
}

static bool has_ten_thousand(void *context) {
	return ((struct lab *)context)->calls >= 10000;
}

TEST(neighbours_of_ten_thousand_backends, setup, teardown) {
	struct lab *lab = *state;
	struct weir_address *addresses = calloc(10000, sizeof(*addresses));
	uint64_t start;

	SHELL("ip route add 10.50.0.0/16 via 10.0.0.11");
	for (uint32_t i = 0; i < 10000; i++) {
		addresses[i] = (struct weir_address){
			.bytes = {10, 50, (uint8_t)(i / 250), (uint8_t)(i % 250)}, .family = 4};
	}
	start = uv_hrtime();
	assert_int_equal(
		weir_neighbours_configure(lab->neighbours, lab->ports, 2, addresses, 10000), 0);
	watch_lab_run(&lab->loop, has_ten_thousand, lab, 60000, "10,000 reports");
	print_message("10,000 addresses: %.1f ms\n", (double)(uv_hrtime() - start) / 1e6);
	lab->calls = 0;
	SHELL("ip route replace 10.50.0.0/16 via 10.1.0.11"); // all next hops change
	watch_lab_run(&lab->loop, has_ten_thousand, lab, 60000, "10,000 more");
	free(addresses);
}

// weir-control needs no capability to resolve neighbours.
TEST(neighbours_need_no_privilege, setup, teardown) {
	struct lab *lab = *state;
	int status;
	pid_t pid;

	SHELL("ip neigh flush dev lb0");
	pid = fork();
	if (pid == 0) {
		struct lab own = *lab;
		bool found = false;

		own.calls = 0;
		if (setgroups(0, NULL) || setgid(65534) || setuid(65534) ||
			prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) {
			_exit(2);
		}
		uv_loop_init(&own.loop);
		if (weir_neighbours_create(&own.loop, on_next_hop, &own, &own.neighbours)) {
			_exit(3);
		}
		watch(&own, "10.0.0.11");
		configure(&own);
		own.wanted = "10.0.0.11";
		own.wanted_mac = MAC0;
		for (int i = 0; i < 300 && !found; i++) {
			watch_lab_idle(&own.loop, 10);
			found = is_as_wanted(&own);
		}
		_exit(found ? 0 : 4);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}
