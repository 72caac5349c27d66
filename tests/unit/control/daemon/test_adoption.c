// SPDX-License-Identifier: BSD-3-Clause
//
// Tests the guarantees S3 and S4 with the real process: control or the dataplane is killed, and the
// other process continues.
#include "daemon_lab.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "layout.h"

#define SERVICE(name, vip, check, backends) \
	"{\"name\": \"" name "\", \"binds\": [{\"address\": \"" vip "\", \"protocol\": \"tcp\", " \
	"\"port\": 80}], \"table_size\": 251" check ", \"backends\": [" backends "]}"
#define THREE \
	"{\"name\": \"b-1\", \"address\": \"10.0.1.11\"}, " \
	"{\"name\": \"b-2\", \"address\": \"10.0.1.12\"}, " \
	"{\"name\": \"b-3\", \"address\": \"10.0.1.13\"}"
#define TWO \
	"{\"name\": \"b-1\", \"address\": \"10.0.1.11\"}, " \
	"{\"name\": \"b-3\", \"address\": \"10.0.1.13\"}"
#define CHECKED \
	", \"health_check\": {\"type\": \"tcp\", \"port\": 9, \"interval_ms\": 60000, " \
	"\"timeout_ms\": 500, \"rise\": 200, \"fall\": 200}"
#define SLOW_START(window) ", \"slow_start\": {\"window_ms\": " #window "}"
#define ONE_SERVICE SERVICE("web", "198.51.100.10", "", THREE)

static int setup(void **state) {
	struct lab *lab = calloc(1, sizeof(*lab));

	lab_init(lab);
	*state = lab;
	return 0;
}

static int teardown(void **state) {
	lab_fini(*state);
	free(*state);
	return 0;
}

static json_int_t number_of(const struct lab *lab, const char *backend, const char *member) {
	json_t *holder = NULL;
	json_t *value = json_object_get(lab_backend(lab, &holder, "web", backend), member);
	json_int_t number =
		json_is_boolean(value) ? json_is_true(value) : json_integer_value(value);

	json_decref(holder);
	return number;
}

static bool text_is(
	const struct lab *lab, const char *backend, const char *member, const char *text) {
	json_t *holder = NULL;
	const char *value = json_string_value(
		json_object_get(lab_backend(lab, &holder, "web", backend), member));
	bool is = value != NULL && strcmp(value, text) == 0;

	json_decref(holder);
	return is;
}

static weir_ref selection_of(struct lab_dataplane *dataplane, uint16_t service) {
	return __atomic_load_n(
		&lab_dataplane_segment(dataplane)->roots->selection[service], __ATOMIC_ACQUIRE);
}

TEST_GROUP(lab_own_network);
TEST_EACH(setup, teardown);

// A killed and restarted control republishes nothing, and loses nothing.
TEST(s3_restarted_control_adopts_published_tables) {
	struct lab *lab = *state;
	struct lab_dataplane *dataplane;
	const struct weir_segment *segment;
	weir_ref selection, services;
	uint64_t version;

	lab_write_config(lab, ONE_SERVICE);
	lab_start(lab);
	dataplane = lab_dataplane_start(lab, 2);
	LAB_UNTIL(lab_attached(lab));
	json_decref(lab_result(lab, JSON({"command": "backend.drain", "backend": "b-1"})));
	json_decref(lab_result(lab, JSON({"command": "weight.set", "backend": "b-2", "weight": 7})));
	LAB_UNTIL(number_of(lab, "b-3", "resolved"));
	selection = selection_of(dataplane, 0);
	segment = lab_dataplane_segment(dataplane);
	services = segment->roots->services;
	version = segment->rows[2].version;
	for (int i = 0; i < 5; i++) {
		lab_kill(lab);
		lab_start(lab);
		LAB_UNTIL(lab_attached(lab));
		assert_true(text_is(lab, "b-1", "admin", "drain"));
		assert_int_equal(number_of(lab, "b-2", "runtime_weight"), 7);
		assert_int_equal(number_of(lab, "b-2", "effective_weight"), 7);
		assert_int_equal(number_of(lab, "b-3", "resolved"), 1);
		assert_true(selection_of(dataplane, 0) == selection);
		assert_true(segment->roots->services == services);
		assert_true(segment->rows[2].version == version);
	}
	assert_true(lab_log_has(lab, "existing tables loaded"));
	lab_stop(lab);
	lab_dataplane_stop(dataplane);
}

