// SPDX-License-Identifier: BSD-3-Clause
//
// Tests that workers get the results of health checks and the next hops. The checks connect to real
// listeners in a separate network namespace. The port has a gateway_mac, so next hops are known.
#include "daemon_lab.h"
#include "shell.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define PORT 8080
#define CHECKED(type) CHECKED_OWN(type, "")
// own: the own check of b-2
#define CHECKED_OWN(type, own) \
	"{\"name\": \"web\", \"binds\": [{\"address\": \"198.51.100.10\", \"protocol\": \"tcp\", " \
	"\"port\": 80}], \"table_size\": 251, \"panic_threshold_percent\": 0, " \
	"\"health_check\": " type ", \"backends\": [" \
	"{\"name\": \"b-1\", \"address\": \"10.0.0.11\"}, " \
	"{\"name\": \"b-2\", \"address\": \"10.0.0.12\"" own "}]}"
#define TCP \
	"{\"type\": \"tcp\", \"port\": 8080, \"interval_ms\": 20, \"timeout_ms\": 20, " \
	"\"rise\": 2, \"fall\": 2}"
#define UNCHECKED "{\"type\": \"none\"}"
#define ELSEWHERE \
	"{\"name\": \"web\", \"binds\": [{\"address\": \"198.51.100.10\", \"protocol\": \"tcp\", " \
	"\"port\": 80}], \"table_size\": 251, \"backends\": [" \
	"{\"name\": \"b-1\", \"address\": \"10.0.1.11\"}, " \
	"{\"name\": \"b-2\", \"address\": \"10.0.1.11\"}, " \
	"{\"name\": \"b-3\", \"address\": \"10.0.1.12\"}]}"

#define ASKED \
	"{\"name\": \"web\", \"binds\": [{\"address\": \"198.51.100.10\", \"protocol\": \"tcp\", " \
	"\"port\": 80}], \"table_size\": 251, \"agent\": {}, \"backends\": [" \
	"{\"name\": \"b-1\", \"address\": \"10.0.0.11\"}, " \
	"{\"name\": \"b-2\", \"address\": \"fd00::12\"}]}"

struct own_lab {
	struct lab lab;
	struct lab_dataplane *dataplane;
	int listener[3]; // [1], [2]: listeners of b-1 and b-2; -1 = none
};

static int listener(int backend) {
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(PORT)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
	char text[32];

	snprintf(text, sizeof(text), "10.0.0.1%d", backend);
	inet_pton(AF_INET, text, &address.sin_addr);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(fd, 4096), 0);
	return fd;
}

static int setup(void **state) {
	struct own_lab *own = calloc(1, sizeof(*own));

	lab_init(&own->lab);
	own->listener[1] = listener(1);
	own->listener[2] = -1;
	*state = own;
	return 0;
}

static void start(struct own_lab *own, const char *services) {
	lab_write_config(&own->lab, services);
	lab_start(&own->lab);
	own->dataplane = lab_dataplane_start(&own->lab, 1);
	LAB_UNTIL(lab_attached(&own->lab));
}

static int teardown(void **state) {
	struct own_lab *own = *state;

	for (int i = 1; i <= 2; i++) {
		if (own->listener[i] >= 0) {
			close(own->listener[i]);
		}
	}
	if (own->lab.control > 0) {
		lab_stop(&own->lab);
	}
	lab_dataplane_stop(own->dataplane);
	lab_fini(&own->lab);
	free(own);
	return 0;
}

static bool backend_is(
	const struct own_lab *own, const char *backend, const char *member, const char *text) {
	json_t *holder = NULL;
	const char *value = json_string_value(
		json_object_get(lab_backend(&own->lab, &holder, "web", backend), member));
	bool is = value != NULL && strcmp(value, text) == 0;

	json_decref(holder);
	return is;
}

