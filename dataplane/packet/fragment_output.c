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

// Splits the outer packet of m.
//
// Outer IPv4: the header gets an identification, and DF is cleared. Routers may then split the
// packet further where the path MTU is below the port's MTU. A packet that fits the port's MTU is
// sent whole (RFC 4213, 3.2), because reports of a path MTU can be forged, and some backends
// cannot reassemble.
static int split_outer(struct weir_pipeline *pipeline, struct rte_mbuf *m,
	const struct weir_row_head *head, struct rte_mbuf **pieces, uint32_t room) {
	struct weir_descriptor d = {.key = {.family = 4},
		.ip_bytes = m->pkt_len - head->l2_bytes,
		.l3_offset = head->l2_bytes};
	uint8_t *ip = rte_pktmbuf_mtod_offset(m, uint8_t *, head->l2_bytes);
	uint32_t port_mtu = pipeline->segment->header->port[head->port].mtu;
	uint32_t id = pipeline->outer_id++;

	if (head->outer_family == 6) {
		return weir_fragment_split6(
			m, head->l2_bytes, d.ip_bytes, id, head->mtu, pieces, room);
	}
	weir_store16(ip + 4, (uint16_t)id);
	weir_store16(ip + 6, 0); // DF is not set
	weir_store16(ip + 10, 0);
	weir_store16(ip + 10, (uint16_t)~weir_checksum_ipv4(ip));
	return weir_fragment_split(m, &d, RTE_MAX(port_mtu, head->mtu), pieces, room);
}

void weir_fragment_output_outer(
	struct weir_burst *b, unsigned int i, const struct weir_outer *outer) {
	struct weir_pipeline *pipeline = b->pipeline;
	struct weir_descriptor *d = &pipeline->descriptors[i];
	const struct weir_row_head *head = &outer->head;
	struct weir_extra *extra = &pipeline->extra;
	struct rte_mbuf *m = b->pkts[i], **pieces = extra->pkts + extra->count;
	int r;

	weir_encap_push_segments(m, d, weir_outer_header(outer), head);
	r = split_outer(pipeline, m, head, pieces, WEIR_PIECES_MAX - extra->count);
	if (r < 0) {
		weir_burst_drop(
			b, d, r == -EMSGSIZE ? WEIR_DROP_MTU_EXCEEDED : WEIR_DROP_FRAGMENT_BUFFERS);
		return;
	}
	d->verdict.port = head->port;
	for (int k = 0; k < r; k++) {
		memcpy(rte_pktmbuf_prepend(pieces[k], head->l2_bytes),
			rte_pktmbuf_mtod(m, const void *), head->l2_bytes);
		weir_encap_pad(pieces[k]);
		extra->verdicts[extra->count++] = d->verdict;
	}
	for (int k = 0; k <= r; k++) {
		uint32_t bytes = k == 0 ? d->ip_bytes : 0;

		weir_burst_count(weir_burst_backend_counters(pipeline, d->verdict.backend), bytes);
		weir_burst_count(weir_burst_service_counters(pipeline, head->service), bytes);
	}
	pipeline->pending.forwarded += (uint32_t)r + 1;
	pipeline->pending.fragmented += r > 0;
	pipeline->pending.fragments_made += (uint32_t)r;
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
