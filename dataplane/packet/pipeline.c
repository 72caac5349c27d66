// SPDX-License-Identifier: BSD-3-Clause
#include "pipeline.h"

#include "affinity.h"
#include "burst.h"
#include "flow_expire.h"
#include "fragment.h"
#include "fragment_output.h"
#include "lookup.h"
#include "move_flow.h"
#include "new_flow.h"
#include "probes.h"
#include "shared_limit.h"
#include "slow_path.h"

// Number of packets to prefetch ahead of the packet being parsed. More prefetches than the CPU has
// buffers for cache misses would stall the CPU.
#define AHEAD 6u

// A local version, because rte_prefetch0_write is experimental in DPDK 22.11.
static __rte_always_inline void prefetch_write(const void *line) {
	__builtin_prefetch(line, 1, 3);
}

// --- counters -------------------------------------------------------------------------------

static void publish(struct weir_pipeline *pipeline) {
	struct weir_worker_counters *counters =
		&pipeline->segment->worker_counters[pipeline->worker];
	struct weir_pending *pending = &pipeline->pending;

#define X(field, unit, metric, text) weir_counter_add(&counters->field, pending->field);
	WEIR_PIPELINE_COUNTERS(X)
#undef X
	if (unlikely(pending->dropped > 0)) {
		for (unsigned int i = 0; i < WEIR_DROP_REASON_COUNT; i++) {
			weir_counter_add(&counters->drops[i], pending->drops[i]);
			pending->drops[i] = 0;
		}
	}
	memset(pending, 0, offsetof(struct weir_pending, drops));
}

// Adopt published changes. If the services have changed, or a service has no UDP flows any more,
// check whether UDP flows still belong to their services. If the drain of a removed bind has ended,
// check TCP flows, too.
static inline void adopt_changes(struct weir_pipeline *pipeline, uint64_t now_ns) {
	const struct weir_services_view *services = weir_reader_services(&pipeline->reader);

	weir_reader_update(&pipeline->reader);
	if (unlikely(services->generation != pipeline->services_checked ||
		     pipeline->reader.udp_ended)) {
		pipeline->services_checked = services->generation;
		pipeline->reader.udp_ended = false;
		weir_flow_recheck(pipeline->flows, services->ended, now_ns);
	}
}

// --- stage: parse ---------------------------------------------------------------------------

// ipv6: the packet is probably IPv6, with a TCP header that ends in the second cache line.
static __rte_always_inline void prefetch_packet(const struct rte_mbuf *m, bool ipv6) {
	const uint8_t *frame = rte_pktmbuf_mtod(m, const uint8_t *);

	rte_prefetch0(frame);
	prefetch_write(frame - 1); // the cache line in which the outer header will begin
	if (ipv6) {
		rte_prefetch0(frame + 64);
	}
}

// Prefetch the first packets of the burst. ipv6: the packets are probably IPv6.
static __rte_always_inline void prefetch_first(struct rte_mbuf **pkts, size_t packets, bool ipv6) {
	for (size_t i = 0; i < RTE_MIN(packets, AHEAD); i++) {
		prefetch_packet(pkts[i], ipv6);
	}
}

// The loops below copy data of the pipeline to local variables if they need it several times.
// Otherwise the compiler would load it again for each packet, because it must assume that a store
// to a packet may change the pipeline. Data that is used only once is read as a memory operand of
// an instruction, which needs no register. Each loop is a separate function, so that it can use all
// registers.

// Parse a packet of the slow path. The packet gets a descriptor, and its bit in b->described is
// set.
static __rte_noinline void parse_slow(struct weir_burst *b, unsigned int i) {
	struct weir_pipeline *pipeline = b->pipeline;
	struct weir_descriptor *d = &pipeline->descriptors[i];
	struct rte_mbuf *m = b->pkts[i];

	if (m->nb_segs > 1) {
		weir_parse_gather(m);
	}
	weir_parse_slow(m, pipeline->hash_keys.seed, d);
	if (m->data_len >= WEIR_ETHERNET_BYTES &&
		!weir_parse_mac_ours(&b->mac, rte_pktmbuf_mtod(m, const uint8_t *))) {
		weir_parse_other_mac(rte_pktmbuf_mtod(m, const uint8_t *), d);
	}
	pipeline->summaries[i] = (struct weir_summary){.backend = WEIR_BACKEND_NONE};
	if (unlikely(d->kind >= WEIR_PACKET_FRAGMENT_FIRST)) {
		weir_fragment_note(b, i);
	}
	if (d->kind != WEIR_PACKET_FLOW && d->kind != WEIR_PACKET_FRAGMENT) {
		b->others[b->other_count++] = (uint8_t)i;
	}
	b->described |= UINT64_C(1) << i;
}

