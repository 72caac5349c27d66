// SPDX-License-Identifier: BSD-3-Clause
//
// Tests worker.show and stats.show.
#include "daemon_web.h"

static json_int_t number_of(const json_t *object, const char *name) {
	const json_t *value = json_object_get(object, name);

	if (json_is_boolean(value)) {
		return json_is_true(value);
	}
	if (!json_is_integer(value)) {
		fail_msg("%s is no integer", name);
	}
	return json_integer_value(value);
}

static json_int_t alive(struct web *web, size_t worker) {
	json_t *list = lab_result(&web->lab, JSON({"command": "worker.show"}));
	json_int_t value = number_of(json_array_get(list, worker), "alive");

	json_decref(list);
	return value;
}

static double busy_percent(struct web *web, size_t worker) {
	json_t *list = lab_result(&web->lab, JSON({"command": "worker.show"}));
	double value =
		json_real_value(json_object_get(json_array_get(list, worker), "busy_percent"));

	json_decref(list);
	return value;
}

static bool is_busy_unknown(struct web *web, size_t worker) {
	json_t *list = lab_result(&web->lab, JSON({"command": "worker.show"}));
	bool is = json_is_null(json_object_get(json_array_get(list, worker), "busy_percent"));

	json_decref(list);
	return is;
}

// A worker of the lab counts 30 busy cycles and 70 idle cycles in each iteration. Control reads
// both counters one after the other. If an iteration ends in between, the percentage is not
// exact. The error is smaller after more iterations.
static bool is_busy_as_the_lab(double percent) {
	return percent > 29 && percent < 31;
}

TEST_GROUP(lab_own_network);
TEST_GROUP(web_start, web_stop);

TEST(worker_show_shows_busy_share_and_every_counter) {
	struct web *web = *state;
	json_t *list = lab_result(&web->lab, JSON({"command": "worker.show"}));

	assert_int_equal(json_array_size(list), 2);
	for (size_t i = 0; i < 2; i++) {
		json_t *one = json_array_get(list, i);

		assert_int_equal(number_of(one, "worker"), i);
		assert_int_equal(number_of(one, "core"), i); // core as configured
		assert_int_equal(number_of(one, "alive"), 1);
#define X(field, unit, metric, text) (void)number_of(one, #field);
		WEIR_WORKER_FIGURES(X)
#undef X
	}
	json_decref(list);
	LAB_UNTIL(is_busy_as_the_lab(busy_percent(web, 0)) &&
		  is_busy_as_the_lab(busy_percent(web, 1)));
}

TEST(stalled_worker_is_not_alive) {
	struct web *web = *state;

	lab_dataplane_hang(web->dataplane, true);
	LAB_UNTIL(alive(web, 0) == 0 && alive(web, 1) == 0);
	LAB_UNTIL(is_busy_unknown(web, 0) && is_busy_unknown(web, 1));
	lab_dataplane_hang(web->dataplane, false);
	LAB_UNTIL(alive(web, 0) == 1 && alive(web, 1) == 1);
}

TEST(stats_show_sums_and_shows_the_segment) {
	struct web *web = *state;
	struct weir_segment *segment = lab_dataplane_segment(web->dataplane);
	json_t *before = lab_result(&web->lab, JSON({"command": "stats.show"})), *after, *part;

	// The lab's dataplane has not written its start time.
	assert_true(json_is_null(json_object_get(before, "dataplane_started_ms")));
	weir_counter_add(&segment->worker_counters[0].rx_packets, 5);
	weir_counter_add(&segment->worker_counters[1].rx_packets, 6);
	weir_counter_add(&segment->worker_counters[1].drops[WEIR_DROP_FRAGMENT], 4);
	json_decref(lab_result(&web->lab, JSON({"command": "backend.drain", "backend": "w-2"})));
	after = lab_result(&web->lab, JSON({"command": "stats.show"}));
	assert_int_equal(number_of(json_object_get(after, "workers"), "rx_packets") -
				 number_of(json_object_get(before, "workers"), "rx_packets"),
		11);
	assert_int_equal(number_of(json_object_get(after, "drops"), "fragment"), 4);
	assert_int_equal(json_array_size(json_object_get(after, "services")), 2);
	assert_int_equal(json_array_size(json_object_get(after, "backends")), 3);
	assert_true(number_of(after, "time_ms") >= number_of(before, "time_ms"));
	part = json_object_get(after, "segment");
	assert_true(number_of(part, "publications") >
		    number_of(json_object_get(before, "segment"), "publications"));
	assert_int_equal(number_of(part, "heap_bytes"), segment->heap_bytes);
	assert_true(number_of(part, "used_bytes") > 0);
	assert_true(number_of(part, "backed_bytes") >= number_of(part, "used_bytes"));
	assert_true(number_of(part, "last_publish_us") >= 0);
	assert_true(number_of(part, "last_publish_us") < 1000000);
	json_decref(before);
	json_decref(after);
	json_decref(lab_result(&web->lab, JSON({"command": "backend.ready", "backend": "w-2"})));
}

