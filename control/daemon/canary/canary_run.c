// SPDX-License-Identifier: BSD-3-Clause
#include <stdio.h>
#include <string.h>

#include "canary_private.h"

// Maximum time since the previous call for which requests are added, because this process may have
// been stopped in between.
#define PASSED_MOST_MS 5000u

// --- once a second --------------------------------------------------------------------------

// Returns why a canary whose backend has this state must be paused; NULL = it is not paused. After
// a pause the step begins again.
static const char *pause_of(
	const struct weir_canaries *canaries, const struct weir_backend_state *state) {
	uint64_t age_ms;

	if (state->admin != WEIR_ADMIN_READY) {
		return state->admin == WEIR_ADMIN_DRAIN ? "drained" : "in maintenance";
	}
	if (state->health == WEIR_HEALTH_LAME_DUCK) {
		return "lame duck";
	}
	if (state->health == WEIR_HEALTH_STARTING) {
		return "not checked yet";
	}
	if (weir_probed_agents_state(canaries->of.agents, state->id, &age_ms) ==
		WEIR_AGENT_SILENT) {
		return "its agent does not answer";
	}
	return state->in_selection ? NULL : "the backend gets no new flows yet";
}

// Returns why a canary is rolled back without a comparison with other backends, or NULL if it is
// not rolled back. why: buffer for the text.
static const char *failure_of(const struct weir_canaries *canaries,
	const struct weir_backend_state *state, char why[WEIR_CANARY_WHY_BYTES]) {
	struct weir_states_status known = {.why = ""};

	if (state->health == WEIR_HEALTH_REFUSING) {
		weir_states_status(canaries->of.states, state->id, &known);
		snprintf(why, WEIR_CANARY_WHY_BYTES, "%s%s%s",
			known.facts.word == WEIR_HEALTH_WORD_DOWN ? "it was announced as down"
								  : "its health checks fail",
			known.why[0] != '\0' ? ": " : "", known.why);
		return why;
	}
	return state->ejected ? "the backend was ejected, because its connections fail" : NULL;
}

static void set_paused(
	const struct weir_canaries *canaries, struct weir_canary *canary, const char *reason) {
	if (reason != canary->paused &&
		(reason == NULL || canary->paused == NULL || strcmp(reason, canary->paused) != 0)) {
		if (reason != NULL) {
			weir_canary_note(canaries, canary, WEIR_LOG_INFO, "paused: %s", reason);
		} else {
			weir_canary_note(canaries, canary, WEIR_LOG_INFO, "step %u begins again",
				canary->record.step + 1);
		}
	}
	canary->paused = reason;
	canary->begun &= reason == NULL;
}

static void begin_step(struct weir_canary *canary, uint64_t now_ms) {
	canary->begun = true;
	canary->prolonged = false;
	canary->began_ms = now_ms;
	canary->passed_ms = 0;
	canary->signs = (struct weir_canary_signs){.counted = false};
}

static void next_step(struct weir_canaries *canaries, struct weir_canary *canary, const char *why) {
	struct weir_canary_record *record = &canary->record;
	char text[WEIR_AUDIT_VALUE_BYTES];

	if (record->step + 1 == record->plan.steps) {
		weir_canary_end(canaries, canary, WEIR_CANARY_PROMOTED, why);
		return;
	}
	record->step++;
	canary->begun = false;
	canaries->unsaved = true;
	weir_canary_set_share(canaries, canary, true);
	weir_canary_note(canaries, canary, WEIR_LOG_INFO, "%s after %s",
		weir_canary_describe(canary, text, sizeof(text)), why);
}

static void judge(struct weir_canaries *canaries, struct weir_canary *canary) {
	const struct weir_canary_plan *plan = &canary->record.plan;
	const bool at_end = (double)canary->passed_ms >= plan->every_ms;
	char why[WEIR_CANARY_WHY_BYTES];
	enum weir_canary_verdict verdict =
		weir_canary_judge(plan, &canary->signs.canary, &canary->signs.others, at_end, why);

	if (verdict == WEIR_CANARY_WORSE) {
		weir_canary_end(canaries, canary, WEIR_CANARY_ROLLED_BACK, why);
	} else if (verdict == WEIR_CANARY_GOOD) {
		next_step(canaries, canary, why);
	} else if (at_end && !canary->prolonged) {
		canary->prolonged = true;
		weir_canary_note(canaries, canary, WEIR_LOG_INFO, "step %u is prolonged: %s",
			canary->record.step + 1, why);
	}
}

