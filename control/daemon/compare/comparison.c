// SPDX-License-Identifier: BSD-3-Clause
#include "comparison.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "totals.h"

// Maximum error of the start of a flow. The start is computed from the end and the duration of the
// flow, which are rounded to 1 and 16 us.
#define START_ERROR_NS 20000u
// maximum number of flows that are sorted or replayed in one iteration of the loop
#define SLICE 4096u
#define NONE UINT16_MAX

enum phase { RECORDING, SORTING, REPLAYING };

struct weir_comparison {
	struct weir_comparisons *of;
	weir_comparison_done done;
	void *context;
	uv_timer_t timer; // ends the recording
	uv_idle_t idle; // runs while flows are sorted and replayed
	int handles; // number of handles that are not closed yet
	enum phase phase;
	uint16_t service;
	uint64_t began_ns;
	uint64_t new_flows, lost; // counters at the start of the recording
	uint64_t updates; // number of changes of the tables at the start of the recording
	// Heap whose root is the flow that began last. In the phase SORTING, the flows at the
	// indexes from `sorting` on are already sorted by their start.
	struct weir_replay_flow *flows;
	uint32_t count, room, sorting;
	uint16_t *number_of; // [ids] index of a backend in `backends`, by backend id, or NONE
	uint32_t ids;
	struct weir_replay_backend *backends;
	struct weir_comparison_result *result;
	int policy; // policy of the current or next replay; the first is WEIR_REPLAY_RECORDED
	struct weir_replay *replay;
};

void weir_comparison_result_free(struct weir_comparison_result *result) {
	if (result == NULL) {
		return;
	}
	for (int i = 0; i <= WEIR_POLICY_COUNT; i++) {
		free((uint32_t *)result->replayed[i].flows_of);
	}
	free(result->names);
	free(result->backends);
	free(result);
}

static void free_comparison(struct weir_comparison *comparison) {
	weir_replay_free(comparison->replay);
	weir_comparison_result_free(comparison->result);
	free(comparison->flows);
	free(comparison->number_of);
	free(comparison->backends);
	free(comparison);
}

static void on_closed(uv_handle_t *handle) {
	struct weir_comparison *comparison = handle->data;

	if (--comparison->handles == 0) {
		free_comparison(comparison);
	}
}