static uint16_t id_of(const struct own_lab *own, const char *backend) {
	json_t *holder = NULL;
	uint16_t id = (uint16_t)json_integer_value(
		json_object_get(lab_backend(&own->lab, &holder, "web", backend), "id"));

	json_decref(holder);
	return id;
}

static uint32_t new_flows_to(struct own_lab *own, const char *backend) {
	lab_dataplane_flows(own->dataplane, "198.51.100.10", 80, 100);
	return lab_dataplane_flows_of(own->dataplane, id_of(own, backend));
}

TEST_GROUP(lab_own_network);
TEST_EACH(setup, teardown);

TEST(checks_determine_which_backends_get_new_flows) {
	struct own_lab *own = *state;

	start(own, CHECKED(TCP));
	LAB_UNTIL(backend_is(own, "b-1", "health", "healthy"));
	LAB_UNTIL(backend_is(own, "b-2", "health", "refusing"));
	LAB_UNTIL(new_flows_to(own, "b-1") == 100);
	// One backend recovers, the other fails.
	own->listener[2] = listener(2);
	LAB_UNTIL(backend_is(own, "b-2", "health", "healthy"));
	close(own->listener[1]);
	own->listener[1] = -1;
	LAB_UNTIL(backend_is(own, "b-1", "health", "refusing"));
	LAB_UNTIL(new_flows_to(own, "b-2") == 100);
	LAB_UNTIL(lab_log_has(&own->lab, "warn  backend web/b-1: refusing ("));
	LAB_UNTIL(lab_log_has(&own->lab, "info  backend web/b-2: healthy ("));
}

TEST(health_show_shows_the_last_check) {
	struct own_lab *own = *state;
	json_t *list, *one, *last;

	start(own, CHECKED(TCP));
	LAB_UNTIL(backend_is(own, "b-1", "health", "healthy"));
	list = lab_result(&own->lab, JSON({"command": "health.show", "service": "web"}));
	assert_int_equal(json_array_size(list), 2);
	one = json_array_get(list, 0);
	last = json_object_get(one, "last");
	assert_string_equal(json_string_value(json_object_get(one, "check")), "tcp");
	assert_string_equal(json_string_value(json_object_get(one, "health")), "healthy");
	assert_true(json_is_true(json_object_get(last, "ok")));
	assert_true(json_is_string(json_object_get(last, "detail")));
	assert_true(json_integer_value(json_object_get(one, "passes")) >= 2);
	assert_int_equal(json_integer_value(json_object_get(one, "fails")), 0);
	json_decref(list);
}

// Make packets to a backend fail on this host, so that its checks have no result.
static void block(const char *address) {
	SHELL("ip addr del %s/32 dev lo && ip route add prohibit %s", address, address);
}

static void unblock(const char *address) {
	SHELL("ip route del prohibit %s && ip addr add %s/32 dev lo", address, address);
}

#define PATIENT_TCP \
	"{\"type\": \"tcp\", \"port\": 8080, \"interval_ms\": 200, \"timeout_ms\": 200, " \
	"\"rise\": 1, \"fall\": 5}" // generous, so that no check fails on a busy machine

// Checks without a result change no state. The log shows which backends have no results.
TEST(unchecked_backends_are_logged) {
	struct own_lab *own = *state;

	own->listener[2] = listener(2);
	start(own, CHECKED(PATIENT_TCP));
	LAB_UNTIL(backend_is(own, "b-1", "health", "healthy"));
	LAB_UNTIL(backend_is(own, "b-2", "health", "healthy"));
	block("10.0.0.12");
	LAB_UNTIL(
		lab_log_has(&own->lab, "warn  health checks of 1 backend (web) have no result, so "
				       "health states do not change; web/b-2: permission denied"));
	block("10.0.0.11");
	LAB_UNTIL(
		lab_log_has(&own->lab, "warn  health checks of 2 backends (web) have no result, so "
				       "health states do not change; web/b-1: "));
	assert_true(backend_is(own, "b-1", "health", "healthy"));
	unblock("10.0.0.11");
	unblock("10.0.0.12");
	LAB_UNTIL(lab_log_has(
		&own->lab, "info  health checks of all backends have results again, after "));
}