// Returns the hash from which the buckets of a summary's flow are computed. m: the packet, if
// packets carry the part of their flow; NULL if the part is computed from the hash. In each
// inlined call, family is a constant, and m is either always NULL or never NULL.
static __rte_always_inline uint64_t bucket_hash(const struct weir_flow_secret *secret,
	const struct weir_summary *s, const struct rte_mbuf *m, unsigned int family) {
	uint64_t hash = family == 4 ? s->hash : weir_flow_bucket_hash6(secret, s->ip + 8, s->hash);

	return m == NULL ? hash
			 : weir_flow_bucket_hash_in_part(secret, hash, weir_burst_part_of(m));
}

// Find the primary bucket of a summary's flow and prefetch the bucket. family: a constant; flows:
// the flows of this family. m: the packet if it carries the part of the flow, otherwise NULL.
static __rte_always_inline void place(const struct weir_flow_secret *secret,
	const struct weir_flow_family *flows, struct weir_summary *s, const struct rte_mbuf *m,
	unsigned int family) {
	const size_t line = sizeof(struct weir_flow_bucket4);
	uint64_t hash = bucket_hash(secret, s, m, family);

	_Static_assert(sizeof(struct weir_flow_bucket4) == sizeof(struct weir_flow_bucket6),
		"the buckets of both families must have the same size");
	s->bucket = (uint8_t *)flows->buckets +
		    line * weir_flow_bucket_from(flows->bucket_count, hash, secret->first);
	weir_flow_fetch(s->bucket);
	if (unlikely(s->event == WEIR_FLOW_EVENT_SYN)) {
		// The barrier makes the compiler load the values again. Otherwise the values would
		// occupy registers for all packets.
		rte_compiler_barrier();
		weir_flow_fetch((uint8_t *)flows->buckets +
				line * weir_flow_second_bucket(secret, flows, hash));
	}
}

// Parse the burst up to the first packet that is not a TCP packet of this family on the fast path.
// Returns the index of that packet. family and marked are compile-time constants; marked: packets
// carry the part of their flow.
static __rte_always_inline unsigned int parse_tcp(
	struct weir_burst *b, unsigned int family, bool marked) {
	struct weir_pipeline *pipeline = b->pipeline;
	const struct weir_flow_family *flows =
		family == 4 ? &pipeline->flows->family4 : &pipeline->flows->family6;
	const struct weir_flow_secret *const secret = &pipeline->flows->secret;
	const struct weir_hash_keys *const keys = &pipeline->hash_keys;
	const struct weir_parse_mac mac = b->mac;
	struct rte_mbuf **const pkts = b->pkts, **const end = pkts + b->packets;
	struct rte_mbuf **const near_end = pkts + b->packets - RTE_MIN(b->packets, AHEAD);
	struct rte_mbuf **pkt;
	struct weir_summary *s = pipeline->summaries;
	uint64_t bytes = 0;

	prefetch_first(pkts, b->packets, family == 6);
	for (pkt = pkts; pkt < end; pkt++, s++) {
		const struct rte_mbuf *m = *pkt;
		const uint8_t *ip;
		uint32_t readable;

		if (likely(pkt < near_end)) {
			prefetch_packet(pkt[AHEAD], family == 6);
		}
		bytes += m->pkt_len;
		if (unlikely(!weir_parse_fast_frame(m, family, &ip, &readable)) ||
			unlikely(!weir_parse_mac_ours(&mac, ip - WEIR_ETHERNET_BYTES)) ||
			unlikely(!weir_parse_fast_head(ip, family, WEIR_PROTOCOL_TCP)) ||
			unlikely(!(family == 4 ? weir_parse_fast_tcp4(ip, readable, keys, s)
					       : weir_parse_fast_tcp6(ip, readable, keys, s)))) {
			bytes -= m->pkt_len;
			break;
		}
		place(secret, flows, s, marked ? m : NULL, family);
	}
	pipeline->pending.rx_bytes += bytes;
	return (unsigned int)(pkt - pkts);
}

