// SPDX-License-Identifier: BSD-3-Clause
//
// Tests checks via the data path, except for the part that needs a backend that decapsulates. The
// end-to-end scenarios test that part (tests/e2e/scenarios_data_path.py).
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "health.h"
#include "watch_lab.h"

#define VIP "198.51.100.10"
#define PORT 8080
#define MANY 1500u

struct lab {
	uv_loop_t loop;
	struct weir_health *health;
	struct weir_config_health_check check;
	struct weir_address vips[3];
	struct weir_health_target target;
	enum weir_health_verdict expected; // of the calls
	unsigned int calls;
	char detail[WEIR_HEALTH_DETAIL_BYTES];
};

static int enter(void **state) {
	int r = watch_lab_enter(state);

	if (r == 0) {
		watch_lab_make_hole();
		SHELL("sysctl -qw net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.hole.rp_filter=0");
	}
	return r;
}

static void on_health(
	void *context, uint16_t backend, enum weir_health_verdict verdict, const char *detail) {
	struct lab *lab = context;

	(void)backend;
	assert_int_equal(verdict, lab->expected);
	lab->calls++;
	strcpy(lab->detail, detail);
}

static void on_report(
	void *context, uint16_t backend, const struct weir_report *report, const char *source) {
	(void)context;
	(void)report;
	fail_msg("unexpected report of backend %u from %s", backend, source);
}

static void on_lost(void *context, const char *device) {
	(void)context;
	fail_msg("%s is lost", device);
}

static int setup(void **state) {
	struct lab *lab = calloc(1, sizeof(*lab));

	assert_int_equal(uv_loop_init(&lab->loop), 0);
	assert_int_equal(
		weir_health_create(&lab->loop, on_health, on_report, lab, &lab->health), 0);
	lab->check = (struct weir_config_health_check){
		.type = WEIR_CHECK_TCP,
		.via = WEIR_VIA_DATA_PATH,
		.url.path = "/",
		.interval_ms = 20,
		.timeout_ms = 20,
		.url.status_first = 200,
		.url.status_last = 399,
		.rise = 1,
		.fall = 2,
	};
	lab->expected = WEIR_HEALTH_VERDICT_FAILING;
	lab->vips[0] = watch_lab_address(VIP);
	lab->target = (struct weir_health_target){
		.backend = 7,
		.port = PORT,
		.address = watch_lab_address(WATCH_LAB_HOLE4),
		.vips = lab->vips,
		.vip_count = 1,
		.check = &lab->check,
		.initial = WEIR_HEALTH_VERDICT_UNKNOWN,
	};
	*state = lab;
	return 0;
}

static void open_data_path(struct lab *lab) {
	struct weir_data_path_tunnel tunnel;
	char why[256] = "";

	if (weir_data_path_tunnel_open(geteuid(), &tunnel, why, sizeof(why)) < 0) {
		fail_msg("%s", why);
	}
	assert_int_equal(weir_health_set_data_path(lab->health, &tunnel, on_lost), 0);
}

static int teardown(void **state) {
	struct lab *lab = *state;

	weir_health_free(lab->health);
	watch_lab_close(&lab->loop);
	free(lab);
	return 0;
}

static struct weir_health_status status_of(const struct lab *lab) {
	struct weir_health_status status;

	assert_int_equal(weir_health_status(lab->health, 7, false, &status), 0);
	return status;
}

static bool is_checked(void *context) {
	return status_of(context).checked;
}

static bool was_called(void *context) {
	return ((struct lab *)context)->calls > 0;
}

static void expect_no_result(struct lab *lab, const char *detail) {
	struct weir_health_status status;

	assert_int_equal(weir_health_configure(lab->health, &lab->target, 1), 0);
	watch_lab_run(&lab->loop, is_checked, lab, 2000, "a check");
	watch_lab_idle(&lab->loop, 100); // further checks
	status = status_of(lab);
	assert_string_equal(status.detail, detail);
	assert_true(status.without_result);
	assert_int_equal(status.via, WEIR_VIA_DATA_PATH);
	assert_int_equal(status.passes + status.fails, 0);
	assert_int_equal(status.verdict, WEIR_HEALTH_VERDICT_UNKNOWN);
	assert_int_equal(lab->calls, 0);
}

