// SPDX-License-Identifier: BSD-3-Clause
#include "flow_list.h"

#include "burst.h"
#include "flow_life.h"
#include "flow_walk.h"
#include "packet_match.h"

_Static_assert(WEIR_FLOW_STATE_COUNT <= 8, "a message must have a bit for each state");
_Static_assert(WEIR_FLOW_PAGE_FLOWS >= WEIR_FLOW_WALK_LINE,
	"a page must have room for the flows of a bucket, so that each request makes progress");

static bool is_sought(const struct weir_pipeline *pipeline, const struct weir_message *message,
	const struct weir_flow_walked *met) {
	const uint8_t family = message->list.family;
	const unsigned int most = family == 4 ? 32 : 128;

	if ((message->list.states >> met->state & 1) == 0 ||
		(message->list.backend != WEIR_BACKEND_NONE &&
			message->list.backend != met->backend) ||
		(message->list.protocol != 0 && message->list.protocol != met->key.protocol)) {
		return false;
	}
	if (message->list.service != WEIR_SERVICE_NONE &&
		(met->backend >= pipeline->max_backends ||
			pipeline->owner[met->backend] != message->list.service)) {
		return false;
	}
	return family == 0 || (family == met->key.family &&
				      weir_address_has_prefix(met->key.source, message->list.client,
					      RTE_MIN(message->list.client_bits, most)));
}

static void put(struct weir_listed_flow *to, const struct weir_flow_walked *met) {
	struct weir_listed_flow flow = {.source_port = met->key.source_port,
		.destination_port = met->key.destination_port,
		.idle_ms = met->idle_ms,
		.backend = met->backend,
		.family = met->key.family,
		.protocol = met->key.protocol,
		.state = (uint8_t)met->state};

	memcpy(flow.source, met->key.source, sizeof(flow.source));
	memcpy(flow.destination, met->key.destination, sizeof(flow.destination));
	*to = flow;
}

// Lists the matching flows of a line, or ends them. Returns the number of flows in the line.
static uint32_t take_line(
	struct weir_pipeline *pipeline, struct weir_message *message, uint32_t line) {
	struct weir_flow_walked met[WEIR_FLOW_WALK_LINE];
	uint32_t n = weir_flow_walk(pipeline->flows, line, pipeline->now_ns, met);
	struct weir_listed_flow *page = pipeline->segment->flow_pages[pipeline->worker]
						.flow[message->list.page % WEIR_FLOW_PAGES];

	for (uint32_t i = 0; i < n; i++) {
		if (!is_sought(pipeline, message, &met[i])) {
			continue;
		}
		if (message->list.end) {
			weir_flow_remove(pipeline->flows, met[i].flow, WEIR_FLOW_END_EVICTED,
				pipeline->now_ns);
		} else {
			put(&page[message->list.count], &met[i]);
		}
		message->list.count++;
	}
	return n;
}

void weir_flow_list(struct weir_pipeline *pipeline, struct weir_message *message, uint64_t now_ns) {
	const struct weir_flow_table *flows = pipeline->flows;
	const uint32_t lines = weir_flow_walk_lines(flows);
	uint32_t last = RTE_MIN(message->list.last, lines);
	uint32_t line = RTE_MIN(message->list.first, last);
	uint32_t met = 0;

	pipeline->now_ns = now_ns;
	message->list.answered = 1;
	message->list.count = 0;
	message->list.lines = lines;
	for (uint32_t looked = 0; looked < WEIR_LIST_LINES; looked++, line++) {
		line = RTE_MIN(weir_flow_walk_owned(flows, line), last);
		// Flows that do not match also count towards the limit, because checking them takes
		// time.
		if (line == last || met + WEIR_FLOW_WALK_LINE > WEIR_FLOW_PAGE_FLOWS) {
			break;
		}
		met += take_line(pipeline, message, line);
	}
	message->list.next = line;
}