// A new service has some backends of a removed service. Their rows are published once,
// already with their next hops, so that the first packets can be forwarded.
static void assert_first_rows_are_final(const struct lab *lab, struct lab_dataplane *dataplane) {
	const struct weir_segment *segment = lab_dataplane_segment(dataplane);
	json_t *backends = lab_result(lab, JSON({"command": "backend.show"}));
	unsigned int found = 0;
	json_t *backend;
	size_t i;

	json_array_foreach (backends, i, backend) {
		json_int_t id = json_integer_value(json_object_get(backend, "id"));

		if (strcmp(json_string_value(json_object_get(backend, "service")), "web") == 0) {
			continue;
		}
		assert_true(json_is_true(json_object_get(backend, "resolved")));
		assert_int_equal(segment->rows[id].version, 1);
		found++;
	}
	assert_int_equal(found, 3);
	json_decref(backends);
}

TEST(renamed_service_has_next_hops_from_the_first_publication) {
	struct lab *lab = *state;
	struct lab_dataplane *dataplane;

	lab_write_config(lab, ONE_SERVICE);
	lab_start(lab);
	dataplane = lab_dataplane_start(lab, 2);
	LAB_UNTIL(lab_attached(lab));
	LAB_UNTIL(number_of(lab, "b-3", "resolved"));
	// the backends have flows, so their ids stay in use
	lab_dataplane_flows(dataplane, "198.51.100.10", 80, 30);
	lab_write_config(lab, SERVICE("other", "198.51.100.10", "", THREE));
	json_decref(lab_result(lab, JSON({"command": "config.reload"})));
	assert_first_rows_are_final(lab, dataplane);
	lab_stop(lab);
	lab_dataplane_stop(dataplane);
}

TEST(s3_service_renamed_while_control_was_down_has_next_hops_at_once) {
	struct lab *lab = *state;
	struct lab_dataplane *dataplane;

	lab_write_config(lab, ONE_SERVICE);
	lab_start(lab);
	dataplane = lab_dataplane_start(lab, 2);
	LAB_UNTIL(lab_attached(lab));
	LAB_UNTIL(number_of(lab, "b-3", "resolved"));
	lab_dataplane_flows(dataplane, "198.51.100.10", 80, 30);
	lab_kill(lab);
	lab_write_config(lab, SERVICE("other", "198.51.100.10", "", THREE));
	lab_start(lab);
	LAB_UNTIL(lab_attached(lab));
	assert_first_rows_are_final(lab, dataplane);
	lab_stop(lab);
	lab_dataplane_stop(dataplane);
}

// The check has no result within this test. A new backend would be STARTING, but backends that
// are already published stay healthy.
TEST(s3_adopted_health_stays_until_checks_change_it) {
	struct lab *lab = *state;
	struct lab_dataplane *dataplane;

	lab_write_config(lab, ONE_SERVICE);
	lab_start(lab);
	dataplane = lab_dataplane_start(lab, 1);
	LAB_UNTIL(lab_attached(lab));
	assert_true(text_is(lab, "b-1", "health", "healthy"));
	lab_kill(lab);
	lab_write_config(lab, SERVICE("web", "198.51.100.10", CHECKED, THREE));
	lab_start(lab);
	LAB_UNTIL(lab_attached(lab));
	assert_true(text_is(lab, "b-1", "health", "healthy"));
	assert_true(text_is(lab, "b-3", "health", "healthy"));
	lab_stop(lab);
	lab_dataplane_stop(dataplane);
}

static void wait_random(unsigned int *seed, unsigned int most_us) {
	struct timespec pause = {.tv_nsec = (long)(rand_r(seed) % most_us) * 1000};

	nanosleep(&pause, NULL);
}

