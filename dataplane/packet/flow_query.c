// SPDX-License-Identifier: BSD-3-Clause
#include "flow_query.h"

#include "burst.h"
#include "steal_flow.h"

static void look_up(struct weir_pipeline *pipeline, struct weir_message *message, uint64_t now_ns) {
	struct weir_burst b = {.pipeline = pipeline};
	struct weir_flow_key key = {.family = message->flow.family,
		.protocol = message->flow.protocol,
		.source_port = rte_cpu_to_be_16(message->flow.source_port),
		.destination_port = rte_cpu_to_be_16(message->flow.destination_port)};
	weir_flow_ref flow;

	memcpy(key.source, message->flow.source, key.family == 4 ? 4 : 16);
	memcpy(key.destination, message->flow.destination, key.family == 4 ? 4 : 16);
	message->flow.hash = weir_parse_hash(&key, pipeline->hash_keys.seed);
	message->flow.found = 0;
	message->flow.state = 0;
	message->flow.idle_ms = 0;
	message->flow.slot = 0;
	message->flow.backend = WEIR_BACKEND_NONE;
	message->flow.chosen = WEIR_BACKEND_NONE;
	message->flow.service = WEIR_SERVICE_NONE;
	if (key.protocol != WEIR_PROTOCOL_TCP && key.protocol != WEIR_PROTOCOL_UDP) {
		return;
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
		return;
	}
	message->flow.service = weir_burst_service(&b, &key);
	if (message->flow.service != WEIR_SERVICE_NONE) {
		const struct weir_selection_view *view =
			weir_reader_selection(&pipeline->reader, message->flow.service);

		message->flow.chosen = weir_burst_fallback(pipeline, view, message->flow.hash);
		if (view->table.slot_count > 0) {
			message->flow.slot =
				weir_selection_slot(message->flow.hash, view->table.slot_count);
		}
	}
}

void weir_flow_query_respond(
	struct weir_pipeline *pipeline, struct weir_message *message, uint64_t now_ns) {
	switch (message->kind) {
	case WEIR_MESSAGE_FLOW_LOOKUP:
		look_up(pipeline, message, now_ns);
		break;
	case WEIR_MESSAGE_FLOW_WAITING:
		weir_steal_list(pipeline, message, now_ns);
		break;
	case WEIR_MESSAGE_FLOW_MOVE:
		weir_steal_move(pipeline, message, now_ns);
		break;
	default:
		break;
	}
}