static void look(struct weir_canaries *canaries, struct weir_canary *canary, uint64_t now_ms) {
	struct weir_backend_state state;
	char why[WEIR_CANARY_WHY_BYTES];
	const char *failure;

	if (canary->service < 0 || canary->backend < 0 ||
		weir_tables_backend(canaries->tables, (uint16_t)canary->backend, &state) < 0) {
		set_paused(canaries, canary,
			"the service or backend is not in the dataplane's tables yet");
		return;
	}
	failure = weir_canary_misfit(canaries->tables, canary->service, why, sizeof(why));
	failure = failure != NULL ? failure : failure_of(canaries, &state, why);
	if (failure != NULL) {
		weir_canary_end(canaries, canary, WEIR_CANARY_ROLLED_BACK, failure);
		return;
	}
	set_paused(canaries, canary,
		canary->others == 0 ? "no other backend gets new flows"
				    : pause_of(canaries, &state));
	weir_canary_set_share(canaries, canary, false);
	if (canary->paused != NULL) {
		return;
	}
	if (!canary->begun) {
		begin_step(canary, now_ms);
	}
	canary->passed_ms = now_ms - canary->began_ms;
	weir_canary_count_flows(&canary->signs, weir_tables_segment(canaries->tables),
		(uint16_t)canary->service, (uint16_t)canary->backend);
	judge(canaries, canary);
}

// Adds the weight and the report of one backend to the sums for its service's canary.
static void add_backend(struct weir_canaries *canaries, struct weir_canary *canary, uint16_t id,
	uint64_t passed_ms, uint64_t now_ms) {
	const bool is_canary = canary->backend == (int)id;
	struct weir_canary_side *side = is_canary ? &canary->signs.canary : &canary->signs.others;
	struct weir_reports_status report;
	struct weir_backend_state state;
	uint64_t age_ms;

	if (weir_tables_backend(canaries->tables, id, &state) < 0 || state.leaving) {
		return;
	}
	canary->others += is_canary || !state.in_selection ? 0 : state.effective_weight;
	weir_probed_agents_request_figures(canaries->of.agents, id);
	if (canary->begun && (is_canary || state.in_selection) &&
		weir_reports_status(canaries->of.reports, id, &report) == 0 &&
		weir_probed_agents_state(canaries->of.agents, id, &age_ms) != WEIR_AGENT_SILENT) {
		weir_canary_add_report(
			&side->reported, &report, passed_ms, now_ms - canary->began_ms);
	}
}

// Adds the weights and reports of all backends to the sums for all running canaries, in one pass.
static void add_backends(struct weir_canaries *canaries, uint64_t passed_ms, uint64_t now_ms) {
	uint16_t canary_of[WEIR_SERVICES_MAX] = {0}; // index of the canary + 1; 0 = no canary
	bool any = false;

	for (uint32_t i = 0; i < canaries->count; i++) {
		struct weir_canary *canary = &canaries->canary[i];

		weir_canary_find_ids(canaries->tables, canary);
		canary->others = 0;
		if (weir_canary_is_running(canary) && canary->service >= 0) {
			canary_of[canary->service] = (uint16_t)(i + 1);
			any = true;
		}
	}
	for (uint32_t id = 0; any && id < weir_tables_backend_ids(canaries->tables); id++) {
		uint16_t service = weir_tables_backend_service(canaries->tables, (uint16_t)id);

		if (service < WEIR_SERVICES_MAX && canary_of[service] > 0) {
			add_backend(canaries, &canaries->canary[canary_of[service] - 1],
				(uint16_t)id, passed_ms, now_ms);
		}
	}
}

bool weir_canaries_second(struct weir_canaries *canaries, uint64_t now_ms, bool published) {
	uint64_t passed_ms = canaries->second_ms > 0 ? now_ms - canaries->second_ms : 0;
	bool changed;

	canaries->second_ms = now_ms;
	(void)weir_canaries_save(canaries, published);
	if (canaries->tables == NULL || canaries->count == 0) {
		return false;
	}
	passed_ms = passed_ms < PASSED_MOST_MS ? passed_ms : PASSED_MOST_MS;
	add_backends(canaries, passed_ms, now_ms);
	for (uint32_t i = 0; i < canaries->count; i++) {
		struct weir_canary *canary = &canaries->canary[i];

		if (!weir_canary_is_running(canary)) {
			continue;
		}
		if (weir_tables_segment(canaries->tables) == NULL) {
			set_paused(canaries, canary, "no dataplane is attached");
		} else {
			look(canaries, canary, now_ms);
		}
	}
	(void)weir_canaries_save(canaries, false);
	changed = canaries->changed;
	canaries->changed = false;
	return changed;
}
