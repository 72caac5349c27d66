// SPDX-License-Identifier: BSD-3-Clause
//
// Capability from load reports: the formula of gRPC, and the states of a backend over time. Weir
// differs from gRPC in two points: it adds the penalty before it refuses a report without
// utilization, and it smooths the result. If a report has utilization and no smoothing applies,
// both the formula and Weir must give the recorded result.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "capability.h"
#include "replay.h"

#define NS_PER_S 1e9
#define TOLERANCE 1e-12

struct states {
	struct replay *replay;
	struct weir_capability_settings settings;
	struct weir_capability capability;
};

bool replay_capability_recognise(const json_t *root) {
	return replay_has(root, "state_machine") || replay_has(root, "formula");
}

static void replay_formula(struct replay *replay, const json_t *vector) {
	const struct weir_capability_report report = {
		.requests_per_second = replay_real(replay, vector, "qps", 0),
		.errors_per_second = replay_real(replay, vector, "eps", 0),
		.utilization = replay_real(replay, vector, "util", 0),
	};
	struct weir_capability_settings settings = weir_capability_defaults();
	double expected = replay_real(replay, vector, "weight", NAN);

	settings.penalty = replay_real(replay, vector, "penalty", settings.penalty);
	settings.grpc_order = true;
	if (!replay_known_keys(replay, vector, "qps eps util penalty weight")) {
		return;
	}
	replay_check_real(replay, "weight", -1, expected,
		weir_capability_weight(&settings, &report), TOLERANCE);
	if (report.utilization > 0) {
		settings.grpc_order = false;
		replay_check_real(replay, "our weight", -1, expected,
			weir_capability_weight(&settings, &report), TOLERANCE);
	}
}

static double utilization_of(struct replay *replay, const json_t *report) {
	const json_t *named = json_object_get(report, "named_metrics");
	double values[16];
	uint32_t n = 0;
	const char *key;
	json_t *value;

	json_object_foreach ((json_t *)named, key, value) {
		if (n < sizeof(values) / sizeof(values[0])) {
			values[n++] = json_number_value(value);
		}
	}
	return weir_capability_utilization(values, n,
		replay_real(replay, report, "application_utilization", 0),
		replay_real(replay, report, "cpu_utilization", 0));
}

// The result "ignored" means that the report sets no new weight.
static void check_weight(struct states *states, long index, const json_t *result, double got) {
	const char *text = json_string_value(result);

	if (text != NULL) {
		replay_check_text(states->replay, "result of step", index, text,
			got > 0 ? "used" : "ignored");
	} else if (json_is_number(result)) {
		replay_check_real(states->replay, "result of step", index,
			json_number_value(result), got, TOLERANCE);
	} else if (result != NULL) {
		replay_fail(states->replay, "step %ld: a result is no weight", index);
	}
}

static void replay_step(struct states *states, const json_t *step, long index) {
	const char *op = replay_text(states->replay, step, "op", "");
	uint64_t now_ns = replay_ns(replay_real(states->replay, step, "t", 0), NS_PER_S);
	const json_t *sent = json_object_get(step, "report");
	const json_t *result = json_object_get(step, "result");

	if (!replay_known_keys(states->replay, step, "t op report result")) {
		return;
	}
	if (strcmp(op, "weight") == 0) {
		check_weight(states, index, result,
			weir_capability_read(&states->capability, &states->settings, now_ns));
	} else if (strcmp(op, "becomes_ready") == 0) {
		weir_capability_ready(&states->capability);
	} else if (strcmp(op, "report") == 0 && json_is_object(sent)) {
		const struct weir_capability_report report = {
			.requests_per_second = replay_real(states->replay, sent, "rps_fractional",
				replay_real(states->replay, sent, "rps", 0)),
			.errors_per_second = replay_real(states->replay, sent, "eps", 0),
			.utilization = utilization_of(states->replay, sent),
		};

		replay_known_keys(states->replay, sent,
			"cpu_utilization application_utilization named_metrics mem_utilization "
			"utilization rps rps_fractional eps");
		check_weight(states, index, result,
			weir_capability_add(
				&states->capability, &states->settings, &report, now_ns));
	} else {
		replay_fail(states->replay, "step %ld: unknown op \"%s\"", index, op);
	}
}

static void replay_states(struct replay *replay, const json_t *root, const json_t *list) {
	struct states states = {.replay = replay, .settings = weir_capability_defaults()};
	const json_t *step;
	size_t i;

	states.settings.grpc_order = true;
	states.settings.smoothing_ns = 0;
	states.settings.penalty = replay_real(replay, root, "penalty", states.settings.penalty);
	states.settings.blackout_ns =
		replay_ns(replay_real(replay, root, "blackout_s", 10), NS_PER_S);
	states.settings.expiration_ns =
		replay_ns(replay_real(replay, root, "expiration_s", 180), NS_PER_S);
	json_array_foreach (list, i, step) {
		replay_step(&states, step, (long)i);
	}
}

// Replays one list of steps, or several lists, each for a separate backend.
static void replay_state_machine(struct replay *replay, const json_t *root) {
	const json_t *list = json_object_get(root, "state_machine");
	const json_t *one;
	size_t i;

	if (list == NULL) {
		return;
	}
	if (!json_is_array(json_array_get(list, 0))) {
		replay_begin(replay, "state machine");
		replay_states(replay, root, list);
		replay_end(replay);
		return;
	}
	json_array_foreach (list, i, one) {
		replay_begin(replay, "state machine %zu", i);
		replay_states(replay, root, one);
		replay_end(replay);
	}
}

void replay_capability(struct replay *replay, const json_t *root) {
	const json_t *vector;
	size_t i;

	replay_root(replay, root, "state_machine formula penalty blackout_s expiration_s");
	replay_state_machine(replay, root);
	json_array_foreach (json_object_get(root, "formula"), i, vector) {
		replay_begin(replay, "formula %zu", i);
		replay_formula(replay, vector);
		replay_end(replay);
	}
}
