// SPDX-License-Identifier: BSD-3-Clause
//
// Tests how the real weir-control moves buckets of flows between workers. Its requests go through
// mailboxes. Workers confirm them, refuse them, answer late, or do not answer.
#include "daemon_lab.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define WORKERS 4
#define HOT 16 // number of hot buckets of worker 0
#define EVEN 1.2
#define GIVEN_UP_MS 1000 // time after which a request without an answer is given up
#define TRIES 5
#define SHOW "{\"command\": \"worker.show\"}"
#define SERVICE \
	"{\"name\": \"web\", \"binds\": [{\"address\": \"198.51.100.10\", \"protocol\": \"tcp\", " \
	"\"port\": 80}], \"table_size\": 251, \"backends\": [{\"name\": \"w-1\", \"address\": " \
	"\"10.0.1.11\"}]}"

struct steals {
	struct lab lab;
	struct lab_dataplane *dataplane;
};

static int setup(void **state) {
	struct steals *f = calloc(1, sizeof(*f));

	lab_init(&f->lab);
	lab_write_config(&f->lab, SERVICE);
	assert_int_equal(mkdir(f->lab.run_dir, 0755), 0); // the dataplane starts first
	f->dataplane = lab_dataplane_start_bucketed(&f->lab, WORKERS);
	*state = f;
	return 0;
}

static int teardown(void **state) {
	struct steals *f = *state;

	lab_dataplane_stop(f->dataplane);
	lab_fini(&f->lab);
	free(f);
	return 0;
}

static void start(struct steals *f) {
	lab_start(&f->lab);
	LAB_UNTIL(lab_attached(&f->lab));
}

// Give 90 % of the load to a few buckets of one worker.
static void skew(struct steals *f) {
	for (uint32_t i = 0; i < HOT; i++) {
		lab_dataplane_load(f->dataplane, i * WORKERS, 45);
		for (uint32_t worker = 1; worker < WORKERS; worker++) {
			lab_dataplane_load(f->dataplane, i * WORKERS + worker, 1);
		}
	}
	assert_true(lab_dataplane_unevenness(f->dataplane) > 3);
}

static bool is_even(struct steals *f) {
	return lab_dataplane_unevenness(f->dataplane) <= EVEN;
}

// Returns a member of a worker's row; borrowed from *holder.
static const json_t *of_worker(
	struct steals *f, json_t **holder, uint32_t worker, const char *member) {
	json_decref(*holder);
	*holder = lab_result(&f->lab, SHOW);
	return json_object_get(json_array_get(*holder, worker), member);
}

static json_int_t sum_of(struct steals *f, const char *member) {
	json_t *rows = lab_result(&f->lab, SHOW), *row;
	json_int_t sum = 0;
	size_t i;

	json_array_foreach (rows, i, row) {
		assert_true(json_is_integer(json_object_get(row, member)));
		sum += json_integer_value(json_object_get(row, member));
	}
	json_decref(rows);
	return sum;
}

static bool is_stealing(struct steals *f, const char *expected, const char *why) {
	json_t *holder = NULL;
	const char *got = json_string_value(of_worker(f, &holder, 0, "stealing"));
	bool same = got != NULL && strcmp(got, expected) == 0;

	got = json_string_value(json_object_get(json_array_get(holder, 0), "stealing_why"));
	same = same && (why == NULL ? got == NULL : got != NULL && strstr(got, why) != NULL);
	json_decref(holder);
	return same;
}

static bool is_at_rest(struct steals *f) {
	json_int_t taken = sum_of(f, "buckets_taken"), given = sum_of(f, "buckets_given");

	return taken == given && taken == sum_of(f, "buckets_taken");
}

static void wait_ticks(struct steals *f, uint64_t ticks) {
	struct weir_segment *segment = lab_dataplane_segment(f->dataplane);
	uint64_t until = lab_now_ms() + 100 * ticks;

	LAB_UNTIL(lab_now_ms() >= until);
	assert_true(segment->workers == WORKERS);
}

// --- normal operation----------------------------------------------------------------------

TEST_EACH(setup, teardown);

TEST(skewed_load_is_spread_and_shown) {
	struct steals *f = *state;
	json_t *holder = NULL;
	uint64_t began;

	start(f);
	assert_true(is_stealing(f, "on", NULL));
	assert_int_equal(sum_of(f, "buckets"), WEIR_BUCKETS);
	assert_int_equal(sum_of(f, "buckets_taken"), 0);
	skew(f);
	began = lab_now_ms();
	LAB_UNTIL(is_even(f));
	print_message("even after %llu ms\n", (unsigned long long)(lab_now_ms() - began));
	LAB_UNTIL(json_integer_value(of_worker(f, &holder, 0, "buckets")) < WEIR_BUCKETS / WORKERS);
	assert_int_equal(sum_of(f, "buckets"), WEIR_BUCKETS);
	assert_true(sum_of(f, "buckets_taken") >= HOT - HOT / WORKERS - 1);
	// wait until every bucket that one worker has given was taken by another worker
	LAB_UNTIL(is_at_rest(f));
	LAB_UNTIL(json_real_value(of_worker(f, &holder, 0, "hottest_percent")) > 4 &&
		  json_real_value(of_worker(f, &holder, 0, "hottest_percent")) < 5);
	assert_int_equal(json_integer_value(of_worker(f, &holder, 0, "elephants")), 0);
	json_decref(holder);
	lab_stop(&f->lab);
}

