// SPDX-License-Identifier: BSD-3-Clause
#include "fragment_output.h"

#include <errno.h>

#include "pipeline.h"

bool weir_fragment_output(struct weir_burst *b, unsigned int i, const struct weir_outer *outer) {
	struct weir_pipeline *pipeline = b->pipeline;
	struct weir_descriptor *d = &pipeline->descriptors[i], piece = *d;
	const struct weir_row_head *head = &outer->head;
	struct weir_extra *extra = &pipeline->extra;
	struct rte_mbuf **pieces = extra->pkts + extra->count;
	uint32_t outer_bytes = weir_encap_outer_bytes(head);
	int r = weir_fragment_split(b->pkts[i], d, head->mtu - RTE_MIN(outer_bytes, head->mtu),
		pieces, WEIR_PIECES_MAX - extra->count);

	if (r < 0) {
		weir_burst_drop(
			b, d, r == -EMSGSIZE ? WEIR_DROP_MTU_EXCEEDED : WEIR_DROP_FRAGMENT_BUFFERS);
		return false;
	}
	piece.l3_offset = 0;
	piece.verdict.port = head->port;
	for (int k = 0; k < r; k++) {
		piece.ip_bytes = pieces[k]->pkt_len;
		weir_encap_push(pieces[k], &piece, weir_outer_header(outer), head);
		weir_burst_count(weir_burst_backend_counters(pipeline, piece.verdict.backend),
			piece.ip_bytes);
		weir_burst_count(
			weir_burst_service_counters(pipeline, head->service), piece.ip_bytes);
		extra->verdicts[extra->count++] = piece.verdict;
	}
	d->ip_bytes = b->pkts[i]->pkt_len - d->l3_offset;
	pipeline->pending.forwarded += (uint32_t)r;
	pipeline->pending.fragmented++;
	pipeline->pending.fragments_made += (uint32_t)r;
	return true;
}

void weir_fragment_discard(struct weir_pipeline *pipeline) {
	rte_pktmbuf_free_bulk(pipeline->extra.pkts, pipeline->extra.count);
	pipeline->extra.count = 0;
}

uint16_t weir_pipeline_extra(struct weir_pipeline *pipeline, struct rte_mbuf ***ret_pkts,
	const struct weir_verdict **ret_verdicts) {
	uint16_t count = pipeline->extra.count;

	*ret_pkts = pipeline->extra.pkts;
	*ret_verdicts = pipeline->extra.verdicts;
	pipeline->extra.count = 0;
	return count;
}