// Control is killed at any moment while it makes changes: before it listens, while it attaches, or
// during a publication. Meanwhile a worker looks up a new flow in every iteration, and every lookup
// finds a backend.
TEST(s3_control_killed_at_random_moments_never_leaves_a_gap) {
	struct lab *lab = *state;
	struct lab_dataplane *dataplane;
	unsigned int seed = 20260102;

	lab_write_config(lab, ONE_SERVICE);
	lab_start(lab);
	dataplane = lab_dataplane_start(lab, 2);
	LAB_UNTIL(lab_attached(lab));
	lab_dataplane_flows(dataplane, "198.51.100.10", 80, 300);
	lab_dataplane_probe(dataplane, "198.51.100.10", 80);
	for (int i = 0; i < 40; i++) {
		// Control gets SIGHUP while it works. Either configuration may be read.
		lab_write_config(lab, i % 2 == 0 ? SERVICE("web", "198.51.100.10", "", TWO)
						 : ONE_SERVICE
					      ", " SERVICE("more", "198.51.100.11", "", THREE));
		kill(lab->control, SIGHUP);
		wait_random(&seed, 4000);
		kill(lab->control, SIGHUP);
		wait_random(&seed, i % 4 == 3 ? 60000 : 3000);
		lab_kill(lab);
		lab_spawn(lab, "--user", "root", "--group", "root", NULL);
	}
	LAB_UNTIL(access(lab->run_dir, X_OK) == 0 && lab_log_has(lab, "attached"));
	lab_kill(lab);
	lab_write_config(lab, ONE_SERVICE);
	lab_start(lab);
	LAB_UNTIL(lab_attached(lab));
	assert_int_equal(lab_dataplane_misses(dataplane), 0);
	// Every flow still has the same backend, because each id still belongs to the same name.
	for (int b = 1; b <= 3; b++) {
		char name[8];

		snprintf(name, sizeof(name), "b-%d", b);
		assert_int_equal(number_of(lab, name, "leaving"), 0);
		assert_int_equal(number_of(lab, name, "active_flows"),
			lab_dataplane_flows_of(dataplane, (uint16_t)number_of(lab, name, "id")));
	}
	lab_stop(lab);
	lab_dataplane_stop(dataplane);
}

// Guarantee S4: control detects that the dataplane was restarted, and publishes everything again,
// including states.
TEST(s4_dataplane_restart_is_detected_and_everything_republished) {
	struct lab *lab = *state;
	struct lab_dataplane *dataplane;
	char epoch[2][32] = {"", ""};

	lab_write_config(lab, ONE_SERVICE);
	lab_start(lab);
	for (int i = 0; i < 4; i++) {
		json_t *version;

		dataplane = lab_dataplane_start(lab, 1 + (uint32_t)i % 2);
		LAB_UNTIL(lab_attached(lab));
		if (i == 0) {
			json_decref(
				lab_result(lab, JSON({"command": "backend.drain", "backend": "b-1"})));
			json_decref(lab_result(
				lab, JSON({"command": "weight.set", "backend": "b-2", "weight": 7})));
		}
		version = lab_result(lab, JSON({"command": "version"}));
		snprintf(epoch[i % 2], sizeof(epoch[0]), "%s",
			json_string_value(
				json_object_get(json_object_get(version, "dataplane"), "epoch")));
		json_decref(version);
		assert_string_not_equal(epoch[0], epoch[1]);
		// New flows work at once, and no flow goes to a drained backend.
		lab_dataplane_flows(dataplane, "198.51.100.10", 80, 100);
		assert_int_equal(
			lab_dataplane_flows_of(dataplane, (uint16_t)number_of(lab, "b-1", "id")),
			0);
		lab_dataplane_stop(dataplane);
		LAB_UNTIL(!lab_attached(lab));
		// The last known state is still shown, and changes are accepted.
		assert_true(text_is(lab, "b-1", "admin", "drain"));
		assert_int_equal(number_of(lab, "b-2", "effective_weight"), 7);
	}
	json_decref(lab_result(lab, JSON({"command": "backend.drain", "backend": "b-2"})));
	dataplane = lab_dataplane_start(lab, 1);
	LAB_UNTIL(lab_attached(lab));
	lab_dataplane_flows(dataplane, "198.51.100.10", 80, 100);
	assert_int_equal(
		lab_dataplane_flows_of(dataplane, (uint16_t)number_of(lab, "b-3", "id")), 100);
	lab_stop(lab);
	lab_dataplane_stop(dataplane);
}