static __rte_noinline unsigned int parse_tcp4(struct weir_burst *b) {
	return parse_tcp(b, 4, false);
}

static __rte_noinline unsigned int parse_tcp6(struct weir_burst *b) {
	return parse_tcp(b, 6, false);
}

static __rte_noinline unsigned int parse_marked_tcp4(struct weir_burst *b) {
	return parse_tcp(b, 4, true);
}

static __rte_noinline unsigned int parse_marked_tcp6(struct weir_burst *b) {
	return parse_tcp(b, 6, true);
}

// Parse the remaining packets of a burst, of any kind. marked: packets carry the part of their
// flow.
static __rte_always_inline void parse_any(
	struct weir_burst *b, unsigned int first, const bool marked) {
	struct weir_pipeline *pipeline = b->pipeline;
	const struct weir_flow_table *const flows = pipeline->flows;
	const struct weir_flow_secret *const secret = &flows->secret;
	const struct weir_hash_keys *const keys = &pipeline->hash_keys;
	struct rte_mbuf **const end = b->pkts + b->packets;
	struct rte_mbuf **const near_end = end - RTE_MIN(b->packets, AHEAD);
	const bool ipv6 = pipeline->ipv6;
	struct weir_summary *s = pipeline->summaries + first;
	uint64_t bytes = 0;

	for (struct rte_mbuf **pkt = b->pkts + first; pkt < end; pkt++, s++) {
		const struct rte_mbuf *m = *pkt;
		const uint8_t *ip;
		uint32_t readable;

		if (likely(pkt < near_end)) {
			prefetch_packet(pkt[AHEAD], ipv6);
		}
		bytes += m->pkt_len;
		if (unlikely(!weir_parse_fast_frame(m, 4, &ip, &readable)) ||
			unlikely(!weir_parse_mac_ours(&b->mac, ip - WEIR_ETHERNET_BYTES)) ||
			unlikely(!weir_parse_fast_packet(ip, readable, keys, s))) {
			parse_slow(b, (unsigned int)(pkt - b->pkts));
		} else if (likely(s->family == 4)) {
			place(secret, &flows->family4, s, marked ? m : NULL, 4);
		} else {
			place(secret, &flows->family6, s, marked ? m : NULL, 6);
		}
	}
	pipeline->pending.rx_bytes += bytes;
}

static __rte_noinline void parse_mixed(struct weir_burst *b, unsigned int first) {
	parse_any(b, first, false);
}

static __rte_noinline void parse_marked(struct weir_burst *b, unsigned int first) {
	parse_any(b, first, true);
}

// Parses a burst. Most bursts have packets of only one kind, TCP in IPv4 or in IPv6, and the next
// burst usually has the same kind. Therefore a fast loop for the expected kind runs first, up to
// the first packet of another kind.
static void stage_parse(struct weir_burst *b) {
	struct weir_pipeline *pipeline = b->pipeline;
	unsigned int parsed;

	if (unlikely(pipeline->by_rss)) {
		parsed = pipeline->ipv6 ? parse_marked_tcp6(b) : parse_marked_tcp4(b);
	} else {
		parsed = pipeline->ipv6 ? parse_tcp6(b) : parse_tcp4(b);
	}
	if (unlikely(parsed < b->packets)) {
		pipeline->by_rss ? parse_marked(b, parsed) : parse_mixed(b, parsed);
		pipeline->ipv6 = pipeline->summaries[0].family == 6;
	}
	pipeline->pending.rx_packets += b->packets;
}

// --- stage: flow lookup ---------------------------------------------------------------------

// Returns the word of a summary's flow in s->bucket, or NULL if the bucket does not contain the
// flow.
static __rte_always_inline uint32_t *find(
	const struct weir_flow_table *table, const struct weir_summary *s) {
	return likely(s->family == 4) ? weir_flow_find4(s->bucket, s->ip)
				      : weir_flow_find6(table, s->bucket, s->ip);
}