static json_int_t of_segment(struct web *web, const char *key) {
	json_t *stats = lab_result(&web->lab, JSON({"command": "stats.show"}));
	json_int_t us = number_of(json_object_get(stats, "segment"), key);

	json_decref(stats);
	return us;
}

// The grace period ends when all workers have reported again, and its measured duration includes
// the time in which a worker was stalled.
TEST(grace_period_lasts_as_long_as_a_worker_is_silent) {
	struct web *web = *state;
	uint64_t began;

	LAB_UNTIL(lab_retired_bytes(&web->lab) == 0);
	lab_dataplane_hang(web->dataplane, true);
	// This change causes one publication. A drain would cause another publication at its end.
	json_decref(lab_result(&web->lab, JSON({"command": "backend.maintenance", "backend": "w-2"})));
	began = lab_now_ms(); // the grace period begins at the publication
	assert_true(lab_retired_bytes(&web->lab) > 0); // control still counts the memory as in use
	while (lab_now_ms() - began < 150) { // the stall must last long enough to be measured
		lab_pause();
	}
	assert_true(lab_retired_bytes(&web->lab) > 0);
	lab_dataplane_hang(web->dataplane, false);
	LAB_UNTIL(lab_retired_bytes(&web->lab) == 0);
	LAB_UNTIL(of_segment(web, "last_grace_us") >= 140000);
	json_decref(lab_result(&web->lab, JSON({"command": "backend.ready", "backend": "w-2"})));
	LAB_UNTIL(of_segment(web, "last_grace_us") < 140000);
}

static json_int_t grace_periods(struct web *web) {
	json_t *metrics = lab_result(&web->lab, JSON({"command": "metrics.show"}));
	json_int_t periods = number_of(json_object_get(metrics, "control"), "grace_periods");

	json_decref(metrics);
	return periods;
}

// The second change is published during the grace period of the first change. The second change
// counts as loaded by the workers only after another grace period.
TEST(adoption_is_awaited_for_each_publication) {
	struct web *web = *state;
	json_int_t published, measured;

	LAB_UNTIL(of_segment(web, "adopting_us") == 0);
	measured = grace_periods(web);
	lab_dataplane_hang(web->dataplane, true);
	json_decref(lab_result(&web->lab, JSON({"command": "backend.maintenance", "backend": "w-2"})));
	assert_true(of_segment(web, "adopting_us") > 0);
	published = of_segment(web, "publications");
	json_decref(lab_result(&web->lab, JSON({"command": "backend.ready", "backend": "w-2"})));
	assert_true(of_segment(web, "publications") > published);
	lab_dataplane_hang(web->dataplane, false);
	LAB_UNTIL(of_segment(web, "adopting_us") == 0);
	assert_int_equal(grace_periods(web), measured + 2);
}

// Returns the value in the column `name` of a row.
static const json_t *cell(const json_t *figures, const json_t *row, const char *name) {
	const char *kind = json_string_value(json_array_get(row, 0));
	const json_t *columns = json_object_get(json_object_get(figures, "columns"), kind);

	assert_int_equal(json_array_size(columns), json_array_size(row));
	for (size_t i = 0; i < json_array_size(columns); i++) {
		if (strcmp(json_string_value(json_array_get(columns, i)), name) == 0) {
			return json_array_get(row, i);
		}
	}
	fail_msg("no column %s of %s", name, kind);
	return NULL;
}