// Returns whether the status has this warning. service: NULL = status of all services.
static bool status_warns(const struct own_lab *own, const char *service, const char *text) {
	json_t *status = service == NULL
		? lab_result(&own->lab, JSON({"command": "status"}))
			  : lab_result(&own->lab, "{\"command\": \"status\", \"service\": \"%s\"}",
				    service);
	json_t *reason;
	bool warns = false;
	size_t i;

	json_array_foreach (json_object_get(status, "reasons"), i, reason) {
		warns |=
			strcmp(json_string_value(json_object_get(reason, "text")), text) == 0 &&
			strcmp(json_string_value(json_object_get(reason, "level")), "warning") == 0;
	}
	json_decref(status);
	return warns;
}

static json_int_t unchecked(const struct own_lab *own) {
	json_t *status = lab_result(&own->lab, JSON({"command": "status"}));
	json_int_t n = json_integer_value(json_object_get(status, "unchecked"));

	json_decref(status);
	return n;
}

// Check the rows of both backends. b-1 has results. b-2 is blocked, and has had no results since.
static void expect_unchecked(const struct own_lab *own, const char *command) {
	json_t *rows = lab_result(&own->lab, "{\"command\": \"%s\"}", command);
	json_t *one = json_array_get(rows, 0), *two = json_array_get(rows, 1);

	assert_true(json_is_null(json_object_get(one, "unchecked_ms")));
	assert_true(json_is_null(json_object_get(one, "unchecked_why")));
	assert_true(json_integer_value(json_object_get(two, "unchecked_ms")) > 300);
	assert_string_equal(
		json_string_value(json_object_get(two, "unchecked_why")), "permission denied");
	json_decref(rows);
}

// Returns a value of the only service in metrics.show; -1 = null.
static json_int_t unchecked_of_metrics(const struct own_lab *own) {
	json_t *figures = lab_result(&own->lab, JSON({"command": "metrics.show"})), *name;
	json_t *columns = json_object_get(json_object_get(figures, "columns"), "service");
	json_t *row = json_array_get(json_object_get(figures, "rows"), 0), *value = NULL;
	json_int_t n;
	size_t i;

	json_array_foreach (columns, i, name) {
		if (strcmp(json_string_value(name), "unchecked") == 0) {
			value = json_array_get(row, i);
		}
	}
	assert_non_null(value);
	n = json_is_null(value) ? -1 : json_integer_value(value);
	json_decref(figures);
	return n;
}

TEST(unchecked_backends_are_shown) {
	static const char reason[] = "health checks of 1 backend (web) have no result, so health "
				     "states do not change; web/b-2: "
				     "permission denied";
	struct own_lab *own = *state;

	own->listener[2] = listener(2);
	start(own, CHECKED(PATIENT_TCP));
	LAB_UNTIL(backend_is(own, "b-1", "health", "healthy"));
	LAB_UNTIL(backend_is(own, "b-2", "health", "healthy"));
	assert_int_equal(unchecked(own), 0);
	assert_int_equal(unchecked_of_metrics(own), 0);
	block("10.0.0.12");
	LAB_UNTIL(status_warns(own, NULL, reason));
	assert_true(status_warns(own, "web", reason));
	assert_int_equal(unchecked(own), 1);
	assert_true(backend_is(own, "b-2", "unchecked_why", "permission denied"));
	expect_unchecked(own, "backend.show");
	expect_unchecked(own, "health.show");
	assert_int_equal(unchecked_of_metrics(own), 1);
	unblock("10.0.0.12");
	LAB_UNTIL(unchecked(own) == 0);
	assert_false(backend_is(own, "b-2", "unchecked_why", "permission denied"));
	assert_false(status_warns(own, NULL, reason));
}

