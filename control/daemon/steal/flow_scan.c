// SPDX-License-Identifier: BSD-3-Clause
#include "flow_scan.h"

#include <string.h>

// --- responses ----------------------------------------------------------------------------

// Returns the index of a backend in the list of requested backends, or WEIR_WAITING_BACKENDS if it
// was not requested.
static uint32_t place_of(const struct weir_flow_scan *scan, uint16_t backend) {
	uint32_t i = 0;

	while (i < WEIR_WAITING_BACKENDS && (scan->walk.request.waiting.backend[i] != backend ||
						    backend == WEIR_BACKEND_NONE)) {
		i++;
	}
	return i;
}

// Returns whether the scan has kept the maximum number of flows of every backend.
static bool is_full(const struct weir_flow_scan *scan) {
	uint32_t i = 0;

	while (i < WEIR_WAITING_BACKENDS &&
		scan->walk.request.waiting.backend[i] == WEIR_BACKEND_NONE) {
		i++;
	}
	return i == WEIR_WAITING_BACKENDS;
}

// Returns the n-th flow in a response of a worker.
static struct weir_flow_waiting_at flow_of(
	uint32_t worker, const struct weir_message *message, uint32_t n) {
	uint32_t waited_ms = message->waiting.waited * WEIR_WAITED_MS;
	struct weir_flow_waiting_at flow = {.family = message->waiting.family,
		.worker = worker,
		.waited_ms = waited_ms > message->waiting.idle_ms ? waited_ms
								  : message->waiting.idle_ms};

	if (flow.family == 4) {
		const struct weir_waiting_flow4 *from = &message->waiting.flow4[n];

		flow.client_port = from->source_port;
		flow.vip_port = from->destination_port;
		flow.stamp = from->stamp;
		memcpy(flow.client, from->source, sizeof(from->source));
		memcpy(flow.vip, from->destination, sizeof(from->destination));
	} else {
		const struct weir_waiting_flow6 *from = &message->waiting.flow6[n];

		flow.client_port = from->source_port;
		flow.vip_port = from->destination_port;
		flow.stamp = from->stamp;
		memcpy(flow.client, from->source, sizeof(from->source));
		memcpy(flow.vip, from->destination, sizeof(from->destination));
	}
	flow.backend = (uint16_t)flow.stamp;
	return flow;
}

// Returns whether a steal request to an agent can describe a flow. Clients can use port 0 and
// IPv4-mapped IPv6 addresses. In the agent protocol, however, port 0 is not allowed, and an
// IPv4-mapped IPv6 address means the IPv4 address (agent-protocol.md).
static bool is_describable(const struct weir_flow_waiting_at *flow) {
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

	return flow->client_port != 0 && flow->vip_port != 0 &&
	       (flow->family == 4 || (memcmp(flow->client, mapped, sizeof(mapped)) != 0 &&
					     memcmp(flow->vip, mapped, sizeof(mapped)) != 0));
}

// Stores a reported flow. If its bucket moved to another worker during the scan, the flow can be
// reported twice; the worker that reported it last is then stored.
static void keep(
	struct weir_flow_scan *scan, const struct weir_flow_waiting_at *flow, uint32_t place) {
	uint32_t i = 0;

	while (i < scan->count && (scan->flow[i].client_port != flow->client_port ||
					  scan->flow[i].vip_port != flow->vip_port ||
					  scan->flow[i].family != flow->family ||
					  memcmp(scan->flow[i].client, flow->client, 16) != 0 ||
					  memcmp(scan->flow[i].vip, flow->vip, 16) != 0)) {
		i++;
	}
	if (i < scan->count) {
		scan->timed = i < scan->timed ? i : scan->timed;
		scan->flow[i] = *flow;
	} else if (i < WEIR_FLOW_SCAN_FLOWS) {
		scan->flow[scan->count++] = *flow;
		if (++scan->kept[place] == scan->share) {
			// Request no more flows of this backend, so that the responses have room
			// for other backends.
			scan->walk.request.waiting.backend[place] = WEIR_BACKEND_NONE;
		}
	}
}

static void keep_all(
	struct weir_flow_scan *scan, uint32_t worker, const struct weir_message *message) {
	uint32_t most = message->waiting.family == 4   ? WEIR_WAITING_FLOWS4
			: message->waiting.family == 6 ? WEIR_WAITING_FLOWS6
						       : 0;
	uint32_t count = message->waiting.count < most ? message->waiting.count : most;

	for (uint32_t n = 0; n < count; n++) {
		const struct weir_flow_waiting_at flow = flow_of(worker, message, n);
		uint32_t place = place_of(scan, flow.backend);

		if (place < WEIR_WAITING_BACKENDS && is_describable(&flow)) {
			keep(scan, &flow, place);
		}
	}
}

