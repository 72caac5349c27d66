// SPDX-License-Identifier: BSD-3-Clause
//
// Tests all members of service.show, and service.set.
#include "daemon_web.h"

#include "layout.h"

static json_int_t number_of(const json_t *object, const char *name) {
	const json_t *value = json_object_get(object, name);

	assert_true(json_is_integer(value));
	return json_integer_value(value);
}

static const char *text_of(const json_t *object, const char *name) {
	const char *text = json_string_value(json_object_get(object, name));

	return text != NULL ? text : "(no text)";
}

static json_t *show_web(const struct lab *lab, json_t **holder) {
	json_decref(*holder);
	*holder = lab_result(lab, JSON({"command": "service.show", "service": "web"}));
	assert_int_equal(json_array_size(*holder), 1);
	return json_array_get(*holder, 0);
}

static json_t *share_of(json_t *service, const char *backend) {
	json_t *shares = json_object_get(service, "shares"), *one;
	size_t i;

	json_array_foreach (shares, i, one) {
		if (strcmp(text_of(one, "backend"), backend) == 0) {
			return one;
		}
	}
	fail_msg("no share of %s", backend);
	return NULL;
}

static void set_policy(const struct lab *lab, const char *policy) {
	json_decref(lab_result(
		lab, JSON({"command": "service.set", "service": "web", "policy": %s}), policy));
}

TEST_GROUP(lab_own_network);
TEST_GROUP(web_start, web_stop);

TEST(one_service_in_full) {
	struct web *web = *state;
	json_t *holder = NULL, *one = show_web(&web->lab, &holder), *list;

	assert_string_equal(text_of(one, "policy"), "maglev");
	assert_string_equal(text_of(one, "configured_policy"), "maglev");
	assert_true(json_is_null(json_object_get(one, "runtime_policy")));
	assert_int_equal(json_object_size(json_object_get(one, "settings")), 0);
	assert_string_equal(text_of(one, "workload"), "connections");
	assert_string_equal(text_of(one, "on_backend_down"), "keep");
	assert_int_equal(number_of(json_object_get(one, "flow_control"), "max_active_flows"), 0);
	assert_string_equal(
		text_of(json_object_get(one, "flow_control"), "when_exhausted"), "spill");
	assert_int_equal(json_array_size(json_object_get(one, "shares")), 2);
	one = share_of(one, "w-2");
	assert_int_equal(number_of(one, "weight"), 300);
	assert_true(json_real_value(json_object_get(one, "effective_share_percent")) > 74);
	assert_true(json_is_null(json_object_get(one, "service_time_ms")));
	assert_true(json_is_null(json_object_get(one, "samples")));
	json_decref(holder);
	// the list of all services lacks these members
	list = lab_result(&web->lab, JSON({"command": "service.show"}));
	assert_null(json_object_get(json_array_get(list, 0), "shares"));
	assert_null(json_object_get(json_array_get(list, 0), "settings"));
	json_decref(list);
}

// Guarantee S6: when the answer arrives, the new table is published, and existing flows have not
// moved.
TEST(s6_policy_is_changed_at_run_time) {
	struct web *web = *state;
	struct weir_segment *segment = lab_dataplane_segment(web->dataplane);
	json_t *holder = NULL, *one;
	weir_ref before;
	uint32_t first;

	lab_dataplane_flows(web->dataplane, "198.51.100.10", 80, 100);
	first = lab_dataplane_flows_of(web->dataplane, 0);
	before = segment->roots->selection[0];
	set_policy(&web->lab, "\"round-robin\"");
	assert_true(segment->roots->selection[0] != before);
	assert_int_equal(lab_dataplane_flows_of(web->dataplane, 0), first);
	one = show_web(&web->lab, &holder);
	assert_string_equal(text_of(one, "policy"), "round-robin");
	assert_string_equal(text_of(one, "runtime_policy"), "round-robin");
	assert_string_equal(text_of(one, "configured_policy"), "maglev");
	assert_int_equal(number_of(one, "slots"), 0);
	one = share_of(one, "w-2");
	assert_true(json_real_value(json_object_get(one, "effective_share_percent")) == 50);
	LAB_UNTIL(lab_log_has(
		&web->lab, "audit: service.set web: as configured (maglev) -> round-robin (uid"));
	set_policy(&web->lab, "null");
	one = show_web(&web->lab, &holder);
	assert_string_equal(text_of(one, "policy"), "maglev");
	assert_true(json_is_null(json_object_get(one, "runtime_policy")));
	json_decref(holder);
}

