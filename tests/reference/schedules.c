// SPDX-License-Identifier: BSD-3-Clause
#include "schedules.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

struct entry {
	uint32_t weight;
	uint64_t turn; // edf: number of the backend's next turn, from 1
	uint64_t since; // edf: value of step when the next turn was queued
	int64_t gained; // smooth: the current sum
};

struct weir_schedule {
	enum weir_schedule_kind kind;
	uint32_t n;
	uint32_t at; // index of the entry at which the scan continues
	// classic: turns of the current backend so far; interleaved: current round; edf: number of
	// choices
	uint64_t step;
	uint64_t total; // sum of the weights
	uint32_t largest;
	struct entry entries[];
};

static const char *const names[] = {
#define X(name, key) [WEIR_SCHEDULE_##name] = (key),
	WEIR_SCHEDULES(X)
#undef X
};

const char *weir_schedule_name(enum weir_schedule_kind kind) {
	return (unsigned int)kind < WEIR_SCHEDULE_COUNT ? names[kind] : NULL;
}

static uint32_t common_divisor(const uint32_t *weights, uint32_t n) {
	uint32_t divisor = 0;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t other = weights[i];

		while (other > 0) {
			uint32_t rest = divisor % other;

			divisor = other;
			other = rest;
		}
	}
	return divisor;
}

struct weir_schedule *weir_schedule_create(
	enum weir_schedule_kind kind, const uint32_t *weights, uint32_t n) {
	uint32_t divisor = common_divisor(weights, n);
	struct weir_schedule *schedule;

	if (divisor == 0 || (unsigned int)kind >= WEIR_SCHEDULE_COUNT) {
		return NULL;
	}
	schedule = calloc(1, sizeof(*schedule) + n * sizeof(schedule->entries[0]));
	if (schedule == NULL) {
		return NULL;
	}
	schedule->kind = kind;
	schedule->n = n;
	schedule->step = kind == WEIR_SCHEDULE_INTERLEAVED;
	for (uint32_t i = 0; i < n; i++) {
		uint32_t weight = weights[i] / divisor;

		schedule->entries[i].weight = weight;
		schedule->entries[i].turn = 1;
		schedule->total += weight;
		schedule->largest = weight > schedule->largest ? weight : schedule->largest;
	}
	return schedule;
}

void weir_schedule_free(struct weir_schedule *schedule) {
	free(schedule);
}

static uint32_t next_classic(struct weir_schedule *schedule) {
	while (schedule->step >= schedule->entries[schedule->at].weight) {
		schedule->at = (schedule->at + 1) % schedule->n;
		schedule->step = 0;
	}
	schedule->step++;
	return schedule->at;
}

static uint32_t next_interleaved(struct weir_schedule *schedule) {
	for (;;) {
		for (; schedule->at < schedule->n; schedule->at++) {
			if (schedule->entries[schedule->at].weight >= schedule->step) {
				return schedule->at++;
			}
		}
		schedule->at = 0;
		schedule->step = schedule->step < schedule->largest ? schedule->step + 1 : 1;
	}
}

static uint32_t next_smooth(struct weir_schedule *schedule) {
	struct entry *entries = schedule->entries;
	uint32_t best = 0;

	for (uint32_t i = 0; i < schedule->n; i++) {
		entries[i].gained += entries[i].weight;
		if (entries[i].gained > entries[best].gained) {
			best = i;
		}
	}
	entries[best].gained -= (int64_t)schedule->total;
	return best;
}

// Compares deadlines as fractions, because sums of 1 / weight would accumulate rounding errors. A
// backend with weight 0 is never due.
static bool is_due_before(const struct entry *a, const struct entry *b) {
	unsigned __int128 left = (unsigned __int128)a->turn * b->weight;
	unsigned __int128 right = (unsigned __int128)b->turn * a->weight;

	return left != right ? left < right : a->since < b->since;
}

static uint32_t next_edf(struct weir_schedule *schedule) {
	struct entry *entries = schedule->entries;
	uint32_t first = 0;

	for (uint32_t i = 1; i < schedule->n; i++) {
		if (is_due_before(&entries[i], &entries[first])) {
			first = i;
		}
	}
	entries[first].turn++;
	entries[first].since = ++schedule->step;
	return first;
}

uint32_t weir_schedule_next(struct weir_schedule *schedule) {
	switch (schedule->kind) {
	case WEIR_SCHEDULE_CLASSIC:
		return next_classic(schedule);
	case WEIR_SCHEDULE_INTERLEAVED:
		return next_interleaved(schedule);
	case WEIR_SCHEDULE_SMOOTH:
		return next_smooth(schedule);
	case WEIR_SCHEDULE_EDF:
	case WEIR_SCHEDULE_COUNT:
		break;
	}
	return next_edf(schedule);
}
