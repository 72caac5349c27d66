// SPDX-License-Identifier: BSD-3-Clause
#include "burst.h"

#include "probes.h"

uint64_t weir_burst_marked_hash(const struct weir_burst *b, unsigned int i) {
	const struct weir_descriptor *d = &b->pipeline->descriptors[i];

	return weir_flow_hash_in_part(
		&b->pipeline->flows->secret, &d->key, d->hash, weir_burst_part_of(b->pkts[i]));
}

uint64_t weir_burst_key_hash(
	const struct weir_pipeline *pipeline, const struct weir_flow_key *key, uint64_t hash) {
	return !pipeline->by_rss ? hash
				 : weir_flow_hash_in_part(&pipeline->flows->secret, key, hash,
					   weir_rss_part(weir_rss_hash(&pipeline->rss, key)));
}

void weir_burst_add_drops(struct weir_pipeline *pipeline, const struct weir_verdict *verdict,
	enum weir_drop_reason reason, uint32_t n) {
	pipeline->pending.dropped += n;
	pipeline->pending.drops[reason] += n;
	if (verdict->service < pipeline->max_services) {
		weir_counter_add(
			&weir_burst_service_counters(pipeline, verdict->service)->dropped, n);
	}
	if (verdict->backend < pipeline->max_backends) {
		weir_counter_add(
			&weir_burst_backend_counters(pipeline, verdict->backend)->dropped, n);
	}
}

void weir_burst_count_drop(
	struct weir_burst *b, struct weir_descriptor *d, enum weir_drop_reason reason) {
	struct weir_pipeline *pipeline = b->pipeline;

	const struct rte_mbuf *m = b->pkts[d - pipeline->descriptors];

	WEIR_PROBE_DROP((int)reason, b->in_port, d->verdict.service,
		rte_pktmbuf_mtod(m, const uint8_t *), m->pkt_len, &d->key);
	d->verdict.reason = (uint8_t)reason;
	weir_burst_add_drops(pipeline, &d->verdict, reason, 1);
}

void weir_burst_drop(
	struct weir_burst *b, struct weir_descriptor *d, enum weir_drop_reason reason) {
	d->verdict.action = WEIR_ACTION_DROP;
	weir_burst_count_drop(b, d, reason);
}

void weir_burst_to_kernel(struct weir_burst *b, struct weir_descriptor *d) {
	d->verdict.action = WEIR_ACTION_KERNEL;
	d->verdict.reason = WEIR_REASON_NONE;
	b->pipeline->pending.to_kernel++;
}

__rte_noinline bool weir_burst_vip_source(struct weir_burst *b, unsigned int i) {
	struct weir_descriptor *d = &b->pipeline->descriptors[i];

	if (!weir_burst_is_vip(b, d->key.source, d->key.family)) {
		return false;
	}
	weir_burst_drop(b, d, WEIR_DROP_SOURCE_ADDRESS);
	return true;
}

bool weir_burst_may_reply(struct weir_burst *b, unsigned int i, struct weir_icmp_limit *limit,
	enum weir_drop_reason rate) {
	struct weir_descriptor *d = &b->pipeline->descriptors[i];
	const uint8_t *frame = rte_pktmbuf_mtod(b->pkts[i], const uint8_t *);

	if (weir_burst_vip_source(b, i)) {
		return false;
	}
	// Check the group bit (multicast or broadcast) of the destination and source MAC addresses.
	if (((frame[0] | frame[6]) & 1) != 0) {
		weir_burst_drop(b, d, WEIR_DROP_GROUP_MAC);
		return false;
	}
	if (!weir_icmp_limit_ready(limit, b->now_ns)) {
		weir_burst_drop(b, d, rate);
		return false;
	}
	return true;
}

void weir_burst_reply(
	struct weir_burst *b, struct weir_descriptor *d, struct weir_icmp_limit *limit) {
	d->verdict.action = WEIR_ACTION_REPLY;
	d->verdict.port = b->in_port;
	weir_icmp_limit_take(limit);
}

static void copy_prefix(uint8_t to[16], const uint8_t *from, unsigned int bits) {
	const unsigned int bytes = bits / 8, rest = bits % 8;

	memset(to, 0, 16);
	memcpy(to, from, bytes);
	if (rest > 0) {
		to[bytes] = from[bytes] & (uint8_t)(0xff00u >> rest);
	}
}

// Ports and protocol are not hashed, so TCP and UDP flows of a client get the same backend.
uint64_t weir_burst_fields_hash(const struct weir_pipeline *pipeline,
	const struct weir_policy_settings *settings, const struct weir_flow_key *key) {
	static const uint8_t none[16];
	const uint8_t *destination =
		(settings->hash4 & WEIR_HASH_DESTINATION) != 0 ? key->destination : none;
	uint8_t source[16];

	if (key->family == 4) {
		copy_prefix(source, key->source, RTE_MIN(settings->hash4 & WEIR_HASH_BITS, 32u));
		return weir_hash_words4(
			weir_load32(source) | (uint64_t)weir_load32(destination) << 32, 0, 0,
			&pipeline->hash_keys);
	}
	copy_prefix(source, key->source, RTE_MIN(settings->hash6, 128u));
	return weir_hash_words6(source, destination, 0, 0, &pipeline->hash_keys);
}

uint16_t weir_burst_skip_closed(const struct weir_pipeline *pipeline,
	const struct weir_selection_view *view, uint64_t hash, uint16_t closed) {
	const struct weir_policy_table *table = &view->table;
	uint32_t slot = weir_selection_slot(hash, table->slot_count);
	uint32_t steps =
		table->slot_count < WEIR_POLICY_WINDOW ? table->slot_count : WEIR_POLICY_WINDOW;

	for (; steps > 0; steps--) {
		uint16_t index = __atomic_load_n(&table->slots[slot], __ATOMIC_RELAXED);

		if (index < table->count) {
			uint16_t id =
				__atomic_load_n(&table->candidates[index].id, __ATOMIC_RELAXED);

			if (id < pipeline->max_backends &&
				pipeline->policy.backends[id].closed == 0) {
				return id;
			}
		}
		slot = slot + 1 < table->slot_count ? slot + 1 : 0;
	}
	return closed;
}

void weir_burst_cancel_forward(struct weir_burst *b, unsigned int i) {
	b->pipeline->summaries[i].backend = WEIR_BACKEND_NONE;
	b->forward_count -= b->forward_count > 0 && b->forwards[b->forward_count - 1] == i;
	weir_burst_report(b, i);
}