TEST(elephant_is_logged_and_shown) {
	struct steals *f = *state;
	json_t *holder = NULL;

	start(f);
	lab_dataplane_load(f->dataplane, 5, 800); // a bucket of worker 1
	LAB_UNTIL(json_integer_value(of_worker(f, &holder, 1, "elephants")) == 1);
	assert_int_equal(json_integer_value(of_worker(f, &holder, 1, "hottest_bucket")), 5);
	LAB_UNTIL(lab_log_has(&f->lab, "bucket 5 uses"));
	assert_int_equal(weir_segment_bucket_owner(lab_dataplane_segment(f->dataplane), 5), 1);
	json_decref(holder);
	lab_stop(&f->lab);
}

// --- refusals, delays, failures ------------------------------------------------------------

TEST(refused_buckets_stay_and_are_requested_again) {
	struct steals *f = *state;

	lab_dataplane_steals(f->dataplane, LAB_STEALS_REFUSED);
	start(f);
	skew(f);
	LAB_UNTIL(sum_of(f, "refusals") >= 3);
	assert_int_equal(sum_of(f, "buckets_taken"), 0);
	lab_dataplane_steals(f->dataplane, LAB_STEALS_CONFIRMED);
	LAB_UNTIL(is_even(f));
	lab_stop(&f->lab);
}

TEST(late_confirmation_counts_for_the_owner_of_the_bucket) {
	struct steals *f = *state;

	lab_dataplane_steals(f->dataplane, LAB_STEALS_LATE);
	start(f);
	skew(f);
	LAB_UNTIL(sum_of(f, "buckets_taken") >= 2);
	assert_int_equal(sum_of(f, "buckets"), WEIR_BUCKETS);
	lab_dataplane_steals(f->dataplane, LAB_STEALS_CONFIRMED);
	LAB_UNTIL(is_even(f));
	lab_stop(&f->lab);
}

TEST(silent_worker_gets_requests_again_later) {
	struct steals *f = *state;

	lab_dataplane_steals(f->dataplane, LAB_STEALS_SILENT);
	start(f);
	skew(f);
	LAB_UNTIL(lab_dataplane_steal_requests(f->dataplane) >= 2);
	assert_int_equal(sum_of(f, "buckets_taken"), 0);
	lab_dataplane_steals(f->dataplane, LAB_STEALS_CONFIRMED);
	LAB_UNTIL(is_even(f));
	lab_stop(&f->lab);
}

// A worker processes requests too late. Each request has a deadline, so the worker refuses all of
// them.
TEST(slow_worker_keeps_its_buckets) {
	struct steals *f = *state;

	lab_dataplane_steals(f->dataplane, LAB_STEALS_SLOW);
	start(f);
	skew(f);
	LAB_UNTIL(sum_of(f, "refusals") >= 3 || sum_of(f, "buckets_taken") > 0);
	assert_int_equal(sum_of(f, "buckets_taken"), 0);
	lab_stop(&f->lab);
}

// Returns the ms until control has sent the third request to worker 0, which is overloaded.
static uint64_t ms_to_third_request(struct steals *f) {
	uint32_t before = lab_dataplane_steal_requests_to(f->dataplane, 0);
	uint64_t begun_ms;

	start(f);
	begun_ms = lab_now_ms();
	LAB_UNTIL(lab_dataplane_steal_requests_to(f->dataplane, 0) >= before + 3);
	begun_ms = lab_now_ms() - begun_ms;
	lab_stop(&f->lab);
	return begun_ms;
}

// Workers answer a request that control has not sent. Control ignores the answer, and waits for the
// answer to its own request until a timeout. So it sends the third request after two timeouts.
// Several tries are permitted, because on a slow machine workers may count as stalled.
TEST(answer_to_another_request_is_ignored) {
	struct steals *f = *state;
	uint64_t took_ms = 0;

	lab_dataplane_steals(f->dataplane, LAB_STEALS_OTHER);
	skew(f);
	for (unsigned int try = 0; try < TRIES && took_ms < 2 * GIVEN_UP_MS; try++) {
		took_ms = ms_to_third_request(f);
	}
	assert_true(took_ms >= 2 * GIVEN_UP_MS);
}