TEST(backend_without_checks_is_healthy_again) {
	struct own_lab *own = *state;

	start(own, CHECKED(TCP));
	LAB_UNTIL(backend_is(own, "b-2", "health", "refusing"));
	lab_write_config(&own->lab, CHECKED(UNCHECKED));
	json_decref(lab_result(&own->lab, JSON({"command": "config.reload"})));
	assert_int_equal(unchecked_of_metrics(own), -1);
	assert_true(backend_is(own, "b-2", "health", "healthy"));
	LAB_UNTIL(new_flows_to(own, "b-2") > 0);
}

// The server of b-2 is down. Its own check has the port and the intervals of the service's check if
// it has the same type.
TEST(own_check_of_a_backend_replaces_that_of_the_service) {
	struct own_lab *own = *state;

	start(own, CHECKED_OWN(TCP, ", \"health_check\": {\"type\": \"none\"}"));
	LAB_UNTIL(backend_is(own, "b-1", "health", "healthy"));
	assert_true(backend_is(own, "b-2", "health", "healthy"));
	LAB_UNTIL(new_flows_to(own, "b-2") > 0);
	lab_write_config(&own->lab,
		CHECKED_OWN(TCP, ", \"health_check\": {\"type\": \"tcp\", \"fall\": 3}"));
	json_decref(lab_result(&own->lab, JSON({"command": "config.reload"})));
	LAB_UNTIL(backend_is(own, "b-2", "health", "refusing"));
	LAB_UNTIL(new_flows_to(own, "b-1") == 100);
	lab_write_config(
		&own->lab, CHECKED_OWN(UNCHECKED, ", \"health_check\": {\"type\": \"ping\"}"));
	json_decref(lab_result(&own->lab, JSON({"command": "config.reload"})));
	assert_true(backend_is(own, "b-1", "health", "healthy"));
	assert_int_equal(unchecked_of_metrics(own), 0); // b-2 has a check
}

TEST(reload_keeps_results_of_checks) {
	struct own_lab *own = *state;

	start(own, CHECKED(TCP));
	LAB_UNTIL(backend_is(own, "b-1", "health", "healthy"));
	LAB_UNTIL(backend_is(own, "b-2", "health", "refusing"));
	json_decref(lab_result(&own->lab, JSON({"command": "config.reload"})));
	assert_true(backend_is(own, "b-1", "health", "healthy"));
	assert_true(backend_is(own, "b-2", "health", "refusing"));
	LAB_UNTIL(new_flows_to(own, "b-1") == 100);
}

TEST(s4_checks_continue_over_a_dataplane_restart) {
	struct own_lab *own = *state;

	start(own, CHECKED(TCP));
	LAB_UNTIL(backend_is(own, "b-1", "health", "healthy"));
	LAB_UNTIL(backend_is(own, "b-2", "health", "refusing"));
	lab_dataplane_stop(own->dataplane);
	LAB_UNTIL(!lab_attached(&own->lab));
	// States that change while the dataplane is down are published to the next dataplane.
	own->listener[2] = listener(2);
	close(own->listener[1]);
	own->listener[1] = -1;
	LAB_UNTIL(backend_is(own, "b-2", "health", "healthy"));
	LAB_UNTIL(backend_is(own, "b-1", "health", "refusing"));
	own->dataplane = lab_dataplane_start(&own->lab, 1);
	LAB_UNTIL(lab_attached(&own->lab));
	LAB_UNTIL(new_flows_to(own, "b-2") == 100);
}

