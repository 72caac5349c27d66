// SPDX-License-Identifier: BSD-3-Clause
#include "slow_path.h"

#include <errno.h>

#include "fragment_output.h"
#include "move_flow.h"
#include "offer.h"
#include "source.h"

// --- neither TCP nor UDP --------------------------------------------------------------------

static void echo_request(struct weir_burst *b, unsigned int i) {
	struct weir_descriptor *d = &b->pipeline->descriptors[i];
	struct weir_icmp_limit *limit = &b->pipeline->echo_limit;
	int r;

	if (!weir_burst_may_reply(b, i, limit, WEIR_DROP_ICMP_RATE)) {
		return;
	}
	r = weir_icmp_echo_reply(b->pkts[i], d);
	if (r < 0) {
		weir_burst_drop(b, d, r == -EBADMSG ? WEIR_DROP_ICMP_CHECKSUM : WEIR_DROP_HEADROOM);
		return;
	}
	weir_burst_reply(b, d, limit);
	b->pipeline->pending.replied++;
}

// Returns whether the flow that an ICMP error quotes still belongs to the service of its backend;
// always true for TCP. Does not remove a flow that no longer belongs, because the error may be
// forged.
static bool is_valid(
	const struct weir_burst *b, const struct weir_flow_key *key, weir_flow_ref flow) {
	return key->protocol != WEIR_PROTOCOL_UDP ||
	       weir_burst_belongs(
		       b->pipeline, b->services, key, weir_flow_backend(b->pipeline->flows, flow));
}

// Returns whether another worker may have a flow of this key.
static bool may_have_flow(
	const struct weir_pipeline *pipeline, const struct weir_flow_key *key, uint16_t service) {
	return key->protocol != WEIR_PROTOCOL_UDP || !weir_burst_by_datagram(pipeline, service);
}

// Handle an ICMP error, which quotes a packet from a VIP to a client: forward the error to the
// backend that sent this packet, offer the error to another worker, or drop it.
static void icmp_error(struct weir_burst *b, unsigned int i) {
	struct weir_pipeline *pipeline = b->pipeline;
	struct weir_descriptor *d = &pipeline->descriptors[i];
	weir_flow_ref flow;
	int r = weir_icmp_error_flow(b->pkts[i], d, &d->key);

	if (r < 0) {
		weir_burst_drop(
			b, d, r == -EBADMSG ? WEIR_DROP_ICMP_TRUNCATED : WEIR_DROP_ICMP_UNMATCHED);
		return;
	}
	d->hash = weir_parse_hash(&d->key, pipeline->hash_keys.seed);
	flow = weir_flow_lookup_owned(
		pipeline->flows, &d->key, weir_burst_table_hash(b, d, i), b->now_ns);
	if (flow >= 0 && is_valid(b, &d->key, flow)) {
		d->verdict.backend = weir_flow_backend(pipeline->flows, flow);
		d->verdict.choice = WEIR_CHOICE_FLOW;
	} else {
		d->verdict.service = weir_burst_existing_service(b, &d->key);
		if (d->verdict.service == WEIR_SERVICE_NONE) {
			weir_burst_drop(b, d, WEIR_DROP_ICMP_UNMATCHED);
			return;
		}
		if (flow < 0 && may_have_flow(pipeline, &d->key, d->verdict.service) &&
			weir_offer(b, i)) {
			return;
		}
		d->verdict.backend = weir_source_fallback_of(pipeline,
			weir_reader_selection(&pipeline->reader, d->verdict.service),
			d->verdict.service, d);
		if (d->verdict.backend == WEIR_BACKEND_NONE) {
			weir_burst_drop(b, d, WEIR_DROP_NO_BACKEND);
			return;
		}
		d->verdict.choice = WEIR_CHOICE_UNTRACKED;
	}
	weir_burst_forward(b, i);
}

