// SPDX-License-Identifier: BSD-3-Clause
#include "flow_query.h"

#include <errno.h>

#include "burst.h"
#include "flow_life.h"
#include "flow_list.h"
#include "source.h"
#include "source_query.h"
#include "steal_flow.h"

// Returns the key in the request, and writes the hash of the key to the response.
static struct weir_flow_key read_key(
	const struct weir_pipeline *pipeline, struct weir_message *message) {
	struct weir_flow_key key = {.family = message->flow.family,
		.protocol = message->flow.protocol,
		.source_port = rte_cpu_to_be_16(message->flow.source_port),
		.destination_port = rte_cpu_to_be_16(message->flow.destination_port)};

	memcpy(key.source, message->flow.source, key.family == 4 ? 4 : 16);
	memcpy(key.destination, message->flow.destination, key.family == 4 ? 4 : 16);
	message->flow.hash = weir_parse_hash(&key, pipeline->hash_keys.seed);
	return key;
}

// Look up the flow, and write the response. Returns the flow, or a negative value.
static weir_flow_ref look_up(
	struct weir_pipeline *pipeline, struct weir_message *message, uint64_t now_ns) {
	struct weir_burst b = {.pipeline = pipeline};
	struct weir_flow_key key = read_key(pipeline, message);
	weir_flow_ref flow;

	message->flow.found = 0;
	message->flow.state = 0;
	message->flow.idle_ms = 0;
	message->flow.slot = 0;
	message->flow.entry = WEIR_SOURCE_ENTRY_NONE;
	message->flow.backend = WEIR_BACKEND_NONE;
	message->flow.chosen = WEIR_BACKEND_NONE;
	message->flow.service = WEIR_SERVICE_NONE;
	if (key.protocol != WEIR_PROTOCOL_TCP && key.protocol != WEIR_PROTOCOL_UDP) {
		return -EINVAL;
	}
	flow = weir_flow_lookup_owned(pipeline->flows, &key,
		weir_burst_key_hash(pipeline, &key, message->flow.hash), now_ns);
	if (flow >= 0) {
		message->flow.found = 1;
		message->flow.state = (uint8_t)weir_flow_state(pipeline->flows, flow);
		message->flow.backend = weir_flow_backend(pipeline->flows, flow);
		message->flow.idle_ms = weir_flow_idle_ms(pipeline->flows, flow, now_ns);
	}
	weir_reader_update(&pipeline->reader);
	b.services = weir_reader_services(&pipeline->reader);
	if (b.services->buckets == NULL) {
		return flow;
	}
	message->flow.service = weir_burst_service(&b, &key);
	if (message->flow.service != WEIR_SERVICE_NONE) {
		const struct weir_selection_view *view =
			weir_reader_selection(&pipeline->reader, message->flow.service);

		message->flow.hash =
			weir_burst_choice_hash(pipeline, view, &key, message->flow.hash);
		pipeline->now_ns = now_ns;
		message->flow.chosen = weir_source_fallback(pipeline, view, message->flow.service,
			message->flow.hash, &message->flow.entry);
		if (view->table.slot_count > 0) {
			message->flow.slot =
				weir_selection_slot(message->flow.hash, view->table.slot_count);
		}
	}
	return flow;
}

// End the flow. The response describes the flow as it was before its end.
static void end(struct weir_pipeline *pipeline, struct weir_message *message, uint64_t now_ns) {
	weir_flow_ref flow = look_up(pipeline, message, now_ns);

	if (flow >= 0) {
		pipeline->now_ns = now_ns;
		weir_flow_remove(pipeline->flows, flow, WEIR_FLOW_END_EVICTED, now_ns);
	}
}

void weir_flow_query_respond(
	struct weir_pipeline *pipeline, struct weir_message *message, uint64_t now_ns) {
	switch (message->kind) {
	case WEIR_MESSAGE_FLOW_LOOKUP:
		(void)look_up(pipeline, message, now_ns);
		break;
	case WEIR_MESSAGE_FLOW_WAITING:
		weir_steal_list(pipeline, message, now_ns);
		break;
	case WEIR_MESSAGE_FLOW_MOVE:
		weir_steal_move(pipeline, message, now_ns);
		break;
	case WEIR_MESSAGE_FLOW_LIST:
		weir_flow_list(pipeline, message, now_ns);
		break;
	case WEIR_MESSAGE_FLOW_DELETE:
		end(pipeline, message, now_ns);
		break;
	case WEIR_MESSAGE_SOURCE_LOOKUP:
	case WEIR_MESSAGE_SOURCE_DELETE:
		weir_source_look_up(pipeline, message, now_ns);
		break;
	case WEIR_MESSAGE_SOURCE_WALK:
		weir_source_walk(pipeline, message, now_ns);
		break;
	default:
		break;
	}
}