static void take(void *context, uint32_t worker, const struct weir_message *message) {
	struct weir_flow_scan *scan = context;

	if (message->waiting.answered == 0) {
		scan->unsupported = true;
		scan->walk.workers &= ~(1ull << worker);
	} else if (weir_table_walk_take(&scan->walk, worker, message->sequence,
			   message->waiting.next, message->waiting.lines) >= 0) {
		keep_all(scan, worker, message);
	}
}

// --- requests -----------------------------------------------------------------------------

bool weir_flow_scan_step(struct weir_flow_scan *scan, uint64_t now_ms) {
	bool busy = !is_full(scan) && weir_table_walk_step(&scan->walk, now_ms);

	for (; scan->timed < scan->count; scan->timed++) {
		struct weir_flow_waiting_at *flow = &scan->flow[scan->timed];

		flow->due_ms =
			now_ms +
			(flow->waited_ms < scan->after_ms ? scan->after_ms - flow->waited_ms : 0);
	}
	scan->incomplete |= scan->walk.silent != 0 || (busy && now_ms >= scan->until_ms);
	if (!busy || now_ms >= scan->until_ms) {
		scan->walk.workers = 0;
	}
	return scan->walk.workers != 0;
}

void weir_flow_scan_begin(struct weir_flow_scan *scan, const uint16_t *backends, uint32_t count,
	uint32_t after_ms, uint64_t random, uint64_t now_ms) {
	const struct weir_segment *segment = scan->walk.mailboxes->segment;
	struct weir_table_walk_lines lines = {
		.first = (uint32_t)random, .range = WEIR_WAITING_LINES};
	struct weir_message request = {.kind = WEIR_MESSAGE_FLOW_WAITING,
		.waiting = {.idle_ms = after_ms > WEIR_FLOW_SCAN_AHEAD_MS
					       ? after_ms - WEIR_FLOW_SCAN_AHEAD_MS
					       : 0}};

	*scan = (struct weir_flow_scan){.walk = {.mailboxes = scan->walk.mailboxes},
		.until_ms = now_ms + WEIR_FLOW_SCAN_MOST_MS,
		.after_ms = after_ms,
		.share = WEIR_FLOW_SCAN_FLOWS / (count > 0 ? count : 1)};
	// With a shared table, each worker skips the lines that belong to other workers, so request
	// more lines at a time.
	if (segment != NULL && segment->bucketing == WEIR_BUCKETING_YES) {
		lines.range *= segment->workers;
	}
	for (uint32_t i = 0; i < WEIR_WAITING_BACKENDS; i++) {
		request.waiting.backend[i] = i < count ? backends[i] : WEIR_BACKEND_NONE;
	}
	weir_table_walk_begin(&scan->walk, &request, UINT64_MAX, &lines);
}

uint32_t weir_flow_scan_due(struct weir_flow_scan *scan, uint64_t now_ms) {
	uint32_t due = 0;

	for (uint32_t i = 0; i < scan->count; i++) {
		if (scan->flow[i].due_ms <= now_ms) {
			struct weir_flow_waiting_at flow = scan->flow[i];

			flow.waited_ms =
				flow.waited_ms > scan->after_ms ? flow.waited_ms : scan->after_ms;
			scan->flow[i] = scan->flow[due];
			scan->flow[due++] = flow;
		}
	}
	return due;
}

uint64_t weir_flow_scan_drop(struct weir_flow_scan *scan, uint32_t n) {
	uint64_t due_ms = 0;

	scan->count -= n;
	for (uint32_t i = 0; i < scan->count; i++) {
		scan->flow[i] = scan->flow[i + n];
		due_ms = due_ms == 0 || scan->flow[i].due_ms < due_ms ? scan->flow[i].due_ms
								      : due_ms;
	}
	return due_ms;
}

void weir_flow_scan_abandon(struct weir_flow_scan *scan) {
	scan->walk.workers = 0;
	scan->count = 0;
}

void weir_flow_scan_init(struct weir_flow_scan *scan, struct weir_mailboxes *mailboxes) {
	*scan = (struct weir_flow_scan){.walk.mailboxes = mailboxes};
	weir_mailboxes_subscribe(mailboxes, WEIR_MESSAGE_FLOW_WAITING, take, NULL, scan);
}
