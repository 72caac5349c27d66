// SPDX-License-Identifier: BSD-3-Clause
#include "lookup.h"

#include <errno.h>

#include "flow_life.h"

// Returns the event of a packet. Unlike the parser, this function distinguishes TCP packets with a
// payload (DATA) from packets without a payload (ACK).
static enum weir_flow_event event_of(const struct weir_burst *b, unsigned int i) {
	const struct weir_descriptor *d = &b->pipeline->descriptors[i];
	const uint8_t *tcp;

	if (d->event != WEIR_FLOW_EVENT_DATA) {
		return (enum weir_flow_event)d->event;
	}
	tcp = rte_pktmbuf_mtod_offset(b->pkts[i], const uint8_t *, d->l3_offset + d->l4_offset);
	return d->ip_bytes > d->l4_offset + (tcp[12] >> 4) * 4u ? WEIR_FLOW_EVENT_DATA
								: WEIR_FLOW_EVENT_ACK;
}

// End a UDP flow that no longer belongs to the service of its backend (weir_burst_belongs). The
// packet is then handled like a packet without a flow. Returns true if the flow was ended.
static __rte_noinline bool end_stray(
	struct weir_burst *b, const struct weir_flow_key *key, weir_flow_ref flow) {
	struct weir_flow_table *flows = b->pipeline->flows;

	if (weir_burst_belongs(b->pipeline, b->services, key, weir_flow_backend(flows, flow))) {
		return false;
	}
	weir_flow_remove(flows, flow, WEIR_FLOW_END_EVICTED, b->now_ns);
	return true;
}

static bool advance(struct weir_burst *b, unsigned int i, weir_flow_ref flow) {
	struct weir_pipeline *pipeline = b->pipeline;
	bool restarts;

	pipeline->advancing = &pipeline->descriptors[i];
	restarts = weir_flow_advance(pipeline->flows, flow, event_of(b, i), b->now_ns);
	pipeline->advancing = NULL;
	return restarts;
}

bool weir_lookup_slow(struct weir_burst *b, unsigned int i, weir_flow_ref *ret_flow) {
	struct weir_pipeline *pipeline = b->pipeline;
	struct weir_descriptor *d = &pipeline->descriptors[i];
	weir_flow_ref flow = weir_flow_lookup(
		pipeline->flows, &d->key, weir_burst_table_hash(b, d, i), b->now_ns);
	uint16_t backend;

	if (flow >= 0 && d->key.protocol == WEIR_PROTOCOL_UDP && end_stray(b, &d->key, flow)) {
		flow = -ENOENT;
	}
	*ret_flow = flow;
	// The flow is not in the table, or it has ended and the packet restarts it.
	if (flow < 0 || advance(b, i, flow)) {
		return false;
	}
	backend = weir_flow_backend(pipeline->flows, flow);
	weir_burst_prefetch_backend(pipeline, backend);
	weir_descriptor_decide(d, backend);
	weir_burst_forward(b, i);
	return true;
}
