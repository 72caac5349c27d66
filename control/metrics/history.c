// SPDX-License-Identifier: BSD-3-Clause
#include "history.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define RECORD_MEMBERS 2 // number of members in the JSON object of a ring, and of a start

static const uint64_t periods_ms[] = {
#define X(name, ms) [WEIR_HISTORY_##name] = (ms),
	WEIR_HISTORY_RINGS(X)
#undef X
};

static const char *const columns[] = {"time_ms",
#define X(field) #field,
	WEIR_HISTORY_FIGURES(X)
#undef X
};

#define COLUMNS (sizeof(columns) / sizeof(columns[0]))

static const char *const processes[] = {
#define X(member, name) [WEIR_HISTORY_##member] = name,
	WEIR_HISTORY_PROCESSES(X)
#undef X
};

#define PROCESSES (sizeof(processes) / sizeof(processes[0]))

// --- samples ----------------------------------------------------------------------------------

// Returns the n-th newest sample of a ring; n = 0 is the newest.
static const struct weir_history_sample *last_sample(
	const struct weir_history_samples *ring, uint32_t n) {
	return &ring->sample[(ring->next + 2 * WEIR_HISTORY_SAMPLES - 1 - n) %
			     WEIR_HISTORY_SAMPLES];
}

static void push(struct weir_history_samples *ring, const struct weir_history_sample *sample) {
	ring->sample[ring->next] = *sample;
	ring->next = (ring->next + 1) % WEIR_HISTORY_SAMPLES;
	ring->count += ring->count < WEIR_HISTORY_SAMPLES;
}

static void remove_from(struct weir_history_samples *ring, uint64_t time_ms) {
	while (ring->count > 0 && last_sample(ring, 0)->time_ms >= time_ms) {
		ring->next = (ring->next + WEIR_HISTORY_SAMPLES - 1) % WEIR_HISTORY_SAMPLES;
		ring->count--;
	}
}

// Returns whether it is time to add a sample to the ring. A sample without a reply is added only
// after two periods, because a sample with a reply may arrive in the meantime.
static bool is_due(const struct weir_history_samples *ring,
	const struct weir_history_sample *sample, uint64_t period_ms) {
	uint64_t age_ms =
		ring->count > 0 ? sample->time_ms - last_sample(ring, 0)->time_ms : UINT64_MAX;

	return age_ms >= (sample->known ? period_ms : 2 * period_ms);
}

static struct weir_history_sample sum_of(uint64_t time_ms, const json_t *workers) {
	struct weir_history_sample sample = {.time_ms = time_ms, .known = json_is_array(workers)};

	for (size_t i = 0; i < json_array_size(workers); i++) {
		const json_t *worker = json_array_get(workers, i);

#define X(field) sample.field += json_integer_value(json_object_get(worker, #field));
		WEIR_HISTORY_FIGURES(X)
#undef X
		sample.rx_packets -= json_integer_value(json_object_get(worker, "handed_over"));
	}
#define X(field) sample.field = sample.field > 0 ? sample.field : 0;
	// The counters are read one after another, so rx_packets minus handed_over can be below 0.
	WEIR_HISTORY_FIGURES(X)
#undef X
	return sample;
}

void weir_history_add(struct weir_history *history, uint64_t time_ms, const json_t *workers) {
	const struct weir_history_sample sample = sum_of(time_ms, workers);

	for (int i = 0; i < WEIR_HISTORY_RING_COUNT; i++) {
		remove_from(&history->ring[i], time_ms);
		if (i == WEIR_HISTORY_RECENT || is_due(&history->ring[i], &sample, periods_ms[i])) {
			push(&history->ring[i], &sample);
		}
	}
}

// --- process starts ---------------------------------------------------------------------------

// Returns the n-th newest start, of either process; n = 0 is the newest.
static const struct weir_history_start *last_start(const struct weir_history *history, uint32_t n) {
	return &history->start[(history->next_start + 2 * WEIR_HISTORY_STARTS - 1 - n) %
			       WEIR_HISTORY_STARTS];
}

static void note_start(
	struct weir_history *history, enum weir_history_process process, uint64_t time_ms) {
	for (uint32_t n = 0; n < WEIR_HISTORY_STARTS; n++) {
		const struct weir_history_start *start = last_start(history, n);

		if (start->process == process && start->time_ms == time_ms) {
			return;
		}
	}
	history->start[history->next_start] =
		(struct weir_history_start){.time_ms = time_ms, .process = process};
	history->next_start = (history->next_start + 1) % WEIR_HISTORY_STARTS;
}

void weir_history_note_starts(struct weir_history *history, const json_t *figures) {
	static const char *const members[] = {
#define X(member, name) [WEIR_HISTORY_##member] = #member,
		WEIR_HISTORY_PROCESSES(X)
#undef X
	};

	for (size_t i = 0; i < PROCESSES; i++) {
		json_int_t time_ms = json_integer_value(
			json_object_get(json_object_get(figures, members[i]), "started_ms"));

		if (time_ms > 0) {
			note_start(history, (enum weir_history_process)i, (uint64_t)time_ms);
		}
	}
}

// --- writing JSON -----------------------------------------------------------------------------

// Appends a new value, and returns the list. If out of memory, releases the list and returns NULL.
// list, value: NULL = out of memory.
static json_t *append(json_t *list, json_t *value) {
	if (json_array_append_new(list, value) < 0) {
		json_decref(list);
		return NULL;
	}
	return list;
}