// Guarantee S3, with checks: the next process uses the results of the killed process until it has
// its own results.
TEST(s3_checks_continue_over_a_control_restart) {
	struct own_lab *own = *state;

	start(own, CHECKED(TCP));
	LAB_UNTIL(backend_is(own, "b-1", "health", "healthy"));
	LAB_UNTIL(backend_is(own, "b-2", "health", "refusing"));
	lab_dataplane_probe(own->dataplane, "198.51.100.10", 80);
	for (int i = 0; i < 5; i++) {
		lab_kill(&own->lab);
		assert_true(!lab_log_has(&own->lab, "starting"));
		lab_start(&own->lab);
		LAB_UNTIL(lab_attached(&own->lab));
		assert_true(backend_is(own, "b-1", "health", "healthy"));
		assert_true(backend_is(own, "b-2", "health", "refusing"));
	}
	own->listener[2] = listener(2);
	LAB_UNTIL(backend_is(own, "b-2", "health", "healthy"));
	assert_int_equal(lab_dataplane_misses(own->dataplane), 0);
}

static bool resolved(const struct own_lab *own, const char *backend) {
	json_t *holder = NULL;
	bool is = json_is_true(
		json_object_get(lab_backend(&own->lab, &holder, "web", backend), "resolved"));

	json_decref(holder);
	return is;
}

// Two backends with the same address both get the next hop of that address.
TEST(next_hops_reach_every_backend_of_an_address) {
	struct own_lab *own = *state;

	start(own, ELSEWHERE);
	LAB_UNTIL(resolved(own, "b-1"));
	LAB_UNTIL(resolved(own, "b-2"));
	LAB_UNTIL(resolved(own, "b-3"));
	LAB_UNTIL(lab_log_has(
		&own->lab, "backend web/b-2: next hop for 10.0.1.11: port 0, 02:00:00:00:00:01"));
}

TEST(gateway_of_a_port_changes_with_a_reload) {
	struct own_lab *own = *state;

	start(own, ELSEWHERE);
	LAB_UNTIL(resolved(own, "b-3"));
	lab_write(own->lab.config,
		JSON({"ports": [{"name": "wan", "device": "net_null0",
			"gateway_mac": "02:00:00:00:00:09", "source_ipv4": "192.0.2.1"}],
			"workers": {"cores": [0, 1]}, "services": [%s]}), ELSEWHERE);
	json_decref(lab_result(&own->lab, JSON({"command": "config.reload"})));
	LAB_UNTIL(lab_log_has(
		&own->lab, "backend web/b-3: next hop for 10.0.1.12: port 0, 02:00:00:00:00:09"));
}

#define EIGHT_PORT 8081
#define EIGHT(n) "{\"name\": \"b-" #n "\", \"address\": \"10.0.0.1" #n "\"}"
#define DIVIDED(interval) \
	"{\"name\": \"web\", \"binds\": [{\"address\": \"198.51.100.10\", \"protocol\": \"tcp\", " \
	"\"port\": 80}], \"table_size\": 251, \"subset\": {\"algorithm\": \"deterministic\", " \
	"\"size\": 1}, \"health_check\": {\"type\": \"tcp\", \"port\": 8081, " \
	"\"interval_ms\": " interval ", \"timeout_ms\": " interval \
	"}, \"backends\": [" EIGHT(1) ", " EIGHT(2) ", " EIGHT(3) ", " EIGHT(4) ", " EIGHT( \
		5) ", " EIGHT(6) ", " EIGHT(7) ", " EIGHT(8) "]}"

// Returns how many backends are checked at this interval.
static uint32_t checked_every(const struct own_lab *own, json_int_t interval_ms) {
	json_t *list = lab_result(&own->lab, JSON({"command": "health.show"})), *one;
	uint32_t count = 0;
	size_t i;

	json_array_foreach (list, i, one) {
		count += json_integer_value(json_object_get(one, "interval_ms")) == interval_ms;
	}
	json_decref(list);
	return count;
}

static int eight_listener(void) {
	struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons(EIGHT_PORT)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(bind(fd, (struct sockaddr *)&any, sizeof(any)), 0);
	assert_int_equal(listen(fd, 4096), 0);
	return fd;
}

