// SPDX-License-Identifier: BSD-3-Clause
#include "steal_flow.h"

#include "flow_life.h"
#include "flow_waiting.h"
#include "new_flow.h"

_Static_assert(WEIR_WAITING_BACKENDS == WEIR_FLOW_WAITING_BACKENDS,
	"a message and a search must have the same number of backends");
_Static_assert(WEIR_WAITING_FLOWS4 >= WEIR_FLOW_SLOTS4 && WEIR_WAITING_FLOWS6 >= WEIR_FLOW_SLOTS6,
	"a message must have room for the flows of a bucket, so that each request makes progress");

// --- the list -------------------------------------------------------------------------------

static void put4(struct weir_message *message, const struct weir_flow_waiting *flow) {
	struct weir_waiting_flow4 *to = &message->waiting.flow4[message->waiting.count++];

	*to = (struct weir_waiting_flow4){.source_port = flow->key.source_port,
		.destination_port = flow->key.destination_port,
		.stamp = flow->stamp};
	memcpy(to->source, flow->key.source, sizeof(to->source));
	memcpy(to->destination, flow->key.destination, sizeof(to->destination));
}

static void put6(struct weir_message *message, const struct weir_flow_waiting *flow) {
	struct weir_waiting_flow6 *to = &message->waiting.flow6[message->waiting.count++];

	*to = (struct weir_waiting_flow6){.source_port = flow->key.source_port,
		.destination_port = flow->key.destination_port,
		.stamp = flow->stamp};
	memcpy(to->source, flow->key.source, sizeof(to->source));
	memcpy(to->destination, flow->key.destination, sizeof(to->destination));
}

// Put the flows of a line into the list. Returns false if the list has no room for all flows of the
// line, or has flows of the other family.
static bool put_line(struct weir_message *message, uint8_t family,
	const struct weir_flow_waiting *flows, uint32_t n) {
	uint32_t room = family == 4 ? WEIR_WAITING_FLOWS4 : WEIR_WAITING_FLOWS6;

	if (n == 0) {
		return true;
	}
	if (message->waiting.count + n > room ||
		(message->waiting.count > 0 && message->waiting.family != family)) {
		return false;
	}
	message->waiting.family = family;
	for (uint32_t i = 0; i < n; i++) {
		uint32_t waited = flows[i].idle_ms / WEIR_WAITED_MS;

		message->waiting.waited =
			(uint8_t)RTE_MIN(waited, (uint32_t)message->waiting.waited);
		family == 4 ? put4(message, &flows[i]) : put6(message, &flows[i]);
	}
	return true;
}

void weir_steal_list(
	struct weir_pipeline *pipeline, struct weir_message *message, uint64_t now_ns) {
	struct weir_flow_table *flows = pipeline->flows;
	const uint32_t lines = weir_flow_walk_lines(flows);
	struct weir_flow_waiting found[WEIR_FLOW_WALK_LINE];
	struct weir_flow_waiting_search search = {.idle_ms = message->waiting.idle_ms};
	uint32_t last = RTE_MIN(message->waiting.last, lines);
	uint32_t line = RTE_MIN(message->waiting.first, last);

	memcpy(search.backend, message->waiting.backend, sizeof(search.backend));
	message->waiting.answered = 1;
	message->waiting.family = 4;
	message->waiting.count = 0;
	message->waiting.waited = UINT8_MAX;
	message->waiting.lines = lines;
	memset(message->waiting.flow6, 0, sizeof(message->waiting.flow6));
	for (uint32_t looked = 0; looked <= WEIR_WAITING_LINES; looked++, line++) {
		uint8_t family;
		uint32_t n = 0;

		line = RTE_MIN(weir_flow_walk_owned(flows, line), last);
		if (line == last || looked == WEIR_WAITING_LINES) {
			break;
		}
		family = weir_flow_walk_family(flows, line);
		// While the table is crowded, workers move no flow. Listing no flows saves requests
		// to agents.
		if (!weir_flow_crowded(flows, family)) {
			n = weir_flow_waiting_in(flows, line, &search, now_ns, found);
		}
		if (!put_line(message, family, found, n)) {
			break;
		}
	}
	message->waiting.next = line;
}