static bool is_text(const json_t *value, const char *text) {
	return json_is_string(value) && strcmp(json_string_value(value), text) == 0;
}

static const json_t *find_row(
	const json_t *figures, const char *kind, const char *service, const char *backend) {
	const json_t *rows = json_object_get(figures, "rows");

	for (size_t i = 0; i < json_array_size(rows); i++) {
		const json_t *row = json_array_get(rows, i);

		if (is_text(json_array_get(row, 0), kind) &&
			is_text(cell(figures, row, "service"), service) &&
			(backend == NULL || is_text(cell(figures, row, "backend"), backend))) {
			return row;
		}
	}
	fail_msg("no row of %s %s", kind, service);
	return NULL;
}

// metrics.show and backend.show have equal values.
TEST(metrics_show_agrees_with_backend_show) {
	static const char *const same[] = {
		"address",
		"admin",
		"health",
		"leaving",
		"binds_refuse_ms",
		"resolved",
		"ejected",
		"accept_queue_full",
		"max_active_flows",
		"counted_flows",
		"in_selection",
		"weight",
		"reported_weight",
		"effective_weight",
		"share_percent",
#define X(field, unit, metric, text) #field,
		WEIR_SHARE_FIGURES(X)
#undef X
	};
	struct web *web = *state;
	json_t *figures = lab_result(&web->lab, JSON({"command": "metrics.show"}));
	json_t *holder = NULL, *backend = lab_backend(&web->lab, &holder, "web", "w-2");
	const json_t *row = find_row(figures, "backend", "web", "w-2");

	for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
		const json_t *mine = cell(figures, row, same[i]);

		if (!json_equal(mine, json_object_get(backend, same[i]))) {
			fail_msg("%s differs", same[i]);
		}
	}
	json_decref(holder);
	assert_int_equal(json_array_size(json_object_get(figures, "rows")), 5);
	row = find_row(figures, "service", "dns", NULL);
	assert_int_equal(json_array_size(cell(figures, row, "binds")), 2);
	assert_int_equal(json_integer_value(cell(figures, row, "backends")), 1);
	json_decref(figures);
}

TEST(history_of_an_unknown_name_is_refused) {
	struct web *web = *state;
	json_t *list;

	assert_string_equal(
		lab_code(&web->lab, JSON({"command": "health.history", "backend": "x"})), "not-found");
	assert_string_equal(
		lab_code(&web->lab, JSON({"command": "health.history", "service": "x"})), "not-found");
	assert_string_equal(lab_code(&web->lab,
		JSON({"command": "health.history", "service": "web", "backend": "x"})), "not-found");
	list = lab_result(&web->lab, JSON({"command": "health.history", "service": "web"}));
	assert_true(json_is_array(list));
	json_decref(list);
}

// Returns whether the history contains an event of the drain of a service. Such an event belongs to
// no backend, and changes no state.
static bool has_drain_event(struct lab *lab, const char *service, const char *why) {
	json_t *history = lab_result(lab, "{\"command\": \"health.history\"}"), *change;
	bool found = false;
	size_t i;

	json_array_foreach (history, i, change) {
		found |= is_text(json_object_get(change, "source"), "drain") &&
			 is_text(json_object_get(change, "service"), service) &&
			 is_text(json_object_get(change, "why"), why) &&
			 json_is_null(json_object_get(change, "backend")) &&
			 json_is_null(json_object_get(change, "to"));
	}
	json_decref(history);
	return found;
}