static void other(struct weir_burst *b, unsigned int i) {
	struct weir_descriptor *d = &b->pipeline->descriptors[i];

	if (d->kind == WEIR_PACKET_OFFERED) {
		return;
	}
	if (d->kind == WEIR_PACKET_BROKEN) {
		weir_burst_drop(b, d, (enum weir_drop_reason)d->verdict.reason);
		return;
	}
	if (d->kind == WEIR_PACKET_OTHER ||
		!weir_burst_is_vip(b, d->key.destination, d->key.family)) {
		weir_burst_to_kernel(b, d);
		return;
	}
	switch ((enum weir_packet_kind)d->kind) {
	case WEIR_PACKET_ECHO:
		echo_request(b, i);
		break;
	case WEIR_PACKET_ICMP_ERROR:
		icmp_error(b, i);
		break;
	default:
		weir_burst_drop(b, d, (enum weir_drop_reason)d->verdict.reason);
	}
}

void weir_slow_path_others(struct weir_burst *b) {
	for (unsigned int k = 0; k < b->other_count; k++) {
		other(b, b->others[k]);
		weir_burst_report(b, b->others[k]);
	}
}

// --- rewrite --------------------------------------------------------------------------------

// Reply with a "too big" message. These messages have their own rate limit, so that a ping flood
// does not stop path MTU discovery.
static void too_big(struct weir_burst *b, unsigned int i, const struct weir_row_head *head) {
	struct weir_descriptor *d = &b->pipeline->descriptors[i];
	struct weir_icmp_limit *limit = &b->pipeline->too_big_limit;
	uint32_t outer = weir_encap_outer_bytes(head);
	uint32_t mtu = head->mtu - RTE_MIN(head->mtu, outer);

	if (d->key.family == 6) { // senders ignore an MTU below the minimum
		mtu = RTE_MAX(mtu, WEIR_IPV6_MTU_MIN);
	}
	if (d->kind == WEIR_PACKET_ICMP_ERROR) { // no error in reply to an error (RFC 1122, 3.2.2)
		weir_burst_drop(b, d, WEIR_DROP_MTU_EXCEEDED);
		return;
	}
	if (!weir_burst_may_reply(b, i, limit, WEIR_DROP_ICMP_RATE)) {
		return;
	}
	if (weir_icmp_too_big(b->pkts[i], d, (uint16_t)mtu) < 0) {
		weir_burst_drop(b, d, WEIR_DROP_HEADROOM);
		return;
	}
	weir_burst_count_drop(b, d, WEIR_DROP_MTU_EXCEEDED);
	weir_burst_reply(b, d, limit);
}

void weir_slow_path_rewrite(struct weir_burst *b, unsigned int i) {
	struct weir_pipeline *pipeline = b->pipeline;
	struct weir_descriptor *d = &pipeline->descriptors[i];
	struct rte_mbuf *m = b->pkts[i];
	const struct weir_outer *outer = weir_move_outer(b, d->verdict.backend);
	const struct weir_row_head *head;
	bool fits;

	if (outer == NULL) {
		outer = weir_move_from_gone(b, i);
	} else if ((outer->head.flags & WEIR_BACKEND_DOWN) != 0) {
		outer = weir_move_from_down(b, i, outer);
	}
	if (outer == NULL) {
		return;
	}
	head = &outer->head;
	d->verdict.service = head->service;
	if ((head->flags & WEIR_BACKEND_RESOLVED) == 0) {
		weir_burst_drop(b, d, WEIR_DROP_NO_NEIGHBOUR);
		return;
	}
	fits = weir_encap_fits(head, d);
	if (!fits && !weir_fragment_allowed(m, d) &&
		!(head->outer_family != 0 && weir_fragment_unavoidable(d))) {
		too_big(b, i, head);
		return;
	}
	if (rte_pktmbuf_headroom(m) < head->header_bytes - d->l3_offset) {
		weir_burst_drop(b, d, WEIR_DROP_HEADROOM);
		return;
	}
	if (!fits && d->key.family == 6) {
		weir_fragment_output_outer(b, i, outer);
		return;
	}
	if (!fits && !weir_fragment_output(b, i, outer)) {
		return;
	}
	if (m->nb_segs > 1) {
		weir_encap_push_segments(m, d, weir_outer_header(outer), head);
	} else {
		weir_encap_push(m, d, weir_outer_header(outer), head);
	}
	d->verdict.port = head->port;
	pipeline->pending.forwarded++;
	weir_burst_count(weir_burst_backend_counters(pipeline, d->verdict.backend), d->ip_bytes);
	weir_burst_count(weir_burst_service_counters(pipeline, head->service), d->ip_bytes);
}