// Sets s->bucket to the secondary bucket of the flow and prefetches the bucket. m: the packet if
// it carries the part of its flow, otherwise NULL.
static __rte_always_inline void to_second(
	const struct weir_flow_table *table, struct weir_summary *s, const struct rte_mbuf *m) {
	const struct weir_flow_secret *secret = &table->secret;

	if (likely(s->family == 4)) {
		s->bucket =
			weir_flow_bucket4_at(table, weir_flow_second_bucket(secret, &table->family4,
							    bucket_hash(secret, s, m, 4)));
	} else {
		s->bucket =
			weir_flow_bucket6_at(table, weir_flow_second_bucket(secret, &table->family6,
							    bucket_hash(secret, s, m, 6)));
	}
	weir_flow_fetch(s->bucket);
}

// Prefetch the secondary bucket for stage_lookup_second when the flow is not in its primary bucket.
static __rte_noinline void defer_to_second(
	const struct weir_flow_table *table, struct weir_summary *s) {
	to_second(table, s, NULL);
}

// Same as defer_to_second, for packets that carry the part of their flow.
static __rte_noinline void defer_marked_to_second(
	const struct weir_flow_table *table, struct weir_summary *s, const struct rte_mbuf *m) {
	to_second(table, s, m);
}

// Returns true if a packet without a summary belongs to a flow.
static __rte_noinline bool is_described_flow(const struct weir_pipeline *pipeline, unsigned int i) {
	return pipeline->descriptors[i].kind == WEIR_PACKET_FLOW;
}

// Looks up the flows of a burst in their primary buckets. marked: packets carry the part of their
// flow.
static __rte_always_inline void look_up(struct weir_burst *b, const bool marked) {
	struct weir_pipeline *pipeline = b->pipeline;
	const struct weir_flow_table *table = pipeline->flows;
	struct weir_share_counters *const counters = pipeline->backend_counters;
	const struct weir_outer *const outers = pipeline->outers;
	struct weir_summary *s = pipeline->summaries;
	const unsigned int packets = b->packets;
	unsigned int misses = 0;

	for (unsigned int i = 0; i < packets; i++, s++) {
		uint32_t *word;
		uint32_t backend;

		// Most SYNs start flows. Both their buckets have been prefetched and are searched
		// later. The event of a packet without a summary is also 0, so this packet takes
		// the same branch.
		_Static_assert(WEIR_FLOW_EVENT_SYN == 0,
			"SYN must be 0, like the event of a packet without a summary");
		if (unlikely(s->event == WEIR_FLOW_EVENT_SYN)) {
			s->backend = WEIR_BACKEND_NONE;
			b->misses[misses] = (uint8_t)i;
			misses += likely(s->family != 0) || is_described_flow(pipeline, i);
			continue;
		}
		word = find(table, s);
		if (unlikely(word == NULL) || unlikely(!weir_flow_refresh(table, word,
						      (enum weir_flow_event)s->event, &backend))) {
			s->backend = WEIR_BACKEND_NONE;
			b->misses[misses++] = (uint8_t)i;
			if (marked) {
				defer_marked_to_second(table, s, b->pkts[i]);
			} else {
				defer_to_second(table, s);
			}
			continue;
		}
		s->backend = (uint16_t)backend;
		__builtin_prefetch(&outers[backend], 0, 3);
		__builtin_prefetch(&counters[backend], 1, 3);
	}
	b->miss_count = (uint8_t)misses;
}

static __rte_noinline void stage_lookup(struct weir_burst *b) {
	look_up(b, false);
}

static __rte_noinline void stage_lookup_marked(struct weir_burst *b) {
	look_up(b, true);
}

// weir_lookup_slow, with a shortcut for the most frequent case: packets whose flow is not in the
// table.
static inline bool is_known(struct weir_burst *b, unsigned int i) {
	const struct weir_descriptor *d = &b->pipeline->descriptors[i];
	uint32_t unused[2];
	weir_flow_ref flow;

	return unlikely(!weir_flow_absent(
		       b->pipeline->flows, &d->key, weir_burst_table_hash(b, d, i), unused)) &&
	       weir_lookup_slow(b, i, &flow);
}

