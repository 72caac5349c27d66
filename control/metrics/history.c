// SPDX-License-Identifier: BSD-3-Clause
#include "history.h"

void weir_history_add(struct weir_history *history, uint64_t time_ms, const json_t *workers) {
	struct weir_history_sample *sample = &history->sample[history->next];

	*sample = (struct weir_history_sample){.time_ms = time_ms, .known = json_is_array(workers)};
	for (size_t i = 0; i < json_array_size(workers); i++) {
		const json_t *worker = json_array_get(workers, i);

#define X(field) sample->field += json_integer_value(json_object_get(worker, #field));
		WEIR_HISTORY_FIGURES(X)
#undef X
		sample->rx_packets -= json_integer_value(json_object_get(worker, "handed_over"));
	}
	history->next = (history->next + 1) % WEIR_HISTORY_SAMPLES;
	history->count += history->count < WEIR_HISTORY_SAMPLES;
}

static json_t *json_sample(const struct weir_history_sample *sample) {
	json_t *list = json_array();

	json_array_append_new(list, json_integer((json_int_t)sample->time_ms));
	if (sample->known) {
#define X(field) json_array_append_new(list, json_integer(sample->field));
		WEIR_HISTORY_FIGURES(X)
#undef X
	}
	return list;
}

json_t *weir_history_json(const struct weir_history *history) {
	json_t *columns = json_array(), *samples = json_array();
	uint32_t oldest = history->next + WEIR_HISTORY_SAMPLES - history->count;

	json_array_append_new(columns, json_string("time_ms"));
#define X(field) json_array_append_new(columns, json_string(#field));
	WEIR_HISTORY_FIGURES(X)
#undef X
	for (uint32_t i = 0; i < history->count; i++) {
		json_array_append_new(samples,
			json_sample(&history->sample[(oldest + i) % WEIR_HISTORY_SAMPLES]));
	}
	return json_pack("{s:o, s:o}", "columns", columns, "samples", samples);
}

// --- starts -----------------------------------------------------------------------------------

static const char *const processes[] = {
#define X(member, name) [WEIR_HISTORY_##member] = name,
	WEIR_HISTORY_PROCESSES(X)
#undef X
};

// The n-th last one, counted from 0.
static const struct weir_history_start *last_start(const struct weir_history *history, uint32_t n) {
	return &history->start[(history->next_start + 2 * WEIR_HISTORY_STARTS - 1 - n) %
			       WEIR_HISTORY_STARTS];
}

static void note_start(
	struct weir_history *history, enum weir_history_process process, const json_t *of) {
	json_int_t time_ms = json_integer_value(json_object_get(of, "started_ms"));

	for (uint32_t n = 0; n < WEIR_HISTORY_STARTS; n++) {
		const struct weir_history_start *start = last_start(history, n);

		if (start->process == process && start->time_ms == (uint64_t)time_ms) {
			return;
		}
	}
	if (time_ms > 0) {
		history->start[history->next_start] = (struct weir_history_start){
			.time_ms = (uint64_t)time_ms, .process = process};
		history->next_start = (history->next_start + 1) % WEIR_HISTORY_STARTS;
	}
}

void weir_history_note_starts(struct weir_history *history, const json_t *figures){
#define X(member, name) \
	note_start(history, WEIR_HISTORY_##member, json_object_get(figures, #member));
	WEIR_HISTORY_PROCESSES(X)
#undef X
}

json_t *weir_history_starts_json(const struct weir_history *history) {
	json_t *list = json_array();

	for (uint32_t n = WEIR_HISTORY_STARTS; n-- > 0;) {
		const struct weir_history_start *start = last_start(history, n);

		if (start->time_ms != 0) {
			json_array_append_new(
				list, json_pack("{s:I, s:s}", "time_ms", (json_int_t)start->time_ms,
					      "process", processes[start->process]));
		}
	}
	return list;
}