// w-1 has weight 100 and w-2 has weight 300. Nothing has been measured, so shares can differ only
// by these weights.
TEST(weight_set_says_whether_the_policy_uses_weights) {
	struct web *web = *state;
	char name[80];

	for (int policy = 0; policy < WEIR_POLICY_COUNT; policy++) {
		json_t *holder = NULL, *result, *one;
		bool equal;

		snprintf(name, sizeof(name), "\"%s\"", weir_policy_name((enum weir_policy)policy));
		set_policy(&web->lab, name);
		result = lab_result(
			&web->lab, JSON({"command": "weight.set", "backend": "w-2", "weight": null}));
		one = lab_backend(&web->lab, &holder, "web", "w-2");
		equal = json_real_value(json_object_get(one, "share_percent")) == 50;
		assert_string_equal(
			text_of(result, "policy"), weir_policy_name((enum weir_policy)policy));
		if (json_is_true(json_object_get(result, "policy_uses_weights")) == equal) {
			fail_msg("%s", name);
		}
		json_decref(holder);
		json_decref(result);
	}
}

TEST(settings_are_those_that_the_policy_uses) {
	struct web *web = *state;
	json_t *holder = NULL, *settings;

	set_policy(&web->lab, "\"fair-share\"");
	settings = json_object_get(show_web(&web->lab, &holder), "settings");
	assert_string_equal(text_of(settings, "statistic"), "average");
	assert_int_equal(number_of(settings, "window"), 386);
	assert_string_equal(
		text_of(settings, "reported_requests"), "no reports of requests in progress");
	assert_int_equal(json_object_size(settings), 6);
	set_policy(&web->lab, "\"interleaved-weighted-round-robin\"");
	settings = json_object_get(show_web(&web->lab, &holder), "settings");
	assert_string_equal(text_of(settings, "rounds"), "incremental");
	set_policy(&web->lab, "\"least-loaded\"");
	settings = json_object_get(show_web(&web->lab, &holder), "settings");
	assert_int_equal(number_of(settings, "error_window_ms"), 1000);
	assert_true(json_is_true(json_object_get(settings, "error_window_automatic")));
	assert_string_equal(
		text_of(settings, "reported_requests"), "no reports of requests in progress");
	set_policy(&web->lab, "\"weighted-round-robin\"");
	settings = json_object_get(show_web(&web->lab, &holder), "settings");
	assert_string_equal(text_of(settings, "weights"), "configured");
	set_policy(&web->lab, "null");
	json_decref(holder);
}

static void sample(struct weir_segment *segment, uint16_t backend, uint64_t service_ns) {
	struct weir_sample_ring *ring = &segment->worker_boxes[0].samples;

	ring->sample[ring->tail % WEIR_SAMPLES] =
		(struct weir_sample){.service_ns = service_ns, .backend = backend};
	__atomic_store_n(&ring->tail, ring->tail + 1, __ATOMIC_RELEASE);
}

static bool cost_is(const struct weir_segment *segment, uint16_t backend, uint64_t cost) {
	return __atomic_load_n(&segment->costs[backend], __ATOMIC_RELAXED) == cost;
}

// Workers write samples. From the samples, weir-control computes costs. Workers read the costs, and
// commands show them.
TEST(service_times_are_collected_only_if_needed) {
	struct web *web = *state;
	struct weir_segment *segment = lab_dataplane_segment(web->dataplane);
	struct weir_sample_ring *ring = &segment->worker_boxes[0].samples;
	json_t *holder = NULL, *one;
	uint64_t since;

	set_policy(&web->lab, "\"fair-share\"");
	sample(segment, 0, 2000000);
	sample(segment, 0, 4000000);
	sample(segment, 1, 9000000);
	LAB_UNTIL(cost_is(segment, 0, 3000000) && cost_is(segment, 1, 9000000));
	one = share_of(show_web(&web->lab, &holder), "w-1");
	assert_true(json_real_value(json_object_get(one, "service_time_ms")) == 3);
	assert_int_equal(number_of(one, "samples"), 2);
	assert_true(json_real_value(json_object_get(one, "effective_share_percent")) == 75);
	lab_kill(&web->lab); // the next process continues from the published costs
	lab_start(&web->lab);
	LAB_UNTIL(lab_attached(&web->lab));
	one = show_web(&web->lab, &holder);
	assert_string_equal(text_of(one, "runtime_policy"), "fair-share");
	one = share_of(one, "w-1");
	assert_true(json_real_value(json_object_get(one, "service_time_ms")) == 3);
	assert_int_equal(number_of(one, "samples"), 0);
	set_policy(&web->lab, "null");
	assert_true(cost_is(segment, 0, 0));
	sample(segment, 0, 2000000); // no policy needs this sample
	since = lab_now_ms(); // rings are read every 50 ms: wait for 200 ms
	LAB_UNTIL(lab_now_ms() - since > 200);
	assert_int_equal(ring->tail - segment->control_boxes[0].samples.head, 1);
	json_decref(holder);
}