// --- the move -------------------------------------------------------------------------------

static bool read_key(const struct weir_message *message, struct weir_flow_key *ret) {
	uint8_t family = message->move.family;

	*ret = (struct weir_flow_key){.family = family,
		.protocol = WEIR_PROTOCOL_TCP,
		.source_port = message->move.source_port,
		.destination_port = message->move.destination_port};
	if (family != 4 && family != 6) {
		return false;
	}
	memcpy(ret->source, message->move.source, family == 4 ? 4 : 16);
	memcpy(ret->destination, message->move.destination, family == 4 ? 4 : 16);
	return true;
}

// Returns the service of the flow's destination if both backends belong to this service and `to`
// accepts new flows, otherwise WEIR_SERVICE_NONE.
static uint16_t common_service(struct weir_pipeline *pipeline, const struct weir_flow_key *key,
	uint16_t from, uint16_t to) {
	struct weir_burst b = {.pipeline = pipeline};
	const struct weir_outer *outer;
	uint16_t service;

	weir_reader_update(&pipeline->reader);
	b.services = weir_reader_services(&pipeline->reader);
	if (b.services->buckets == NULL || to >= pipeline->max_backends || to == from) {
		return WEIR_SERVICE_NONE;
	}
	outer = &pipeline->outers[to];
	service = weir_burst_service(&b, key);
	return (outer->head.flags & WEIR_BACKEND_RESOLVED) != 0 &&
			       (outer->head.flags & WEIR_BACKEND_CLOSED) == 0 &&
			       outer->head.service == service && pipeline->owner[from] == service
		       ? service
		       : WEIR_SERVICE_NONE;
}

// Returns true if the backend and the flow table have room for the moved flow. While the table is
// crowded, as in a flood, no flow is moved: if the entry of the moved flow were evicted, the Maglev
// fallback would send the next packet to a different backend.
static bool has_room(
	struct weir_pipeline *pipeline, uint16_t service, uint16_t to, uint8_t family) {
	return weir_policy_below_limit(
		       &pipeline->clients[service], &pipeline->policy.backends[to]) &&
	       weir_policy_admits(&pipeline->policy, &pipeline->clients[service], to) &&
	       !weir_flow_crowded(pipeline->flows, family);
}

static enum weir_move_answer move(
	struct weir_pipeline *pipeline, const struct weir_message *message, uint64_t now_ns) {
	struct weir_flow_table *flows = pipeline->flows;
	const uint16_t to = message->move.to;
	uint16_t from, service;
	struct weir_flow_key key;
	weir_flow_ref flow;

	if (now_ns >= message->move.deadline_ns) {
		return WEIR_MOVE_LATE;
	}
	if (!read_key(message, &key)) {
		return WEIR_MOVE_GONE;
	}
	flow = weir_flow_lookup_owned(flows, &key,
		weir_burst_key_hash(
			pipeline, &key, weir_parse_hash(&key, pipeline->hash_keys.seed)),
		now_ns);
	if (flow < 0) {
		return WEIR_MOVE_GONE;
	}
	from = weir_flow_backend(flows, flow);
	if (weir_flow_state(flows, flow) != WEIR_FLOW_SYN_SEEN ||
		weir_flow_waiting_stamp(flows, flow) != message->move.stamp) {
		return WEIR_MOVE_CHANGED;
	}
	service = common_service(pipeline, &key, from, to);
	if (service == WEIR_SERVICE_NONE) {
		return WEIR_MOVE_UNUSABLE;
	}
	if (!has_room(pipeline, service, to, key.family)) {
		return WEIR_MOVE_LIMIT;
	}
	weir_flow_move(flows, flow, to, now_ns);
	weir_new_flow_started(pipeline, to, service, &key, WEIR_FLOW_EVENT_SYN, true, now_ns);
	return WEIR_MOVE_MOVED;
}

void weir_steal_move(
	struct weir_pipeline *pipeline, struct weir_message *message, uint64_t now_ns) {
	pipeline->now_ns = now_ns;
	message->move.answer = (uint8_t)move(pipeline, message, now_ns);
}