TEST(s4_reload_without_a_dataplane_reaches_the_next_one) {
	struct lab *lab = *state;
	struct lab_dataplane *dataplane;

	lab_write_config(lab, ONE_SERVICE);
	lab_start(lab);
	dataplane = lab_dataplane_start(lab, 1);
	LAB_UNTIL(lab_attached(lab));
	lab_dataplane_stop(dataplane);
	LAB_UNTIL(!lab_attached(lab));
	lab_write_config(lab, SERVICE("web", "198.51.100.20", "", TWO));
	json_decref(lab_result(lab, JSON({"command": "config.reload"})));
	dataplane = lab_dataplane_start(lab, 1);
	LAB_UNTIL(lab_attached(lab));
	lab_dataplane_flows(dataplane, "198.51.100.20", 80, 50);
	lab_stop(lab);
	lab_dataplane_stop(dataplane);
}

static bool starts_slowly(const struct lab *lab, const char *backend) {
	json_t *holder = NULL;
	const json_t *percent =
		json_object_get(lab_backend(lab, &holder, "web", backend), "slow_start_percent");
	bool does = json_is_number(percent);

	json_decref(holder);
	return does;
}

// Control is stopped for longer than the slow-start window. The first event that it then handles
// is the request that begins the slow start.
TEST(slow_start_starts_after_a_pause_not_before) {
	static const char ready[] = "{\"command\": \"backend.ready\", \"backend\": \"b-1\"}\n";
	struct timespec pause = {.tv_sec = 1, .tv_nsec = 700000000};
	struct lab *lab = *state;
	struct lab_dataplane *dataplane;
	int fd;

	lab_write_config(lab, SERVICE("web", "198.51.100.10", SLOW_START(1500), THREE));
	lab_start(lab);
	dataplane = lab_dataplane_start(lab, 1);
	LAB_UNTIL(lab_attached(lab));
	json_decref(lab_result(lab, JSON({"command": "backend.drain", "backend": "b-1"})));
	nanosleep(&pause, NULL); // the other backends have their full share
	fd = lab_connect(lab);
	kill(lab->control, SIGSTOP);
	lab_send(fd, ready, sizeof(ready) - 1);
	nanosleep(&pause, NULL);
	kill(lab->control, SIGCONT);
	json_decref(lab_read_answer(fd));
	assert_true(starts_slowly(lab, "b-1"));
	assert_false(starts_slowly(lab, "b-2"));
	close(fd);
	LAB_UNTIL(!starts_slowly(lab, "b-1"));
	lab_stop(lab);
	lab_dataplane_stop(dataplane);
}

TEST(s3_backend_added_while_control_was_down_starts_slowly) {
	struct timespec pause = {.tv_sec = 1, .tv_nsec = 700000000};
	struct lab *lab = *state;
	struct lab_dataplane *dataplane;

	lab_write_config(lab, SERVICE("web", "198.51.100.10", SLOW_START(1500), TWO));
	lab_start(lab);
	dataplane = lab_dataplane_start(lab, 1);
	LAB_UNTIL(lab_attached(lab));
	nanosleep(&pause, NULL); // these two backends have their full share
	lab_kill(lab);
	lab_write_config(lab, SERVICE("web", "198.51.100.10", SLOW_START(60000), THREE));
	lab_start(lab);
	LAB_UNTIL(lab_attached(lab));
	nanosleep(&pause, NULL); // wait for a few ticks
	assert_true(starts_slowly(lab, "b-2"));
	assert_false(starts_slowly(lab, "b-1"));
	lab_stop(lab);
	lab_dataplane_stop(dataplane);
}
