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
