// SPDX-License-Identifier: BSD-3-Clause
#include "distance.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include <rte_cycles.h>
#include <rte_pause.h>

#define SAMPLES 2000u
#define SAMPLES_MIN 50u
#define LONGEST_S 0.02
#define LOST_S 0.000005 // a longer round trip was interrupted

struct table {
	// odd: written by the calling thread; even: answer of the other thread
	uint64_t ball __attribute__((aligned(128)));
	bool stop __attribute__((aligned(128)));
};

static void *answer(void *context) {
	struct table *table = context;
	uint64_t last = 0;

	while (!__atomic_load_n(&table->stop, __ATOMIC_RELAXED)) {
		uint64_t ball = __atomic_load_n(&table->ball, __ATOMIC_ACQUIRE);

		if (ball != last && (ball & 1) != 0) {
			last = ball;
			__atomic_store_n(&table->ball, ball + 1, __ATOMIC_RELEASE);
		}
	}
	return NULL;
}

static int compare(const void *left, const void *right) {
	const uint64_t *a = left;
	const uint64_t *b = right;

	return (*a > *b) - (*a < *b);
}

static uint32_t play(struct table *table, uint64_t *ticks) {
	uint64_t lost = (uint64_t)(LOST_S * (double)rte_get_tsc_hz());
	uint64_t end = rte_rdtsc() + (uint64_t)(LONGEST_S * (double)rte_get_tsc_hz());
	uint64_t now = rte_rdtsc();
	uint64_t ball = 1;
	uint32_t n = 0;

	for (; n < SAMPLES && now < end; ball += 2) {
		uint64_t start = rte_rdtsc();

		__atomic_store_n(&table->ball, ball, __ATOMIC_RELEASE);
		do {
			now = rte_rdtsc();
		} while (__atomic_load_n(&table->ball, __ATOMIC_ACQUIRE) == ball && now < end);
		if (now - start < lost) {
			ticks[n++] = now - start;
		}
	}
	return n;
}

static int start_on(unsigned int cpu, struct table *table, pthread_t *ret) {
	pthread_attr_t attributes;
	cpu_set_t set;
	int r = pthread_attr_init(&attributes);

	if (r != 0) {
		return -r;
	}
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	r = pthread_attr_setaffinity_np(&attributes, sizeof(set), &set);
	if (r == 0) {
		r = pthread_create(ret, &attributes, answer, table);
	}
	pthread_attr_destroy(&attributes);
	return -r;
}

int rig_distance(unsigned int other_cpu, double *ret_ns) {
	static const double ns_per_s = 1e9;
	uint64_t *ticks = calloc(SAMPLES, sizeof(*ticks));
	struct table table = {0};
	pthread_t thread;
	uint32_t n;
	int r;

	if (ticks == NULL) {
		return -ENOMEM;
	}
	r = start_on(other_cpu, &table, &thread);
	if (r < 0) {
		goto free_ticks;
	}
	n = play(&table, ticks);
	__atomic_store_n(&table.stop, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	if (n < SAMPLES_MIN) {
		r = -EAGAIN;
		goto free_ticks;
	}
	qsort(ticks, n, sizeof(*ticks), compare);
	*ret_ns = (double)ticks[n / 2] / (double)rte_get_tsc_hz() * ns_per_s;
free_ticks:
	free(ticks);
	return r;
}
