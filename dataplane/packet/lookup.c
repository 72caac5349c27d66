// SPDX-License-Identifier: BSD-3-Clause
#include "lookup.h"

#include "flow_life.h"

bool weir_lookup_slow(struct weir_burst *b, unsigned int i, weir_flow_ref *ret_flow) {
	struct weir_pipeline *pipeline = b->pipeline;
	struct weir_descriptor *d = &pipeline->descriptors[i];
	weir_flow_ref flow = weir_flow_lookup(pipeline->flows, &d->key, d->hash, b->now_ns);
	uint16_t backend;

	*ret_flow = flow;
	// No entry, or only an expired one or another protocol's; or an ended one that starts anew.
	if (flow < 0 || weir_flow_advance(
				pipeline->flows, flow, (enum weir_flow_event)d->event, b->now_ns)) {
		return false;
	}
	backend = weir_flow_backend(pipeline->flows, flow);
	weir_burst_prefetch_backend(pipeline, backend);
	weir_descriptor_decide(d, backend);
	weir_burst_forward(b, i);
	return true;
}