// Find the only member of the subset.
static void find_member(const struct own_lab *own, char *ret_name, size_t bytes) {
	json_t *shown = lab_result(&own->lab, JSON({"command": "subset.show", "service": "web"}));
	json_t *subset = json_array_get(json_object_get(json_array_get(shown, 0), "subsets"), 0);
	json_t *member = json_array_get(json_object_get(subset, "members"), 0);

	snprintf(ret_name, bytes, "%s", json_string_value(json_object_get(member, "backend")));
	json_decref(shown);
}

static void set_admin(const struct own_lab *own, const char *command, const char *backend) {
	json_decref(lab_result(
		&own->lab, JSON({"command": "backend.%s", "backend": "%s"}), command, backend));
}

// The subset has one member. The member and two spare backends are checked at the configured
// interval, other backends less often.
TEST(backends_that_are_far_from_use_are_checked_less_often) {
	struct own_lab *own = *state;
	int fd = eight_listener();
	char member[64];

	start(own, DIVIDED("20"));
	LAB_UNTIL(checked_every(own, 20) == 3 && checked_every(own, 200) == 5);
	// A spare backend replaces the drained member, and another backend becomes a spare.
	find_member(own, member, sizeof(member));
	set_admin(own, "drain", member);
	LAB_UNTIL(checked_every(own, 20) == 4 && checked_every(own, 200) == 4);
	close(fd);
}

// A publication makes a backend a spare. Its checks become frequent at once, and not only at the
// next tick.
TEST(pace_follows_each_publication) {
	struct own_lab *own = *state;
	int fd = eight_listener();
	char member[64];

	start(own, DIVIDED("600"));
	LAB_UNTIL(checked_every(own, 600) == 3 && checked_every(own, 6000) == 5);
	find_member(own, member, sizeof(member));
	for (int turn = 0; turn < 10; turn++) {
		set_admin(own, "drain", member);
		assert_int_equal(checked_every(own, 600), 4);
		set_admin(own, "ready", member);
		assert_int_equal(checked_every(own, 600), 3);
	}
	close(fd);
}

static bool has_descriptor(const struct own_lab *own, unsigned int fd) {
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/fd/%u", own->lab.control, fd);
	return faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

// Limit control to n free descriptors. Returns the previous limit.
static struct rlimit leave_descriptors(const struct own_lab *own, uint32_t n) {
	struct rlimit before, few;
	unsigned int fd = 0;

	for (uint32_t free = 0; free <= n; fd++) {
		free += !has_descriptor(own, fd);
	}
	assert_int_equal(prlimit(own->lab.control, RLIMIT_NOFILE, NULL, &before), 0);
	few = (struct rlimit){.rlim_cur = fd - 1, .rlim_max = before.rlim_max};
	assert_int_equal(prlimit(own->lab.control, RLIMIT_NOFILE, &few, NULL), 0);
	return before;
}

static json_int_t agents_configured(const struct own_lab *own) {
	json_t *stats = lab_result(&own->lab, JSON({"command": "stats.show"}));
	json_int_t n =
		json_integer_value(json_object_get(json_object_get(stats, "agents"), "configured"));

	json_decref(stats);
	return n;
}

// With one free descriptor, control can read the file. But probes to agents need two sockets.
TEST(failures_for_lack_of_descriptors_are_retried) {
	struct own_lab *own = *state;
	struct rlimit before;

	start(own, CHECKED(UNCHECKED));
	for (int i = 0; i < 30; i++) {
		lab_pause(); // until the connections of earlier requests are closed
	}
	before = leave_descriptors(own, 1);
	lab_write_config(&own->lab, ASKED);
	kill(own->lab.control, SIGHUP);
	LAB_UNTIL(lab_log_has(&own->lab, "cannot update the health checks: Too many open files"));
	assert_int_equal(prlimit(own->lab.control, RLIMIT_NOFILE, &before, NULL), 0);
	LAB_UNTIL(agents_configured(own) == 2);
}