TEST(flow_control_gives_warnings) {
	struct web *web = *state;
	struct weir_segment *segment = lab_dataplane_segment(web->dataplane);
	json_t *holder = NULL, *one = show_web(&web->lab, &holder);

	assert_int_equal(json_array_size(json_object_get(one, "warnings")), 0);
	weir_counter_add(&weir_segment_service_counters(segment, 0, 0)->spilled, 3);
	weir_counter_add(&weir_segment_service_counters(segment, 1, 0)->rejected, 1);
	weir_counter_add(&weir_segment_service_counters(segment, 0, 0)->rehashed, 5);
	weir_counter_add(&weir_segment_service_counters(segment, 1, 0)->reset, 7);
	weir_counter_add(&segment->worker_counters[0].drops[WEIR_DROP_FLOW_CONTROL], 2);
	one = show_web(&web->lab, &holder);
	assert_int_equal(number_of(one, "spilled"), 3);
	assert_int_equal(number_of(one, "rejected"), 1);
	assert_int_equal(number_of(one, "rehashed"), 5);
	assert_int_equal(number_of(one, "reset"), 7);
	assert_int_equal(number_of(json_object_get(one, "flow_control"), "last_minute"), 4);
	assert_int_equal(
		number_of(json_object_get(one, "flow_control"), "drops_of_all_services"), 2);
	assert_int_equal(
		number_of(json_object_get(one, "flow_control"), "rejected_last_minute"), 1);
	assert_int_equal(json_array_size(json_object_get(one, "warnings")), 1);
	assert_string_equal(json_string_value(json_array_get(json_object_get(one, "warnings"), 0)),
		"connection limit: every backend was at max_active_flows for 4 new flows in the "
		"last "
		"minute: 1 rejected, 3 spilled; when_exhausted is spill");
	json_decref(holder);
	// The flow was rejected, although when_exhausted is spill since a reload.
	holder = lab_result(&web->lab, JSON({"command": "status", "service": "web"}));
	one = json_array_get(json_object_get(holder, "reasons"), 0);
	assert_string_equal(json_string_value(json_object_get(one, "text")),
		"1 new flow rejected in the last minute, because every backend was at "
		"max_active_flows: web");
	json_decref(holder);
}

TEST(refusals) {
	struct web *web = *state;

	assert_string_equal(lab_code(&web->lab,
		JSON({"command": "service.set", "service": "web",
			"policy": "fastest"})), "bad-request");
	assert_string_equal(lab_code(&web->lab, JSON({"command": "service.set", "service": "web"})),
		"bad-request");
	assert_string_equal(lab_code(&web->lab,
		JSON({"command": "service.set", "service": "web", "policy": 3})), "bad-request");
	assert_string_equal(lab_code(&web->lab,
		JSON({"command": "service.set", "service": "ftp",
			"policy": "random"})), "not-found");
}

#define MEDIAN_WEB \
	"{\"name\": \"web\", \"binds\": [{\"address\": \"198.51.100.10\", " \
	"\"protocol\": \"tcp\", \"port\": 80}], \"policy\": {\"name\": \"fair-share\", " \
	"\"statistic\": \"median\", \"window\": 65535}, " \
	"\"backends\": [{\"name\": \"w-1\", \"address\": \"10.0.1.11\"}, " \
	"{\"name\": \"w-2\", \"address\": \"10.0.1.12\"}]}"

#define FAIR_WEB \
	"{\"name\": \"web\", \"binds\": [{\"address\": \"198.51.100.10\", " \
	"\"protocol\": \"tcp\", \"port\": 80}], \"policy\": {\"name\": \"fair-share\", " \
	"\"window\": 10}, \"backends\": [{\"name\": \"w-1\", \"address\": \"10.0.1.11\"}, " \
	"{\"name\": \"w-2\", \"address\": \"10.0.1.12\"}]}"