TEST(metrics_show_shows_drains) {
	struct web *web = *state;
	json_t *figures, *holder = NULL, *backend;
	const json_t *row;

	json_decref(lab_result(&web->lab, JSON({"command": "backend.drain", "backend": "w-2"})));
	json_decref(lab_result(&web->lab, JSON({"command": "bind.drain", "service": "dns"})));
	LAB_UNTIL(has_drain_event(&web->lab, "dns", "drained: no open flows"));
	figures = lab_result(&web->lab, JSON({"command": "metrics.show"}));
	backend = lab_backend(&web->lab, &holder, "web", "w-2");
	row = find_row(figures, "backend", "web", "w-2");
	assert_true(json_is_object(cell(figures, row, "drain")));
	assert_true(json_equal(cell(figures, row, "drain"), json_object_get(backend, "drain")));
	row = find_row(figures, "service", "dns", NULL);
	assert_true(is_text(json_object_get(cell(figures, row, "drain"), "state"), "drained"));
	assert_int_equal(json_array_size(cell(figures, row, "drained_binds")), 2);
	row = find_row(figures, "service", "web", NULL);
	assert_true(json_is_null(cell(figures, row, "drain")));
	assert_int_equal(json_array_size(cell(figures, row, "drained_binds")), 0);
	json_decref(holder);
	json_decref(figures);
	json_decref(lab_result(&web->lab, JSON({"command": "backend.ready", "backend": "w-2"})));
	json_decref(lab_result(&web->lab, JSON({"command": "bind.ready", "service": "dns"})));
}

TEST(metrics_show_shows_both_processes) {
	struct web *web = *state;
	json_t *figures = lab_result(&web->lab, JSON({"command": "metrics.show"}));
	json_t *control = json_object_get(figures, "control");
	json_t *workers = json_object_get(figures, "workers");

	assert_int_equal(number_of(control, "pid"), web->lab.control);
	assert_true(number_of(control, "started_ms") > 0);
	assert_int_equal(number_of(control, "reloaded_ms"), number_of(control, "started_ms"));
	assert_true(json_is_true(json_object_get(control, "reload_ok")));
	assert_true(number_of(control, "cpu_us") > 0);
	assert_true(number_of(control, "publish_us") > 0);
	assert_true(number_of(json_object_get(figures, "dataplane"), "tsc_hz") > 0);
	assert_int_equal(json_array_size(workers), 2);
	assert_int_equal(json_object_size(json_object_get(json_array_get(workers, 1), "drops")),
		WEIR_DROP_REASON_COUNT);
	json_decref(figures);
	// metrics.show counts the grace periods.
	json_decref(lab_result(&web->lab, JSON({"command": "backend.drain", "backend": "w-2"})));
	json_decref(lab_result(&web->lab, JSON({"command": "backend.ready", "backend": "w-2"})));
	LAB_UNTIL(lab_retired_bytes(&web->lab) == 0);
	figures = lab_result(&web->lab, JSON({"command": "metrics.show"}));
	control = json_object_get(figures, "control");
	assert_true(number_of(control, "grace_periods") > 0);
	json_decref(figures);
}

// Without a dataplane, values of workers are null, not 0.
// Checks that without a dataplane figures of flows are null, not 0.
static void expect_unknown(struct web *web) {
	static const char *const counts[] = {
		"last_minute", "rejected_last_minute", "drops_of_all_services"};
	json_t *list, *holder = NULL;
	const json_t *limit;

	assert_true(json_is_null(json_object_get(
		lab_backend(&web->lab, &holder, "web", "w-2"), "achieved_percent")));
	json_decref(holder);
	list = lab_result(&web->lab, JSON({"command": "service.show", "service": "web"}));
	limit = json_object_get(json_array_get(list, 0), "flow_control");
	for (size_t i = 0; i < 3; i++) {
		assert_true(json_is_null(json_object_get(limit, counts[i])));
	}
	json_decref(list);
}

TEST(metrics_show_has_null_for_unknown_values) {
	struct web *web = *state;
	json_t *figures;
	const json_t *row;

	lab_dataplane_stop(web->dataplane);
	LAB_UNTIL(!lab_attached(&web->lab));
	figures = lab_result(&web->lab, JSON({"command": "metrics.show"}));
	assert_true(json_is_null(json_object_get(figures, "dataplane")));
	assert_true(json_is_null(json_object_get(figures, "workers")));
	assert_true(json_is_null(json_object_get(figures, "ports")));
	assert_true(json_is_null(json_object_get(figures, "segment")));
	row = find_row(figures, "backend", "web", "w-2");
	assert_true(json_is_null(cell(figures, row, "new_flows")));
	assert_int_equal(json_integer_value(cell(figures, row, "weight")), 300);
	assert_true(
		json_is_null(cell(figures, find_row(figures, "service", "web", NULL), "bytes")));
	json_decref(figures);
	expect_unknown(web);
	web->dataplane = lab_dataplane_start(&web->lab, 2);
	LAB_UNTIL(lab_attached(&web->lab));
}