static uint64_t now_ns(void) {
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static uint64_t lost_samples(const struct weir_segment *segment) {
	uint64_t lost = 0;

	for (uint32_t worker = 0; worker < segment->workers; worker++) {
		lost += weir_counter_read(&segment->worker_boxes[worker].samples.lost);
	}
	return lost;
}

static void stop_recording(struct weir_comparison *comparison) {
	struct weir_comparisons *of = comparison->of;

	weir_estimates_listen(of->estimates, NULL, NULL);
	weir_tables_set_measured(of->tables, comparison->service, false);
	of->changed(of->context);
}

// Ends the comparison, and calls `done` with result and why (weir_comparison_done). result:
// comparison->result, or NULL.
static void end(struct weir_comparison *comparison, struct weir_comparison_result *result,
	const char *why) {
	if (comparison->phase == RECORDING) {
		stop_recording(comparison);
	}
	comparison->of->current = NULL;
	// Move everything that the result refers to out of the comparison, because the owner of the
	// result can keep it longer than the comparison exists.
	if (result != NULL) {
		result->backends = comparison->backends;
		result->params.flows = NULL;
		comparison->backends = NULL;
		comparison->result = NULL;
	}
	comparison->done(comparison->context, result, why);
	uv_close((uv_handle_t *)&comparison->timer, on_closed);
	uv_close((uv_handle_t *)&comparison->idle, on_closed);
}

// --- sorting --------------------------------------------------------------------------------

static void sift_down(struct weir_replay_flow *flows, uint32_t count, struct weir_replay_flow one) {
	uint32_t i = 0;

	for (;;) {
		uint32_t child = 2 * i + 1;

		if (child + 1 < count && flows[child + 1].start_ns > flows[child].start_ns) {
			child++;
		}
		if (child >= count || flows[child].start_ns <= one.start_ns) {
			break;
		}
		flows[i] = flows[child];
		i = child;
	}
	flows[i] = one;
}

// Sort a slice of the flows by their start. Returns whether all flows are sorted.
static bool sort_some(struct weir_comparison *comparison) {
	struct weir_replay_flow *flows = comparison->flows;

	for (uint32_t i = 0; i < SLICE && comparison->sorting > 1; i++) {
		uint32_t last = --comparison->sorting;
		struct weir_replay_flow one = flows[last];

		flows[last] = flows[0];
		sift_down(flows, last, one);
	}
	return comparison->sorting <= 1;
}

static void push(struct weir_comparison *comparison, struct weir_replay_flow flow) {
	struct weir_replay_flow *flows = comparison->flows;
	uint32_t i = comparison->count++;

	for (; i > 0 && flows[(i - 1) / 2].start_ns < flow.start_ns; i = (i - 1) / 2) {
		flows[i] = flows[(i - 1) / 2];
	}
	flows[i] = flow;
}

// --- recording ------------------------------------------------------------------------------

static bool has_room(struct weir_comparison *comparison) {
	uint32_t room = comparison->room * 2 < 4096 ? 4096 : comparison->room * 2;
	struct weir_replay_flow *grown;

	if (comparison->count < comparison->room) {
		return true;
	}
	room = room < WEIR_COMPARISON_FLOWS ? room : WEIR_COMPARISON_FLOWS;
	grown = room > comparison->room ? realloc(comparison->flows, room * sizeof(*grown)) : NULL;
	if (grown == NULL) {
		return false;
	}
	comparison->flows = grown;
	comparison->room = room;
	return true;
}

// Records one sample of a flow. The backend and the times come from another process, so they are
// validated.
static void on_sample(void *context, const struct weir_estimates_sample *sample) {
	struct weir_comparison *comparison = context;
	uint16_t number =
		sample->backend < comparison->ids ? comparison->number_of[sample->backend] : NONE;
	uint64_t start_ns = sample->end_ns - sample->service_ns;

	if (number == NONE || weir_tables_backend_name_at(comparison->of->tables, sample->backend,
				      comparison->updates) == NULL) {
		return; // the backend belongs to another service, or was added or removed
	}
	if (sample->service_ns > sample->end_ns ||
		start_ns < comparison->began_ns + START_ERROR_NS) {
		return; // the flow began before the recording
	}
	if (!has_room(comparison)) {
		comparison->result->omitted++;
		return;
	}
	push(comparison, (struct weir_replay_flow){.start_ns = start_ns,
				 .service_ns = sample->service_ns,
				 .backend = number,
				 .worker = (uint16_t)sample->worker});
	comparison->result->names[number].time_sum_ns += sample->service_ns;
}

// --- replaying ------------------------------------------------------------------------------

// Copies the result of a replay, frees the replay, and continues with the next policy. Returns 0 or
// -ENOMEM.
static int keep_result(struct weir_comparison *comparison) {
	struct weir_comparison_result *result = comparison->result;
	int at =
		comparison->policy == WEIR_REPLAY_RECORDED ? WEIR_POLICY_COUNT : comparison->policy;
	size_t bytes = result->params.backend_count * sizeof(uint32_t);
	uint32_t *flows_of = malloc(bytes + 1);

	if (flows_of == NULL) {
		return -ENOMEM;
	}
	weir_replay_read(comparison->replay, &result->replayed[at]);
	memcpy(flows_of, result->replayed[at].flows_of, bytes);
	result->replayed[at].flows_of = flows_of;
	weir_replay_free(comparison->replay);
	comparison->replay = NULL;
	comparison->policy++;
	return 0;
}

// Replay a slice of the flows. Returns 1 when all policies have been replayed, otherwise 0 or
// -ENOMEM.
static int replay_some(struct weir_comparison *comparison) {
	int r = 0;

	if (comparison->replay == NULL) {
		while (comparison->policy >= 0 && comparison->policy < WEIR_POLICY_COUNT &&
			!weir_replay_can((enum weir_policy)comparison->policy)) {
			comparison->policy++;
		}
		if (comparison->policy == WEIR_POLICY_COUNT) {
			return 1;
		}
		r = weir_replay_create(
			&comparison->result->params, comparison->policy, &comparison->replay);
	}
	if (r == 0 && weir_replay_step(comparison->replay, SLICE)) {
		r = keep_result(comparison);
	}
	return r;
}

static void on_idle(uv_idle_t *idle) {
	struct weir_comparison *comparison = idle->data;
	int r;

	if (comparison->phase == SORTING) {
		comparison->phase = sort_some(comparison) ? REPLAYING : SORTING;
		return;
	}
	r = replay_some(comparison);
	if (r != 0) {
		uv_idle_stop(idle);
		end(comparison, r < 0 ? NULL : comparison->result, NULL);
	}
}

static void on_recorded(uv_timer_t *timer) {
	struct weir_comparison *comparison = timer->data;
	struct weir_comparison_result *result = comparison->result;
	struct weir_comparisons *of = comparison->of;
	uint64_t ended_ns = now_ns(), new_flows;

	weir_estimates_drain(of->estimates, ended_ns);
	stop_recording(comparison);
	result->recorded_ms = (ended_ns - comparison->began_ns) / 1000000;
	new_flows = weir_sum_service(of->segment, comparison->service).new_flows;
	// After a reload, another service, with fewer flows, can have the id.
	result->began = new_flows > comparison->new_flows ? new_flows - comparison->new_flows : 0;
	if (result->began < comparison->count + result->omitted) {
		// The samples come from another process, so their number can be wrong.
		result->began = comparison->count + result->omitted;
	}
	result->lost = lost_samples(of->segment) - comparison->lost;
	result->params.flows = comparison->flows;
	result->params.flow_count = comparison->count;
	comparison->sorting = comparison->count;
	comparison->phase = SORTING;
	uv_idle_start(&comparison->idle, on_idle);
}

// --- start ----------------------------------------------------------------------------------

static void number_backends(struct weir_comparison *comparison, const char *service) {
	const struct weir_tables *tables = comparison->of->tables;
	struct weir_comparison_result *result = comparison->result;
	uint32_t n = 0;

	for (uint32_t id = 0; id < comparison->ids; id++) {
		struct weir_backend_state state;

		comparison->number_of[id] = NONE;
		if (weir_tables_backend(tables, (uint16_t)id, &state) < 0 || state.leaving ||
			strcmp(state.service, service) != 0) {
			continue;
		}
		memcpy(result->names[n].name, state.name, sizeof(result->names[n].name));
		result->names[n].id = (uint16_t)id;
		comparison->backends[n] = (struct weir_replay_backend){
			.identity = state.identity, .weight = state.effective_weight};
		comparison->number_of[id] = (uint16_t)n++;
	}
	result->params.backend_count = n;
	result->params.backends = comparison->backends;
}

// Sets `subsets` of each backend in comparison->backends. Returns 0 or -ENOMEM.
static int copy_subsets(struct weir_comparison *comparison, uint32_t subsets) {
	const struct weir_tables *tables = comparison->of->tables;
	struct weir_subset_part *parts = calloc(comparison->ids + 1, sizeof(*parts));

	if (parts == NULL) {
		return -ENOMEM;
	}
	for (uint32_t s = 0; s < subsets; s++) {
		uint32_t n = weir_tables_subset_parts(
			tables, comparison->service, s, parts, comparison->ids);

		for (uint32_t i = 0; i < n; i++) {
			uint16_t number = parts[i].backend < comparison->ids
						  ? comparison->number_of[parts[i].backend]
						  : NONE;

			if (number != NONE) {
				comparison->backends[number].subsets |= 1ull << s;
			}
		}
	}
	free(parts);
	return 0;
}

static uint32_t slots_of(const struct weir_tables *tables, const char *service) {
	const struct weir_config_service *config =
		weir_config_find_service(weir_tables_config(tables), service);

	return config != NULL ? config->table_size : 65537;
}

static int prepare(struct weir_comparison *comparison, bool scaled) {
	struct weir_comparisons *of = comparison->of;
	struct weir_comparison_result *result;
	struct weir_service_state state;

	comparison->ids = weir_tables_backend_ids(of->tables);
	comparison->result = result = calloc(1, sizeof(*result));
	comparison->number_of = calloc(comparison->ids + 1, sizeof(*comparison->number_of));
	comparison->backends = calloc(comparison->ids + 1, sizeof(*comparison->backends));
	if (result == NULL || comparison->number_of == NULL || comparison->backends == NULL) {
		return -ENOMEM;
	}
	result->names = calloc(comparison->ids + 1, sizeof(*result->names));
	if (result->names == NULL ||
		weir_tables_service(of->tables, comparison->service, &state) < 0) {
		return -ENOMEM;
	}
	snprintf(result->service, sizeof(result->service), "%s",
		weir_tables_service_name(of->tables, comparison->service));
	result->policy = state.policy;
	result->params.workers = of->segment->workers;
	result->params.subsets = state.subsets > 0 ? state.subsets : 1;
	result->params.slots = slots_of(of->tables, result->service);
	result->params.settings = state.settings;
	result->params.scaled = scaled;
	number_backends(comparison, result->service);
	return copy_subsets(comparison, result->params.subsets);
}

int weir_comparison_begin(struct weir_comparisons *of, uint16_t service, uint32_t for_ms,
	bool scaled, weir_comparison_done done, void *context) {
	struct weir_comparison *comparison;
	int r;

	if (of->current != NULL) {
		return -EBUSY;
	}
	comparison = calloc(1, sizeof(*comparison));
	if (comparison == NULL) {
		return -ENOMEM;
	}
	comparison->of = of;
	comparison->service = service;
	comparison->done = done;
	comparison->context = context;
	comparison->policy = WEIR_REPLAY_RECORDED;
	r = prepare(comparison, scaled);
	if (r < 0) {
		free_comparison(comparison);
		return r;
	}
	comparison->new_flows = weir_sum_service(of->segment, service).new_flows;
	comparison->lost = lost_samples(of->segment);
	uv_timer_init(of->loop, &comparison->timer);
	uv_idle_init(of->loop, &comparison->idle);
	comparison->timer.data = comparison->idle.data = comparison;
	comparison->handles = 2;
	of->current = comparison;
	weir_tables_set_measured(of->tables, service, true);
	weir_estimates_listen(of->estimates, on_sample, comparison);
	of->changed(of->context);
	comparison->updates = __atomic_load_n(&of->segment->news->updates, __ATOMIC_RELAXED);
	comparison->began_ns = now_ns();
	// Update the loop's time first. It is outdated if the loop was busy, and would shorten the
	// recording.
	uv_update_time(of->loop);
	uv_timer_start(&comparison->timer, on_recorded, for_ms, 0);
	return 0;
}

void *weir_comparison_context(const struct weir_comparisons *of) {
	return of->current != NULL ? of->current->context : NULL;
}

void weir_comparison_abandon(struct weir_comparisons *of, const char *why) {
	if (of->current != NULL) {
		end(of->current, NULL, why);
	}
}