TEST_GROUP(enter);
TEST_EACH(setup, teardown);

TEST(check_without_a_data_path_has_no_result) {
	expect_no_result(*state, "no result: weir-control was started without --data-path-checks");
}

// The VIP is an address of this host, and a server of this host answers or refuses. Such a check
// has no result about the backend.
TEST(check_of_a_local_vip_has_no_result) {
	static const enum weir_config_check types[] = {
		WEIR_CHECK_TCP, WEIR_CHECK_HTTP, WEIR_CHECK_UDP};
	struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons(PORT)};
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	struct lab *lab = *state;

	SHELL("ip addr add " VIP "/32 dev lo");
	open_data_path(lab);
	for (size_t i = 0; i < 6; i++) {
		lab->check.type = types[i % 3];
		expect_no_result(lab, "no result: " VIP " is an address of this host");
		if (i == 2) {
			assert_int_equal(bind(listener, (struct sockaddr *)&any, sizeof(any)), 0);
			assert_int_equal(listen(listener, 64), 0);
		}
	}
	close(listener);
	SHELL("ip addr del " VIP "/32 dev lo");
}

// The kernel refuses to send a packet of the check.
TEST(check_without_a_packet_has_the_error_of_the_kernel) {
	struct lab *lab = *state;

	SHELL("ip rule add to " VIP " pref 1 prohibit");
	open_data_path(lab);
	lab->check.type = WEIR_CHECK_UDP;
	expect_no_result(lab, "permission denied");
	SHELL("ip rule del pref 1");
}

TEST(check_of_a_silent_backend_fails) {
	static const enum weir_config_check types[] = {
		WEIR_CHECK_TCP, WEIR_CHECK_HTTP, WEIR_CHECK_HTTPS, WEIR_CHECK_GRPC};
	struct lab *lab = *state;

	open_data_path(lab);
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		lab->check.type = types[i];
		lab->calls = 0;
		assert_int_equal(weir_health_configure(lab->health, NULL, 0), 0);
		assert_int_equal(weir_health_configure(lab->health, &lab->target, 1), 0);
		watch_lab_run(&lab->loop, was_called, lab, 2000, "two failures");
		assert_string_equal(lab->detail, "timeout after 20 ms");
		assert_false(status_of(lab).without_result);
	}
}

static bool has_passed(void *context) {
	return status_of(context).passes > 0;
}

// A UDP check that expects nothing passes with silence, but not if this host would have dropped an
// ICMP error.
TEST(udp_check_without_an_answer_needs_the_return_path) {
	struct lab *lab = *state;

	open_data_path(lab);
	lab->check.type = WEIR_CHECK_UDP;
	lab->target.initial = WEIR_HEALTH_VERDICT_PASSING; // so that the callback is not called
	assert_int_equal(weir_health_configure(lab->health, &lab->target, 1), 0);
	watch_lab_run(&lab->loop, has_passed, lab, 2000, "a pass");
	assert_string_equal(status_of(lab).detail, "no ICMP error for 20 ms");
	assert_int_equal(weir_health_configure(lab->health, NULL, 0), 0);
	lab->target.initial = WEIR_HEALTH_VERDICT_UNKNOWN;
	SHELL("sysctl -qw net.ipv4.conf.all.rp_filter=2");
	SHELL("ip route add unreachable " VIP);
	expect_no_result(
		lab, "no result: this host drops replies from " VIP " on hole: see rp_filter");
	SHELL("ip route del unreachable " VIP);
	SHELL("sysctl -qw net.ipv4.conf.all.rp_filter=0");
}