// Guarantee S3: control is killed during moves, several times. Requests in flight end, and the next
// process continues.
TEST(next_control_process_continues_from_the_owners) {
	struct steals *f = *state;

	skew(f);
	for (int life = 0; life < 4; life++) {
		uint32_t requests = lab_dataplane_steal_requests(f->dataplane);

		start(f);
		LAB_UNTIL(lab_dataplane_steal_requests(f->dataplane) > requests || is_even(f));
		lab_kill(&f->lab);
	}
	start(f);
	LAB_UNTIL(is_even(f));
	assert_int_equal(sum_of(f, "buckets"), WEIR_BUCKETS);
	lab_stop(&f->lab);
}

// --- on and off ---------------------------------------------------------------------------

static void set_to(struct steals *f, const char *stealing, bool on) {
	json_t *result =
		lab_result(&f->lab, JSON({"command": "worker.steal", "stealing": %s}), stealing);

	assert_string_equal(
		json_string_value(json_object_get(result, "stealing")), on ? "on" : "off");
	json_decref(result);
	assert_int_equal(weir_segment_stealing(lab_dataplane_segment(f->dataplane)), on);
}

TEST(switch_survives_reloads_and_processes) {
	struct steals *f = *state;

	start(f);
	set_to(f, "\"off\"", false);
	skew(f);
	wait_ticks(f, 10);
	assert_int_equal(lab_dataplane_steal_requests(f->dataplane), 0);
	assert_true(is_stealing(f, "off", "weirctl worker steal"));
	json_decref(lab_result(&f->lab, JSON({"command": "config.reload"})));
	LAB_UNTIL(lab_log_has(&f->lab,
		"workers.steal is true in the configuration, but stealing was switched off"));
	assert_true(is_stealing(f, "off", "weirctl worker steal"));
	lab_kill(&f->lab);
	start(f);
	assert_true(is_stealing(f, "off", "weirctl worker steal"));
	// The dataplane restarts.
	lab_dataplane_stop(f->dataplane);
	f->dataplane = lab_dataplane_start_bucketed(&f->lab, WORKERS);
	skew(f);
	LAB_UNTIL(lab_attached(&f->lab));
	assert_true(is_stealing(f, "off", "weirctl worker steal"));
	assert_false(weir_segment_stealing(lab_dataplane_segment(f->dataplane)));
	set_to(f, "null", true);
	LAB_UNTIL(is_even(f));
	lab_stop(&f->lab);
}

TEST(configuration_switches_stealing_with_a_reload) {
	struct steals *f = *state;

	lab_write(f->lab.config,
		"{\"ports\": [{\"name\": \"wan\", \"device\": \"net_null0\"}], \"workers\": "
		"{\"cores\": [0, 1], \"steal\": false}, \"services\": [" SERVICE "]}\n");
	start(f);
	assert_true(is_stealing(f, "off", "workers.steal"));
	set_to(f, "\"on\"", true);
	assert_true(is_stealing(f, "on", "overrides the configuration (workers.steal)"));
	json_decref(lab_result(&f->lab, JSON({"command": "config.reload"})));
	LAB_UNTIL(lab_log_has(&f->lab,
		"workers.steal is false in the configuration, but stealing was switched on"));
	assert_true(is_stealing(f, "on", "overrides the configuration (workers.steal)"));
	set_to(f, "null", false);
	lab_write(f->lab.config,
		"{\"ports\": [{\"name\": \"wan\", \"device\": \"net_null0\"}], \"workers\": "
		"{\"cores\": [0, 1], \"steal\": true}, \"services\": [" SERVICE "]}\n");
	json_decref(lab_result(&f->lab, JSON({"command": "config.reload"})));
	assert_true(is_stealing(f, "on", NULL));
	assert_true(weir_segment_stealing(lab_dataplane_segment(f->dataplane)));
	assert_string_equal(lab_code(&f->lab, JSON({"command": "worker.steal", "stealing": "maybe"})),
		"bad-request");
	lab_stop(&f->lab);
}

// Without buckets the devices distribute flows to workers (RSS), so no bucket can move. All outputs
// show this reason.
TEST(dataplane_without_buckets_gives_the_reason) {
	struct steals *f = *state;
	json_t *holder = NULL;

	lab_dataplane_stop(f->dataplane);
	f->dataplane = lab_dataplane_start(&f->lab, 2);
	start(f);
	assert_true(is_stealing(f, "off", "RSS"));
	assert_true(json_is_null(of_worker(f, &holder, 0, "buckets")));
	assert_true(json_is_null(of_worker(f, &holder, 1, "refusals")));
	assert_string_equal(
		lab_code(&f->lab, JSON({"command": "worker.steal", "stealing": "on"})), "refused");
	assert_string_equal(
		lab_code(&f->lab, JSON({"command": "worker.steal", "stealing": "off"})), "ok");
	assert_true(is_stealing(f, "off", "RSS"));
	json_decref(holder);
	lab_stop(&f->lab);
}
