// SPDX-License-Identifier: BSD-3-Clause
#include "table_walk.h"

static uint32_t least(uint32_t a, uint32_t b) {
	return a < b ? a : b;
}

static uint32_t ranges(const struct weir_table_walk *walk) {
	const struct weir_message *request = &walk->request;

	return (request->kind == WEIR_MESSAGE_FLOW_LIST && request->list.end == 0) ||
			       (request->kind == WEIR_MESSAGE_SOURCE_WALK &&
				       request->walk.remove == 0)
		       ? WEIR_FLOW_PAGES
		       : WEIR_TABLE_WALK_RANGES;
}

void weir_table_walk_begin(struct weir_table_walk *walk, const struct weir_message *request,
	uint64_t workers, const struct weir_table_walk_lines *lines) {
	const struct weir_segment *segment = walk->mailboxes->segment;

	*walk = (struct weir_table_walk){.mailboxes = walk->mailboxes, .request = *request};
	walk->workers = segment != NULL ? workers & UINT64_MAX >> (64 - segment->workers) : 0;
	for (uint32_t worker = 0; worker < WEIR_WORKERS_MAX; worker++) {
		walk->worker[worker].lines = *lines;
	}
}

int weir_table_walk_take(struct weir_table_walk *walk, uint32_t worker, uint64_t sequence,
	uint32_t next, uint32_t lines) {
	struct weir_table_walk_worker *of = &walk->worker[worker];
	uint32_t i = 0;

	while (i < ranges(walk) && (of->range[i].number == 0 || of->range[i].number != sequence)) {
		i++;
	}
	if (i == ranges(walk) || (walk->workers >> worker & 1) == 0) {
		return -1;
	}
	of->answered_ms = 0;
	of->range[i].number = 0;
	if (of->lines.end == 0) {
		of->lines.count = lines;
		of->lines.end = lines > 0 ? lines : 1;
		return -1;
	}
	if (next < lines && next <= of->range[i].next) {
		walk->stuck = true;
		next = UINT32_MAX;
	}
	of->range[i].next = next < lines ? least(next, of->range[i].last) : of->range[i].last;
	return (int)i;
}

// Assigns further lines to range i, which has no lines left. Returns false if all lines are
// assigned.
static bool extend(struct weir_table_walk_worker *of, uint32_t i) {
	const struct weir_table_walk_lines *lines = &of->lines;
	uint32_t first, count = least(lines->range, lines->count - of->done);

	if (count == 0) {
		// Request no line: the response contains the number of lines.
		return lines->end == 0 && i == 0;
	}
	first = (uint32_t)(((uint64_t)lines->first + of->done) % lines->end);
	count = least(count, lines->end - first);
	of->range[i].next = first;
	of->range[i].last = first + count;
	of->done += count;
	return true;
}

static void send_request(struct weir_table_walk *walk, uint32_t worker, uint32_t i) {
	struct weir_table_walk_worker *of = &walk->worker[worker];
	struct weir_message message = walk->request;

	message.sequence = weir_mailboxes_number(walk->mailboxes);
	if (message.kind == WEIR_MESSAGE_FLOW_LIST) {
		message.list.first = of->range[i].next;
		message.list.last = of->range[i].last;
		message.list.page = (uint8_t)(i % WEIR_FLOW_PAGES); // a deletion writes no page
	} else if (message.kind == WEIR_MESSAGE_SOURCE_WALK) {
		message.walk.first = of->range[i].next;
		message.walk.last = of->range[i].last;
		message.walk.page = (uint8_t)(i % WEIR_FLOW_PAGES);
	} else {
		message.waiting.first = of->range[i].next;
		message.waiting.last = of->range[i].last;
	}
	if (weir_mailboxes_send(walk->mailboxes, worker, &message)) {
		of->range[i].number = message.sequence;
	}
}

static bool step_worker(struct weir_table_walk *walk, uint32_t worker, uint64_t now_ms) {
	struct weir_table_walk_worker *of = &walk->worker[worker];
	bool busy = false;

	for (uint32_t i = 0; i < ranges(walk); i++) {
		bool in_flight = of->range[i].number != 0;

		if (in_flight || of->range[i].next < of->range[i].last || extend(of, i)) {
			busy = true;
			if (!in_flight) {
				send_request(walk, worker, i);
			}
		}
	}
	of->answered_ms = of->answered_ms == 0 ? now_ms : of->answered_ms;
	if (busy && now_ms - of->answered_ms >= WEIR_TABLE_WALK_MS) {
		walk->workers &= ~(1ull << worker);
		walk->silent |= 1ull << worker;
		return false;
	}
	return busy;
}

bool weir_table_walk_step(struct weir_table_walk *walk, uint64_t now_ms) {
	bool busy = false;

	walk->silent = 0;
	for (uint32_t worker = 0; worker < WEIR_WORKERS_MAX; worker++) {
		busy |= (walk->workers >> worker & 1) != 0 && step_worker(walk, worker, now_ms);
	}
	return busy;
}
