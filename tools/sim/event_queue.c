// SPDX-License-Identifier: BSD-3-Clause
#include "event_queue.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#ifndef CHILDREN // to measure another value, define it on the compiler's command line
#define CHILDREN 4u
#endif
#define FIRST_ROOM 1024u
#define LINE_BYTES 64u
// The heap begins after this many unused elements. The root is then at the end of a cache line, and
// the children of each node fill one cache line.
#define LEAD (CHILDREN - 1)

void weir_sim_queue_fini(struct weir_sim_queue *queue) {
	free(queue->allocated);
	*queue = (struct weir_sim_queue){0};
}

// Returns whether event a comes before event b. The comparison has no branch, because the CPU
// cannot predict which of two events is earlier.
static bool before(const struct weir_sim_event *a, const struct weir_sim_event *b) {
	bool sooner = a->time_ns < b->time_ns, same = a->time_ns == b->time_ns;

	return sooner | (same & ((int32_t)(a->sequence - b->sequence) < 0));
}

static int grow(struct weir_sim_queue *queue) {
	size_t room = queue->room > 0 ? queue->room * 2 : FIRST_ROOM;
	struct weir_sim_event *allocated =
		aligned_alloc(LINE_BYTES, (room + CHILDREN) * sizeof(*allocated));

	if (allocated == NULL) {
		return -ENOMEM;
	}
	if (queue->count > 0) {
		memcpy(allocated + LEAD, queue->event, queue->count * sizeof(*allocated));
	}
	free(queue->allocated);
	queue->allocated = allocated;
	queue->event = allocated + LEAD;
	queue->room = room;
	return 0;
}

int weir_sim_queue_push(
	struct weir_sim_queue *queue, uint64_t time_ns, uint32_t kind, uint32_t index) {
	struct weir_sim_event event = {.time_ns = time_ns,
		.sequence = queue->sequence,
		.kind = kind & (WEIR_SIM_EVENT_KINDS - 1),
		.index = index & (WEIR_SIM_EVENT_INDEXES - 1)};
	size_t at = queue->count;

	if (queue->count == queue->room && grow(queue) < 0) {
		return -ENOMEM;
	}
	queue->sequence++;
	queue->count++;
	while (at > 0) {
		size_t parent = (at - 1) / CHILDREN;

		if (!before(&event, &queue->event[parent])) {
			break;
		}
		queue->event[at] = queue->event[parent];
		at = parent;
	}
	queue->event[at] = event;
	return 0;
}

static size_t first_child(const struct weir_sim_queue *queue, size_t from) {
	size_t end = from + CHILDREN < queue->count ? from + CHILDREN : queue->count;
	size_t first = from;

	if (CHILDREN == 4 && from + CHILDREN <= queue->count) {
		const struct weir_sim_event *event = &queue->event[from];
		size_t left = before(&event[1], &event[0]);
		size_t right = 2 + before(&event[3], &event[2]);

		// Use arithmetic, because compilers would convert a condition to a branch.
		return from + left + (right - left) * before(&event[right], &event[left]);
	}
	for (size_t child = from + 1; child < end; child++) {
		if (before(&queue->event[child], &queue->event[first])) {
			first = child;
		}
	}
	return first;
}

bool weir_sim_queue_pop(struct weir_sim_queue *queue, struct weir_sim_event *ret) {
	struct weir_sim_event last;
	size_t at = 0, child;

	if (queue->count == 0) {
		return false;
	}
	*ret = queue->event[0];
	last = queue->event[--queue->count];
	while ((child = at * CHILDREN + 1) < queue->count) {
		child = first_child(queue, child);
		if (!before(&queue->event[child], &last)) {
			break;
		}
		queue->event[at] = queue->event[child];
		at = child;
	}
	queue->event[at] = last;
	return true;
}