// Look up the packets that stage_lookup did not complete: first in the secondary bucket, then,
// for packets that change the state of their flow, with the slow lookup. SYNs, packets whose flow
// is not in the table, and the packets after them that need the slow lookup are left for
// weir_new_flow_process.
static __rte_noinline void stage_lookup_second(struct weir_burst *b) {
	struct weir_pipeline *pipeline = b->pipeline;
	struct weir_descriptor *const descriptors = pipeline->descriptors;
	struct weir_summary *const summaries = pipeline->summaries;
	const struct weir_flow_table *table = pipeline->flows;
	const unsigned int count = b->miss_count;
	unsigned int misses = 0;
	uint64_t described = b->described;

	for (unsigned int k = 0; k < count; k++) {
		unsigned int i = b->misses[k];
		struct weir_descriptor *d = &descriptors[i];
		struct weir_summary *s = &summaries[i];

		if (unlikely(s->event != WEIR_FLOW_EVENT_SYN)) {
			uint32_t *word = find(table, s);
			uint32_t backend;

			if (word != NULL && likely(weir_flow_refresh(table, word,
						    (enum weir_flow_event)s->event, &backend))) {
				s->backend = (uint16_t)backend;
				weir_burst_prefetch_backend(pipeline, backend);
				continue;
			}
		}
		if (likely(s->family != 0)) {
			weir_parse_describe(b->pkts[i], s, d);
			weir_descriptor_undecided(d);
			described |= UINT64_C(1) << i;
		}
		// After a packet that is left for weir_new_flow_process, leave all packets, because
		// later packets may belong to the flow of that packet.
		if (likely(d->event == WEIR_FLOW_EVENT_SYN) || misses > 0 || !is_known(b, i)) {
			b->misses[misses++] = (uint8_t)i;
		}
	}
	b->described = described;
	b->miss_count = (uint8_t)misses;
}

// --- stage: rewrite -------------------------------------------------------------------------

// Rewrite a packet that has no summary, that does not fit the MTU of the path to its backend, or
// whose backend cannot be used.
static __rte_noinline void rewrite_slow(struct weir_burst *b, unsigned int i) {
	struct weir_descriptor *d = &b->pipeline->descriptors[i];
	const struct weir_summary *s = &b->pipeline->summaries[i];

	if ((b->described >> i & 1) == 0) {
		weir_parse_describe(b->pkts[i], s, d);
		weir_descriptor_decide(d, s->backend);
	}
	if (s->backend != WEIR_BACKEND_NONE) {
		d->verdict.backend = s->backend;
	}
	weir_slow_path_rewrite(b, i);
	weir_burst_report(b, i);
}

static __rte_noinline void stage_rewrite(struct weir_burst *b) {
	struct weir_pipeline *pipeline = b->pipeline;
	const struct weir_outer *const outers = pipeline->outers;
	const struct weir_summary *s = pipeline->summaries;
	struct weir_verdict *const verdicts = b->verdicts;
	struct rte_mbuf **const pkts = b->pkts;
	const size_t packets = b->packets;
	size_t left = 0; // packets that are not forwarded here

	for (size_t i = 0; i < packets; i++, s++) {
		uint32_t backend = s->backend;
		uint32_t bytes = s->ip_bytes;
		const struct weir_outer *outer;

		if (unlikely(backend == WEIR_BACKEND_NONE)) {
			left++;
			continue;
		}
		outer = &outers[backend];
		if (unlikely(bytes > outer->inner_max)) {
			rewrite_slow(b, (unsigned int)i);
			left++;
			continue;
		}
		weir_outer_push(pkts[i], s, outer);
		verdicts[i] = outer->verdict;
		weir_burst_count(&pipeline->backend_counters[backend], bytes);
		weir_burst_count(&pipeline->service_counters[outer->verdict.service], bytes);
	}
	pipeline->pending.forwarded += packets - left;
}