// The ring is full of samples. Processing a sample takes long, so one iteration of the loop cannot
// read all samples. The next iteration must follow at once, because 131 iterations with pauses of
// 50 ms would take seconds.
TEST(samples_left_by_one_turn_are_read_in_the_next) {
	struct web *web = *state;
	struct weir_segment *segment = lab_dataplane_segment(web->dataplane);
	const struct weir_sample_ring *ring = &segment->worker_boxes[0].samples;
	const struct weir_ring_position *position = &segment->control_boxes[0].samples;
	uint64_t since;

	lab_write_config(&web->lab, MEDIAN_WEB ", " DNS_SERVICE);
	json_decref(lab_result(&web->lab, JSON({"command": "config.reload"})));
	for (uint32_t i = 0; i < WEIR_SAMPLES; i++) {
		sample(segment, 0, 2000000);
	}
	since = lab_now_ms();
	LAB_UNTIL(__atomic_load_n(&position->head, __ATOMIC_ACQUIRE) == ring->tail);
	assert_in_range(lab_now_ms() - since, 0, 4000);
	assert_true(cost_is(segment, 0, 2000000));
	lab_write_config(&web->lab, WEB_SERVICES ", " DNS_SERVICE);
	json_decref(lab_result(&web->lab, JSON({"command": "config.reload"})));
}

// An operator has set a policy. When the policy in the file changes, a reload replaces the
// operator's policy. Settings in the file also apply to a policy that an operator sets.
TEST(reload_with_another_policy) {
	struct web *web = *state;
	json_t *holder = NULL, *one, *answer;

	set_policy(&web->lab, "\"random\"");
	lab_write_config(&web->lab, FAIR_WEB ", " DNS_SERVICE);
	answer = lab_result(&web->lab, JSON({"command": "config.reload"}));
	assert_string_equal(text_of(json_array_get(json_object_get(answer, "changes"), 0), "what"),
		"service web policy");
	json_decref(answer);
	one = show_web(&web->lab, &holder);
	assert_string_equal(text_of(one, "policy"), "fair-share");
	assert_true(json_is_null(json_object_get(one, "runtime_policy")));
	answer = lab_ask(
		&web->lab, JSON({"command": "service.set", "service": "web",
			"policy": "round-robin"}));
	assert_string_equal(text_of(answer, "code"), "refused");
	assert_non_null(strstr(text_of(answer, "error"), "does not support \"window\""));
	json_decref(answer);
	set_policy(&web->lab, "\"time-weighted-round-robin\"");
	set_policy(&web->lab, "null");
	lab_write_config(&web->lab, WEB_SERVICES ", " DNS_SERVICE);
	json_decref(lab_result(&web->lab, JSON({"command": "config.reload"})));
	assert_string_equal(text_of(show_web(&web->lab, &holder), "policy"), "maglev");
	json_decref(holder);
}

#define WITH_POLICY(policy) \
	"{\"name\": \"web\", \"binds\": [{\"address\": \"198.51.100.10\", \"protocol\": \"tcp\", " \
	"\"port\": 80}], \"policy\": {\"name\": " policy \
	"}, \"backends\": [{\"name\": \"w-1\", \"address\": \"10.0.1.11\"}]}"
#define REPORTED(settings) \
	WITH_POLICY("\"weighted-round-robin\", \"weights\": \"reported\"" settings)

TEST(settings_of_reported_weights_follow_a_reload) {
	struct web *web = *state;
	json_t *holder = NULL, *settings;

	lab_write_config(&web->lab, REPORTED(""));
	json_decref(lab_result(&web->lab, JSON({"command": "config.reload"})));
	settings = json_object_get(show_web(&web->lab, &holder), "settings");
	assert_int_equal(json_object_size(settings), 7);
	assert_string_equal(text_of(settings, "requests"), "all");
	assert_true(json_real_value(json_object_get(settings, "error_penalty")) == 1);
	assert_int_equal(number_of(settings, "blackout_ms"), 10000);
	assert_int_equal(number_of(settings, "expiration_ms"), 180000);
	assert_int_equal(number_of(settings, "smoothing_ms"), 10000);
	lab_write_config(&web->lab, REPORTED(", \"requests\": \"successful\", \"error_penalty\": "
					     "2.5, \"update_ms\": 5000"));
	json_decref(lab_result(&web->lab, JSON({"command": "config.reload"})));
	settings = json_object_get(show_web(&web->lab, &holder), "settings");
	assert_string_equal(text_of(settings, "requests"), "successful");
	assert_true(json_real_value(json_object_get(settings, "error_penalty")) == 2.5);
	assert_int_equal(number_of(settings, "update_ms"), 5000);
	json_decref(holder);
}

TEST(rounds_of_tasks_have_no_settings_of_times) {
	struct web *web = *state;
	json_t *holder = NULL, *settings;

	lab_write_config(&web->lab, WITH_POLICY("\"interleaved-weighted-round-robin\", \"rounds\": "
						"\"tasks\""));
	json_decref(lab_result(&web->lab, JSON({"command": "config.reload"})));
	settings = json_object_get(show_web(&web->lab, &holder), "settings");
	assert_int_equal(json_object_size(settings), 1);
	assert_string_equal(text_of(settings, "rounds"), "tasks");
	json_decref(holder);
}