static json_t *json_columns(void) {
	json_t *list = json_array();

	for (size_t i = 0; i < COLUMNS; i++) {
		list = append(list, json_string(columns[i]));
	}
	return list;
}

static json_t *json_sample(const struct weir_history_sample *sample) {
	json_t *list = append(json_array(), json_integer((json_int_t)sample->time_ms));

	if (sample->known) {
#define X(field) list = append(list, json_integer(sample->field));
		WEIR_HISTORY_FIGURES(X)
#undef X
	}
	return list;
}

static json_t *json_rings(const struct weir_history *history) {
	json_t *list = json_array();

	for (int i = 0; i < WEIR_HISTORY_RING_COUNT; i++) {
		json_t *samples = json_array();

		for (uint32_t n = history->ring[i].count; n-- > 0;) {
			samples = append(samples, json_sample(last_sample(&history->ring[i], n)));
		}
		list = append(list, json_pack("{s:I, s:o}", "period_ms", (json_int_t)periods_ms[i],
					    "samples", samples));
	}
	return list;
}

static json_t *json_starts(const struct weir_history *history) {
	json_t *list = json_array();

	for (uint32_t n = WEIR_HISTORY_STARTS; n-- > 0;) {
		const struct weir_history_start *start = last_start(history, n);

		if (start->time_ms != 0) {
			list = append(
				list, json_pack("{s:I, s:s}", "time_ms", (json_int_t)start->time_ms,
					      "process", processes[start->process]));
		}
	}
	return list;
}

json_t *weir_history_json(const struct weir_history *history) {
	return json_pack("{s:o, s:o, s:o}", "columns", json_columns(), "rings", json_rings(history),
		"starts", json_starts(history));
}

// --- reading JSON -----------------------------------------------------------------------------

// Reads a number of a sample or a start. Returns false if it is not an integer, or if it is
// negative.
static bool take_number(const json_t *value, int64_t *ret) {
	*ret = json_integer_value(value);
	return json_is_integer(value) && *ret >= 0;
}

static int parse_sample(const json_t *list, struct weir_history_sample *ret) {
	struct weir_history_sample sample = {.known = json_array_size(list) == COLUMNS};
	bool right = sample.known || json_array_size(list) == 1;
	int64_t time_ms;
	size_t column = 0;

	right &= take_number(json_array_get(list, 0), &time_ms);
	sample.time_ms = (uint64_t)time_ms;
#define X(field) \
	column++; \
	right &= !sample.known || take_number(json_array_get(list, column), &sample.field);
	WEIR_HISTORY_FIGURES(X)
#undef X
	*ret = sample;
	return right ? 0 : -EINVAL;
}

static int parse_ring(
	const json_t *json, uint64_t period_ms, uint64_t now_ms, struct weir_history_samples *ret) {
	const json_t *samples = json_object_get(json, "samples");
	size_t count = json_array_size(samples);
	uint64_t last_ms = 0;

	if (json_object_size(json) != RECORD_MEMBERS || !json_is_array(samples) ||
		count > WEIR_HISTORY_SAMPLES ||
		(uint64_t)json_integer_value(json_object_get(json, "period_ms")) != period_ms) {
		return -EINVAL;
	}
	for (size_t i = 0; i < count; i++) {
		struct weir_history_sample sample;

		if (parse_sample(json_array_get(samples, i), &sample) < 0 ||
			sample.time_ms <= last_ms) {
			return -EINVAL;
		}
		last_ms = sample.time_ms;
		if (last_ms <= now_ms) {
			push(ret, &sample);
		}
	}
	return 0;
}

static int parse_start(const json_t *json, uint64_t now_ms, struct weir_history *history) {
	const char *process = json_string_value(json_object_get(json, "process"));
	int64_t time_ms;
	size_t i = 0;

	if (process == NULL || json_object_size(json) != RECORD_MEMBERS ||
		!take_number(json_object_get(json, "time_ms"), &time_ms) || time_ms == 0) {
		return -EINVAL;
	}
	while (i < PROCESSES && strcmp(processes[i], process) != 0) {
		i++;
	}
	if (i == PROCESSES) {
		return -EINVAL;
	}
	if ((uint64_t)time_ms <= now_ms) {
		note_start(history, (enum weir_history_process)i, (uint64_t)time_ms);
	}
	return 0;
}

int weir_history_parse(const json_t *json, uint64_t now_ms, struct weir_history *history) {
	const json_t *rings = json_object_get(json, "rings");
	const json_t *starts = json_object_get(json, "starts");
	struct weir_history parsed = {.next_start = 0};
	json_t *wanted = json_columns();
	int r = json_equal(wanted, json_object_get(json, "columns")) &&
				json_array_size(rings) == WEIR_HISTORY_RING_COUNT &&
				json_is_array(starts)
			? 0
			: -EINVAL;

	json_decref(wanted);
	for (int i = 0; r == 0 && i < WEIR_HISTORY_RING_COUNT; i++) {
		r = parse_ring(
			json_array_get(rings, (size_t)i), periods_ms[i], now_ms, &parsed.ring[i]);
	}
	for (size_t i = 0; r == 0 && i < json_array_size(starts); i++) {
		r = parse_start(json_array_get(starts, i), now_ms, &parsed);
	}
	if (r == 0) {
		*history = parsed;
	}
	return r;
}