// Correct the verdicts of packets with a descriptor: store how the backend was chosen, because
// stage_rewrite has copied the verdict for a known flow. Then rewrite the packets without a
// summary.
static __rte_noinline void stage_rewrite_rest(struct weir_burst *b) {
	const struct weir_descriptor *d = b->pipeline->descriptors;

	for (uint64_t left = b->described; left != 0; left &= left - 1) {
		unsigned int i = (unsigned int)__builtin_ctzll(left);

		b->verdicts[i].choice = d[i].verdict.choice;
	}
	for (unsigned int k = 0; k < b->forward_count; k++) {
		rewrite_slow(b, b->forwards[k]);
	}
}

// --- a burst --------------------------------------------------------------------------------

void weir_pipeline_process(struct weir_pipeline *pipeline, struct rte_mbuf **pkts, uint16_t n,
	uint8_t in_port, uint64_t now_ns, struct weir_verdict *verdicts) {
	struct weir_burst b;

	b.pipeline = pipeline;
	b.pkts = pkts;
	b.packets = RTE_MIN(n, (uint16_t)WEIR_BURST);
	b.in_port = in_port;
	b.mac = pipeline->macs[in_port];
	b.verdicts = verdicts;
	b.now_ns = now_ns;
	b.described = 0;
	b.other_count = 0;
	b.miss_count = 0;
	b.forward_count = 0;
	b.fragment_count = 0;
	if (unlikely(pipeline->extra.count > 0)) {
		weir_fragment_discard(pipeline);
	}
	pipeline->now_ns = now_ns;
	weir_flow_stamp(pipeline->flows, now_ns);
	adopt_changes(pipeline, now_ns);
	b.services = weir_reader_services(&pipeline->reader);
	weir_trace_begin(pipeline->trace);
	stage_parse(&b);
	weir_trace_end(pipeline->trace, WEIR_STAGE_PARSE);
	likely(!pipeline->by_rss) ? stage_lookup(&b) : stage_lookup_marked(&b);
	if (b.miss_count > 0) {
		stage_lookup_second(&b);
	}
	pipeline->pending.flow_hits += b.packets - b.other_count - b.miss_count;
	weir_trace_end(pipeline->trace, WEIR_STAGE_LOOKUP);
	if (unlikely(b.other_count > 0)) {
		weir_slow_path_others(&b);
	}
	weir_trace_end(pipeline->trace, WEIR_STAGE_OTHERS);
	for (unsigned int at = 0; at < b.miss_count;) {
		weir_flow_ref known;

		at = weir_new_flow_process(&b, at, &known);
		if (unlikely(known >= 0)) {
			weir_move_syn(&b, b.misses[at - 1], known);
		}
	}
	weir_trace_end(pipeline->trace, WEIR_STAGE_BEGIN);
	stage_rewrite(&b);
	if (b.described != 0) {
		stage_rewrite_rest(&b);
		if (unlikely(b.fragment_count > 0)) {
			weir_fragment_finish(&b);
		}
	}
	weir_trace_end(pipeline->trace, WEIR_STAGE_REWRITE);
}

void weir_pipeline_process_offered(struct weir_pipeline *pipeline, struct rte_mbuf **pkts,
	uint16_t n, uint8_t in_port, uint64_t now_ns, struct weir_verdict *verdicts) {
	pipeline->offered = true;
	weir_pipeline_process(pipeline, pkts, n, in_port, now_ns, verdicts);
	pipeline->offered = false;
}

void weir_pipeline_online(struct weir_pipeline *pipeline) {
	weir_reader_online(&pipeline->reader);
}

void weir_pipeline_offline(struct weir_pipeline *pipeline) {
	weir_reader_offline(&pipeline->reader);
}

void weir_pipeline_quiescent(struct weir_pipeline *pipeline) {
	weir_reader_quiescent(&pipeline->reader);
}

void weir_pipeline_settle(struct weir_pipeline *pipeline) {
	weir_reader_settle(&pipeline->reader);
}

void weir_pipeline_trace(struct weir_pipeline *pipeline, struct weir_trace *trace) {
	pipeline->trace = trace;
}

// Subtracts a packet from the counters, which never become negative. The pieces of a split outer
// packet have more headers than the packet, so they can have more bytes than were counted.
static void subtract(struct weir_share_counters *counters, uint32_t bytes) {
	weir_counter_add(&counters->packets, -RTE_MIN(counters->packets, UINT64_C(1)));
	weir_counter_add(&counters->bytes, -RTE_MIN(counters->bytes, (uint64_t)bytes));
}

