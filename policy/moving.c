// SPDX-License-Identifier: BSD-3-Clause
#include "moving.h"

#include <stdlib.h>
#include <string.h>

struct weir_moving {
	uint64_t count;
	uint64_t sum_ns;
	uint64_t least_ns;
	uint64_t most_ns;
	uint64_t last_ns;
	uint64_t window_sum_ns;
	uint64_t *sorted; // samples of the window in ascending order; NULL if there is no median
	uint32_t *length; // [window] number of equal samples in each run of `ring`
	uint32_t window;
	uint32_t window_count; // number of samples
	uint32_t oldest; // index of the oldest run
	uint32_t runs;
	uint64_t ring[]; // one sample per run
};

struct weir_moving *weir_moving_create(uint32_t window, bool median) {
	size_t samples = median ? 2 * (size_t)window : window;
	size_t bytes = samples * sizeof(uint64_t) + window * sizeof(uint32_t);
	struct weir_moving *moving;

	if (window == 0) {
		return NULL;
	}
	// Use malloc instead of calloc: the arrays are written before they are read, and the kernel
	// then allocates their pages only as the window fills.
	moving = malloc(sizeof(*moving) + bytes);
	if (moving == NULL) {
		return NULL;
	}
	memset(moving, 0, sizeof(*moving));
	moving->window = window;
	moving->sorted = median ? moving->ring + window : NULL;
	moving->length = (uint32_t *)(void *)(moving->ring + samples);
	return moving;
}

void weir_moving_free(struct weir_moving *moving) {
	free(moving);
}

void weir_moving_reset(struct weir_moving *moving) {
	uint64_t *sorted = moving->sorted;
	uint32_t *length = moving->length;
	uint32_t window = moving->window;

	memset(moving, 0, sizeof(*moving));
	moving->sorted = sorted;
	moving->length = length;
	moving->window = window;
}

// Returns the index of the first sample in `sorted` that is at least `sample`.
static uint32_t find(const struct weir_moving *moving, uint64_t sample) {
	uint32_t low = 0, high = moving->window_count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (moving->sorted[middle] < sample) {
			low = middle + 1;
		} else {
			high = middle;
		}
	}
	return low;
}

static void remove_sorted(struct weir_moving *moving, uint64_t sample, uint32_t n) {
	uint32_t at = find(moving, sample);

	memmove(moving->sorted + at, moving->sorted + at + n,
		(moving->window_count - at - n) * sizeof(moving->sorted[0]));
}

static void insert_sorted(struct weir_moving *moving, uint64_t sample, uint32_t n) {
	uint32_t at = find(moving, sample);

	memmove(moving->sorted + at + n, moving->sorted + at,
		(moving->window_count - at) * sizeof(moving->sorted[0]));
	for (uint32_t i = 0; i < n; i++) {
		moving->sorted[at + i] = sample;
	}
}

static uint32_t wrap(const struct weir_moving *moving, uint32_t run) {
	return run < moving->window ? run : run - moving->window;
}

// Drop the oldest samples until the window has room for n new samples. n: at most the window.
static void make_room(struct weir_moving *moving, uint32_t n) {
	while (moving->window_count > moving->window - n) {
		uint32_t excess = moving->window_count - (moving->window - n);
		uint32_t *length = &moving->length[moving->oldest];
		uint32_t gone = *length < excess ? *length : excess;

		if (moving->sorted != NULL) {
			remove_sorted(moving, moving->ring[moving->oldest], gone);
		}
		moving->window_sum_ns -= gone * moving->ring[moving->oldest];
		moving->window_count -= gone;
		*length -= gone;
		if (*length == 0) {
			moving->oldest = wrap(moving, moving->oldest + 1);
			moving->runs--;
		}
	}
}

static void add_to_window(struct weir_moving *moving, uint64_t sample_ns, uint32_t n) {
	uint32_t run;

	make_room(moving, n);
	if (moving->sorted != NULL) {
		insert_sorted(moving, sample_ns, n);
	}
	run = wrap(moving, moving->oldest + moving->runs);
	moving->ring[run] = sample_ns;
	moving->length[run] = n;
	moving->runs++;
	moving->window_count += n;
	moving->window_sum_ns += n * sample_ns;
}

void weir_moving_add_many(
	struct weir_moving *moving, uint64_t sample_ns, uint64_t n, uint64_t now_ns) {
	// With samples up to this value, the sum of the window cannot overflow.
	uint64_t most = UINT64_MAX / moving->window;
	uint64_t sum_ns;

	if (n == 0) {
		return;
	}
	sample_ns = sample_ns < most ? sample_ns : most;
	add_to_window(moving, sample_ns, n < moving->window ? (uint32_t)n : moving->window);
	if (moving->count == 0 || sample_ns < moving->least_ns) {
		moving->least_ns = sample_ns;
	}
	moving->most_ns = sample_ns > moving->most_ns ? sample_ns : moving->most_ns;
	if (__builtin_mul_overflow(n, sample_ns, &sum_ns) ||
		__builtin_add_overflow(moving->sum_ns, sum_ns, &moving->sum_ns)) {
		moving->sum_ns = UINT64_MAX;
	}
	moving->count += n;
	moving->last_ns = now_ns;
}

void weir_moving_add(struct weir_moving *moving, uint64_t sample_ns, uint64_t now_ns) {
	weir_moving_add_many(moving, sample_ns, 1, now_ns);
}

static uint64_t mean(const struct weir_moving *moving) {
	uint64_t n = moving->window_count;

	if (n == 0) {
		return 0;
	}
	return moving->window_sum_ns / n + (moving->window_sum_ns % n >= (n + 1) / 2);
}

static uint64_t median(const struct weir_moving *moving) {
	uint64_t low, high;

	if (moving->sorted == NULL || moving->window_count == 0) {
		return 0;
	}
	low = moving->sorted[(moving->window_count - 1) / 2];
	high = moving->sorted[moving->window_count / 2];
	return low + (high - low) / 2;
}

void weir_moving_read(const struct weir_moving *moving, struct weir_moving_stats *ret_stats) {
	*ret_stats = (struct weir_moving_stats){
		.count = moving->count,
		.sum_ns = moving->sum_ns,
		.least_ns = moving->least_ns,
		.most_ns = moving->most_ns,
		.last_ns = moving->last_ns,
		.window_sum_ns = moving->window_sum_ns,
		.window_count = moving->window_count,
		.mean_ns = mean(moving),
		.median_ns = median(moving),
	};
}

uint64_t weir_moving_estimate_ns(
	const struct weir_moving *moving, uint64_t now_ns, uint64_t ttl_ns) {
	uint64_t estimate;

	// last_ns may be later than now_ns: another thread may have read the clock after the
	// caller.
	if (moving->count == 0 ||
		(now_ns > moving->last_ns && now_ns - moving->last_ns >= ttl_ns)) {
		return 0;
	}
	estimate = moving->sorted != NULL ? median(moving) : mean(moving);
	return estimate > 0 ? estimate : 1;
}

void weir_moving_costs(const uint64_t *estimates_ns, uint32_t n, uint64_t *costs_ns) {
	unsigned __int128 sum = 0;
	uint32_t known = 0;
	uint64_t unknown;

	for (uint32_t i = 0; i < n; i++) {
		sum += estimates_ns[i];
		known += estimates_ns[i] > 0;
	}
	unknown = known > 0 ? (uint64_t)(sum / known) : 0;
	for (uint32_t i = 0; i < n; i++) {
		costs_ns[i] = estimates_ns[i] > 0 ? estimates_ns[i] : unknown;
	}
}
