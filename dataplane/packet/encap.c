// SPDX-License-Identifier: BSD-3-Clause
#include "encap.h"

void weir_encap_cut(struct rte_mbuf *m, uint32_t bytes) {
	struct rte_mbuf *last = m;
	uint32_t before = 0;
	uint16_t segments = 1;

	m->pkt_len = bytes;
	while (last->next != NULL && before + last->data_len < bytes) {
		before += last->data_len;
		last = last->next;
		segments++;
	}
	last->data_len = (uint16_t)RTE_MIN((uint32_t)last->data_len, bytes - before);
	if (last->next != NULL) {
		rte_pktmbuf_free(last->next);
		last->next = NULL;
	}
	m->nb_segs = segments;
}

void weir_encap_push_segments(struct rte_mbuf *m, const struct weir_descriptor *d,
	const uint8_t *from, const struct weir_row_head *head) {
	uint32_t first = (uint32_t)m->data_len + head->header_bytes - d->l3_offset;
	uint32_t total = head->header_bytes + d->ip_bytes;

	weir_encap_push(m, d, from, head);
	m->data_len = (uint16_t)first;
	weir_encap_cut(m, total);
	weir_encap_pad(m);
}