// Returns the length of a forwarded packet without the headers that Weir has put in front of it.
// Padding, which only a frame without an outer IP header can have, is not included.
static uint32_t forwarded_bytes(const struct weir_row_head *head, const struct rte_mbuf *m) {
	const uint8_t *ip = rte_pktmbuf_mtod_offset(m, const uint8_t *, head->header_bytes);
	uint32_t bytes = m->pkt_len - RTE_MIN(m->pkt_len, (uint32_t)head->header_bytes);

	if (head->outer_family == 0 && m->pkt_len == WEIR_FRAME_BYTES_MIN && ip[0] >> 4 == 4) {
		return RTE_MIN(bytes, (uint32_t)rte_be_to_cpu_16(weir_load16(ip + 2)));
	}
	return bytes;
}

static void subtract_forwarded(struct weir_pipeline *pipeline, const struct rte_mbuf *m,
	const struct weir_verdict *verdict) {
	uint32_t bytes = forwarded_bytes(&pipeline->outers[verdict->backend].head, m);

	pipeline->pending.forwarded--;
	subtract(weir_burst_backend_counters(pipeline, verdict->backend), bytes);
	subtract(weir_burst_service_counters(pipeline, verdict->service), bytes);
}

__rte_noinline void weir_pipeline_undelivered(struct weir_pipeline *pipeline,
	const struct rte_mbuf *m, const struct weir_verdict *verdict,
	enum weir_drop_reason reason) {
	switch ((enum weir_action)verdict->action) {
	case WEIR_ACTION_FORWARD:
		subtract_forwarded(pipeline, m, verdict);
		break;
	case WEIR_ACTION_REPLY:
		if (verdict->reason != WEIR_REASON_NONE) {
			return; // already counted as dropped
		}
		pipeline->pending.replied--;
		break;
	case WEIR_ACTION_KERNEL:
		pipeline->pending.to_kernel--;
		break;
	case WEIR_ACTION_OFFER: // not counted yet: the caller counts packets that it hands over
		break;
	case WEIR_ACTION_DROP:
		return;
	}
	WEIR_PROBE_DROP((int)reason,
		verdict->action == WEIR_ACTION_FORWARD || verdict->action == WEIR_ACTION_REPLY
			? verdict->port
			: WEIR_PROBE_NO_PORT,
		verdict->service, rte_pktmbuf_mtod(m, const uint8_t *), m->pkt_len, NULL);
	weir_burst_add_drops(pipeline, verdict, reason, 1);
}

// One worker removes expired sources from a few buckets, about once a second.
static void sweep_sources(struct weir_pipeline *pipeline, uint64_t now_ns) {
	const uint32_t second = (uint32_t)(now_ns >> 30);

	if (pipeline->worker == 0 && pipeline->affinity_second != second) {
		pipeline->affinity_second = second;
		weir_affinity_sweep(pipeline->affinity, now_ns);
	}
}

bool weir_pipeline_maintain(struct weir_pipeline *pipeline, uint64_t now_ns) {
	struct weir_worker_counters *counters =
		&pipeline->segment->worker_counters[pipeline->worker];

	bool more;

	pipeline->now_ns = now_ns;
	adopt_changes(pipeline, now_ns);
	more = weir_flow_sweep(pipeline->flows, now_ns);
	more |= weir_shared_limit_turn(&pipeline->policy, now_ns);
	if (unlikely(pipeline->affinity != NULL)) {
		sweep_sources(pipeline, now_ns);
	}
	publish(pipeline);
	weir_gauge_set(&counters->flows, weir_flow_count(pipeline->flows) + pipeline->leaving);
	weir_gauge_set(&counters->flows_half_open,
		weir_flow_half_open_count(pipeline->flows) + pipeline->leaving_half_open);
	weir_gauge_set(&counters->flow_half_open_evicted, weir_flow_evicted_count(pipeline->flows));
	weir_gauge_set(&counters->flow_idle_evicted, weir_flow_idle_evicted_count(pipeline->flows));
	return more;
}
