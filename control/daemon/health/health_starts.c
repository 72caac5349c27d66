// SPDX-License-Identifier: BSD-3-Clause
#include "health_starts.h"

#include <stddef.h>
#include <sys/resource.h>

#include "health_relay.h"

void weir_health_starts_init(struct weir_health_starts *starts, unsigned int max,
	void (*run)(struct weir_health_start *start)) {
	*starts = (struct weir_health_starts){
		.run = run, .max = max, .descriptors_max = max * WEIR_HEALTH_RELAY_DESCRIPTORS};
	STAILQ_INIT(&starts->queue);
	STAILQ_INIT(&starts->failing_queue);
}

void weir_health_starts_limit(struct weir_health_starts *starts) {
	const unsigned int most = starts->max * WEIR_HEALTH_RELAY_DESCRIPTORS;
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur / 2 >= most) {
		starts->descriptors_max = most;
	} else {
		starts->descriptors_max =
			limit.rlim_cur < 16 ? 8 : (unsigned int)limit.rlim_cur / 2;
	}
}

static struct weir_health_queue *queue_of(struct weir_health_starts *starts, bool is_failing) {
	return is_failing ? &starts->failing_queue : &starts->queue;
}

// Returns the queue from which the next probe is started, or NULL if no probe may start now.
static struct weir_health_queue *next_queue(struct weir_health_starts *starts) {
	unsigned int max = starts->max, failing = starts->running_failing;
	bool waiting = !STAILQ_EMPTY(&starts->failing_queue);

	if (starts->running >= max) {
		return NULL;
	}
	if (waiting && failing < max / 8) {
		return &starts->failing_queue;
	}
	if (!STAILQ_EMPTY(&starts->queue)) {
		return &starts->queue;
	}
	return waiting && failing < max / 2 ? &starts->failing_queue : NULL;
}

// Adds the cost of a probe to the costs of the running probes. The cost is 1, or more if the limit
// of file descriptors is low.
static void count(struct weir_health_starts *starts, struct weir_health_start *start) {
	unsigned int max = starts->descriptors_max;
	unsigned int cost = (start->descriptors * starts->max + max - 1) / max;

	start->cost = cost > 1 ? cost : 1;
	starts->running += start->cost;
	starts->running_failing += start->is_failing ? start->cost : 0;
}

struct weir_health_start *weir_health_starts_next(struct weir_health_starts *starts) {
	const struct weir_health_queue *queue = next_queue(starts);

	return queue != NULL ? STAILQ_FIRST(queue) : NULL;
}

void weir_health_starts_run(struct weir_health_starts *starts) {
	struct weir_health_queue *queue;

	while ((queue = next_queue(starts)) != NULL) {
		struct weir_health_start *start = STAILQ_FIRST(queue);

		STAILQ_REMOVE_HEAD(queue, link);
		start->state = WEIR_HEALTH_START_RUNNING;
		count(starts, start);
		starts->run(start);
	}
}

void weir_health_starts_add(struct weir_health_starts *starts, struct weir_health_start *start,
	bool is_failing, unsigned int descriptors) {
	start->state = WEIR_HEALTH_START_QUEUED;
	start->is_failing = is_failing;
	start->descriptors = descriptors;
	STAILQ_INSERT_TAIL(queue_of(starts, is_failing), start, link);
	weir_health_starts_run(starts);
}

void weir_health_starts_remove(struct weir_health_starts *starts, struct weir_health_start *start) {
	if (start->state == WEIR_HEALTH_START_QUEUED) {
		STAILQ_REMOVE(queue_of(starts, start->is_failing), start, weir_health_start, link);
	} else if (start->state == WEIR_HEALTH_START_RUNNING) {
		starts->running -= start->cost;
		starts->running_failing -= start->is_failing ? start->cost : 0;
	}
	start->state = WEIR_HEALTH_START_NONE;
}

static uint32_t count_late(
	const struct weir_health_queue *queue, int service, uint64_t now_ms, uint64_t *longest_ms) {
	const struct weir_health_start *start;
	uint32_t count = 0;

	STAILQ_FOREACH(start, queue, link) {
		const uint64_t waited_ms = now_ms - start->due_ms;

		if (waited_ms > start->interval_ms && (service < 0 || start->service == service)) {
			*longest_ms = waited_ms > *longest_ms ? waited_ms : *longest_ms;
			count++;
		}
	}
	return count;
}

uint32_t weir_health_starts_late(
	const struct weir_health_starts *starts, int service, uint64_t now_ms, uint64_t *ret_ms) {
	uint64_t longest_ms = 0;
	uint32_t count = count_late(&starts->queue, service, now_ms, &longest_ms) +
			 count_late(&starts->failing_queue, service, now_ms, &longest_ms);

	*ret_ms = longest_ms;
	return count;
}