// Checks are counted separately for each VIP. If the checks of one VIP pass or have no result, the
// failure of another VIP is still detected.
TEST(failures_are_counted_for_each_vip) {
	struct lab *lab = *state;

	SHELL("ip addr add " VIP "/32 dev lo");
	open_data_path(lab);
	lab->vips[1] = watch_lab_address("198.51.100.11");
	lab->vips[2] = watch_lab_address("198.51.100.12");
	lab->target.vip_count = 3;
	assert_int_equal(weir_health_configure(lab->health, &lab->target, 1), 0);
	watch_lab_run(&lab->loop, was_called, lab, 2000, "two failures");
	assert_string_equal(lab->detail, "198.51.100.11: timeout after 20 ms");
	assert_int_equal(status_of(lab).fails, 2);
	SHELL("ip addr del " VIP "/32 dev lo");
}

// Checks of a VIP have no result. The backend gets healthy without them only when it is shown as
// unchecked.
TEST(vip_is_left_out_only_of_an_unchecked_backend) {
	struct lab *lab = *state;

	SHELL("ip addr add 198.51.100.11/32 dev lo");
	open_data_path(lab);
	lab->check.type = WEIR_CHECK_UDP;
	lab->expected = WEIR_HEALTH_VERDICT_PASSING;
	lab->vips[1] = watch_lab_address("198.51.100.11");
	lab->target.vip_count = 2;
	assert_int_equal(weir_health_configure(lab->health, &lab->target, 1), 0);
	watch_lab_run(&lab->loop, was_called, lab, 2000, "a change to passing");
	assert_true(weir_health_unchecked_ms(lab->health, 7) > 0);
	assert_int_equal(status_of(lab).passes, 2);
	SHELL("ip addr del 198.51.100.11/32 dev lo");
}

// A route breaks the return path, so answers from a backend would be dropped. Therefore a timeout
// is no result about the backend.
TEST(check_without_a_return_path_has_no_result) {
	struct lab *lab = *state;

	SHELL("sysctl -qw net.ipv4.conf.all.rp_filter=2");
	SHELL("ip route add unreachable " VIP);
	open_data_path(lab);
	expect_no_result(
		lab, "no result: this host drops replies from " VIP " on hole: see rp_filter");
	SHELL("ip route del unreachable " VIP);
	SHELL("sysctl -qw net.ipv4.conf.all.rp_filter=0");
}

// Without a route to the backend the check fails, like a direct check.
TEST(check_of_an_unreachable_backend_fails) {
	struct lab *lab = *state;

	open_data_path(lab);
	lab->target.address = watch_lab_address("203.0.113.1");
	assert_int_equal(weir_health_configure(lab->health, &lab->target, 1), 0);
	watch_lab_run(&lab->loop, was_called, lab, 2000, "two failures");
	assert_string_equal(lab->detail, "network is unreachable");
}

// Cancelled checks release their ports, of which there are 2,048.
TEST(cancelled_checks_release_their_ports) {
	static const enum weir_config_check types[] = {WEIR_CHECK_TCP, WEIR_CHECK_HTTP};
	struct weir_health_target *targets = calloc(MANY, sizeof(*targets));
	struct lab *lab = *state;

	open_data_path(lab);
	lab->check.interval_ms = 1000;
	lab->check.timeout_ms = 1000;
	for (size_t round = 0; round < 4; round++) {
		lab->check.type = types[round % 2];
		for (uint16_t i = 0; i < MANY; i++) {
			targets[i] = lab->target;
			targets[i].backend = i;
		}
		assert_int_equal(weir_health_configure(lab->health, targets, MANY), 0);
		watch_lab_idle(&lab->loop, 1100); // checks are spread over the interval
		for (uint16_t i = 0; i < MANY; i++) {
			struct weir_health_status status;

			assert_int_equal(weir_health_status(lab->health, i, false, &status), 0);
			assert_null(strstr(status.detail, "not available"));
		}
		assert_int_equal(weir_health_configure(lab->health, NULL, 0), 0);
	}
	free(targets);
}
