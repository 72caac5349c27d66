// SPDX-License-Identifier: BSD-3-Clause
#include "distribute.h"

#include "burst.h"
#include "fragment.h"
#include "icmp.h"

// Returns the hash of a packet's flow, or 0 if the packet belongs to no flow. Sets the key in *d to
// the key of the flow; the family of the key is 0 if the packet belongs to no flow. pipeline:
// provides the fragment table; NULL = no fragment table.
static inline uint64_t distribution_hash(struct weir_pipeline *pipeline, struct rte_mbuf *pkt,
	uint64_t hash_seed, struct weir_descriptor *d) {
	weir_parse(pkt, hash_seed, d);
	if (likely(d->kind == WEIR_PACKET_FLOW)) {
		return d->hash;
	}
	if (unlikely(pkt->nb_segs > 1)) { // headers may continue in the next segment
		weir_parse_gather(pkt);
		weir_parse_slow(pkt, hash_seed, d);
		if (d->kind == WEIR_PACKET_FLOW) {
			return d->hash;
		}
	}
	if (d->kind == WEIR_PACKET_ICMP_ERROR && weir_icmp_error_flow(pkt, d, &d->key) == 0) {
		return weir_parse_hash(&d->key, hash_seed);
	}
	if (d->kind == WEIR_PACKET_FRAGMENT_FIRST || d->kind == WEIR_PACKET_FRAGMENT) {
		return pipeline != NULL ? weir_fragment_hash(pipeline, pkt, d)
					: weir_parse_hash(&d->key, hash_seed);
	}
	d->key.family = 0;
	return 0;
}

uint64_t weir_pipeline_distribution_hash(struct rte_mbuf *pkt, uint64_t hash_seed) {
	struct weir_descriptor d;

	return distribution_hash(NULL, pkt, hash_seed, &d);
}

// Returns true for a TCP or UDP packet of the fast path that has an RSS hash from its device. Other
// packets may have no hash, or a hash that covers fewer header fields than the hash of other
// packets of their flow.
static inline bool has_rss_hash(const struct rte_mbuf *m) {
	const uint8_t *ip;
	uint32_t readable;

	return likely((m->ol_flags & RTE_MBUF_F_RX_RSS_HASH) != 0) &&
	       likely(weir_parse_fast_frame(m, 4, &ip, &readable)) &&
	       (likely(weir_parse_fast_head(ip, 4, WEIR_PROTOCOL_TCP)) ||
		       weir_parse_fast_head(ip, 6, WEIR_PROTOCOL_TCP) ||
		       weir_parse_fast_head(ip, 4, WEIR_PROTOCOL_UDP) ||
		       weir_parse_fast_head(ip, 6, WEIR_PROTOCOL_UDP));
}

static inline uint32_t part_by_rss(struct weir_pipeline *pipeline, struct rte_mbuf *pkt) {
	struct weir_descriptor d;

	if (likely(has_rss_hash(pkt))) {
		return weir_rss_part(pkt->hash.rss);
	}
	(void)distribution_hash(pipeline, pkt, pipeline->hash_keys.seed, &d);
	if (d.key.family != 0) {
		return weir_rss_part(weir_rss_hash(&pipeline->rss, &d.key));
	}
	// A packet without a flow can get any part. The part of its RSS hash usually belongs to the
	// worker of its queue. Therefore a flood of packets without flows, from all queues, does
	// not go to one worker.
	return (pkt->ol_flags & RTE_MBUF_F_RX_RSS_HASH) != 0 ? weir_rss_part(pkt->hash.rss) : 0;
}

uint32_t weir_pipeline_distribute(struct weir_pipeline *pipeline, struct rte_mbuf *pkt) {
	const struct weir_flow_table *flows = pipeline->flows;
	struct weir_descriptor d;
	uint64_t hash;

	if (pipeline->by_rss) {
		return part_by_rss(pipeline, pkt);
	}
	hash = distribution_hash(pipeline, pkt, pipeline->hash_keys.seed, &d);
	if (likely(flows->owned.shift != 0)) {
		return d.key.family != 6 ? weir_flow_part(&flows->secret, hash)
					 : weir_flow_part(&flows->secret,
						   weir_flow_bucket_hash6(
							   &flows->secret, d.key.source, hash));
	}
	// Each worker has a private table. Bits of the hash select the bucket of the table and the
	// slot of the selection. The flows of each worker must be spread over all buckets and
	// slots. Therefore the hash is mixed once more to choose the worker.
	return (uint32_t)(weir_hash_mix(hash ^ 0x9e3779b97f4a7c15ull, 0xd6e8feb86659fd93ull) &
			  (WEIR_FLOW_PARTS - 1));
}