#define CHECKED "\"health_check\": {\"type\": \"tcp\", \"interval_ms\": 60000}, "

static void reload(struct web *web, const char *services) {
	lab_write_config(&web->lab, services);
	// The ids of removed backends become free only after their reload.
	LAB_UNTIL(strcmp(lab_code(&web->lab, JSON({"command": "config.reload"})), "ok") == 0);
}

// Reload twice, with n backends in both services, which differ from those of other rounds. The
// second reload removes the checks, so each of these backends changes to healthy.
static void change_backends(struct web *web, unsigned int round, unsigned int n) {
	size_t room = n * 80 + 2048, used = 0;
	char *text = malloc(room), *services = malloc(room);

	for (unsigned int i = 0; i < n; i++) {
		used += (size_t)snprintf(text + used, room - used,
			", {\"name\": \"m-%u-%u\", \"address\": \"10.%u.%u.%u\"}", round, i,
			10 + round, i / 250, i % 250 + 1);
	}
	for (unsigned int i = 0; i < 2; i++) {
		snprintf(services, room,
			"{\"name\": \"web\", \"binds\": [{\"address\": \"198.51.100.10\", "
			"\"protocol\": \"tcp\", \"port\": 80}], %s\"table_size\": 4099, "
			"\"backends\": [{\"name\": \"w-1\", \"address\": \"10.0.1.11\"}, "
			"{\"name\": \"w-2\", \"address\": \"10.0.1.12\"}%s]}, %s",
			i == 0 ? CHECKED : "", text, DNS_SERVICE);
		reload(web, services);
	}
	free(text);
	free(services);
}

// Returns whether this is the event that the history of this service begins here.
static bool is_begin(const json_t *change, const char *service) {
	return is_text(json_object_get(change, "source"), "history") &&
	       is_text(json_object_get(change, "service"), service) &&
	       json_is_null(json_object_get(change, "backend")) &&
	       json_is_null(json_object_get(change, "to")) &&
	       strstr(json_string_value(json_object_get(change, "why")),
		       "the history of this service begins here: ") != NULL;
}

// A service with many changes must not remove the changes of others, and its own answers show that
// older ones are missing.
TEST(history_keeps_the_changes_of_a_quiet_service) {
	struct web *web = *state;
	json_t *list;

	json_decref(lab_result(&web->lab, JSON({"command": "bind.drain", "service": "dns"})));
	LAB_UNTIL(has_drain_event(&web->lab, "dns", "drained: no open flows"));
	json_decref(lab_result(&web->lab, JSON({"command": "bind.ready", "service": "dns"})));
	for (unsigned int round = 0; round < 4; round++) {
		change_backends(web, round, 400);
	}
	assert_true(has_drain_event(&web->lab, "dns", "drained: no open flows"));
	list = lab_result(&web->lab, JSON({"command": "health.history", "service": "web"}));
	assert_true(is_begin(json_array_get(list, 0), "web"));
	assert_true(is_text(json_object_get(json_array_get(list, 1), "to"), "healthy"));
	json_decref(list);
	list = lab_result(
		&web->lab, JSON({"command": "health.history", "service": "web", "backend": "w-2"}));
	assert_true(is_begin(json_array_get(list, 0), "web"));
	json_decref(list);
	list = lab_result(&web->lab, JSON({"command": "health.history", "backend": "w-2"}));
	assert_true(is_begin(json_array_get(list, 0), "web"));
	json_decref(list);
	assert_string_equal(lab_code(&web->lab,
		JSON({"command": "health.history", "service": "web", "backend": "x"})), "not-found");
	reload(web, WEB_SERVICES ", " DNS_SERVICE);
}
