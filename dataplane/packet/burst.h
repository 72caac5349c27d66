// SPDX-License-Identifier: BSD-3-Clause
//
// Burst: data shared by the stages of a pipeline, and functions to forward, drop or answer a
// packet, or to pass it to the kernel. Private to the files of packet/.
//
// Threads: a pipeline and its bursts belong to one worker.
#pragma once

#include <rte_branch_prediction.h>
#include <rte_prefetch.h>

#include "descriptor.h"
#include "encap.h"
#include "flow_bucket.h"
#include "flow_table.h"
#include "fragment_split.h"
#include "fragment_table.h"
#include "icmp.h"
#include "outer.h"
#include "parse.h"
#include "reader.h"
#include "rss_hash.h"
#include "segment.h"
#include "selection.h"
#include "service_table.h"
#include "trace.h"

// Counts of the bursts since the last call to weir_pipeline_maintain. They are not published yet.
struct weir_pending {
#define X(field, unit, metric, text) uint64_t field;
	WEIR_PIPELINE_COUNTERS(X)
#undef X
	uint64_t drops[WEIR_DROP_REASON_COUNT];
};

// A fragment of the burst.
struct weir_fragment {
	uint32_t id; // identification of the datagram, as in the packet
	struct weir_fragment_part part;
	uint8_t packet; // index into the burst
	bool first;
};

// Packets that the burst made in addition to its input (fragment_output.h).
struct weir_extra {
	uint16_t count;
	struct rte_mbuf *pkts[WEIR_PIECES_MAX];
	struct weir_verdict verdicts[WEIR_PIECES_MAX];
};

struct weir_pipeline {
	struct weir_summary summaries[WEIR_BURST];
	struct weir_descriptor descriptors[WEIR_BURST];
	const struct weir_segment *segment;
	struct weir_flow_table *flows;
	struct weir_hash_keys hash_keys;
	uint32_t worker;
	uint32_t ports;
	uint32_t max_services;
	uint32_t max_backends;
	struct weir_reader reader;
	struct weir_icmp_limit echo_limit; // limit of echo replies
	struct weir_icmp_limit too_big_limit;
	struct weir_icmp_limit reset_limit; // limit of RSTs for backends that are down
	struct weir_icmp_limit challenge_limit; // limit of challenge ACKs
	struct weir_icmp_limit
		unreachable_limit; // limit of "port unreachable" and RSTs to closed ports
	struct weir_pending pending;
	// [max_backends] by backend: service for which the backend's flows were counted
	uint16_t *owner;
	uint64_t now_ns; // time of the current call
	// Number of workers that may have a flow, including this worker (offer.h). 0 = no packet is
	// offered.
	uint32_t offer_workers;
	bool offered; // another worker has offered the packets of this burst
	bool ipv6; // the next burst is probably IPv6
	bool by_rss; // packets carry the part of their flow, computed from an RSS hash
	struct weir_share_counters *service_counters; // counters of this worker, in the segment
	struct weir_share_counters *backend_counters;
	struct weir_outer *outers; // [max_backends] outer headers to push, copied from the rows
	struct weir_trace *trace; // NULL = none
	struct weir_policy_worker policy;
	struct weir_policy_client *clients; // [max_services]
	uint64_t *adopted; // [max_services] generation of the selection that clients[] uses
	uint64_t services_checked; // generation of the services at the last check of flows
	struct weir_parse_mac macs[WEIR_PORTS_MAX]; // MAC addresses that each port accepts
	struct weir_extra extra;
	struct weir_icmp_limit offer_limit;
	uint32_t outer_id; // identification of the next outer packet that is fragmented
	// Released flows that the gauges still include (pipeline_parts.h).
	uint32_t leaving, leaving_half_open;
	struct weir_fragment_table *fragments; // NULL = disabled: fragments are dropped
	struct weir_fragment fragment[WEIR_BURST]; // fragments of the burst
	struct weir_rss_key rss; // RSS key, if by_rss
	struct weir_affinity *affinity; // shared by all workers, borrowed; NULL = none
	// Descriptor of the packet that is changing the state of its flow; NULL = none
	const struct weir_descriptor *advancing;
	uint32_t affinity_second; // second of the last sweep of `affinity`
};

// One call of weir_pipeline_process. Lists hold indexes into the burst.
struct weir_burst {
	struct weir_pipeline *pipeline;
	struct rte_mbuf **pkts;
	uint64_t now_ns;
	const struct weir_services_view *services;
	struct weir_verdict *verdicts; // array of the caller
	struct weir_parse_mac mac; // MAC addresses of in_port
	uint64_t described; // one bit per packet that has a descriptor
	uint16_t packets;
	uint8_t in_port;
	uint8_t other_count;
	uint8_t miss_count;
	uint8_t forward_count;
	uint8_t fragment_count;
	uint8_t others[WEIR_BURST]; // packets that are neither valid TCP nor valid UDP
	uint8_t misses[WEIR_BURST]; // packets that the fast lookup did not complete
	uint8_t forwards[WEIR_BURST]; // packets without a summary whose backend is chosen
};

// --- counters -------------------------------------------------------------------------------

static inline struct weir_share_counters *weir_burst_service_counters(
	const struct weir_pipeline *pipeline, uint32_t service) {
	return &pipeline->service_counters[service];
}

static inline struct weir_share_counters *weir_burst_backend_counters(
	const struct weir_pipeline *pipeline, uint32_t backend) {
	return &pipeline->backend_counters[backend];
}

// Counters of services and backends are not summed per burst: an addition per packet costs less
// than grouping the packets of a burst.
static __rte_always_inline void weir_burst_count(
	struct weir_share_counters *counters, uint32_t bytes) {
	weir_counter_add(&counters->packets, 1);
	weir_counter_add(&counters->bytes, bytes);
}

// --- parts of flows -------------------------------------------------------------------------

// Returns the part of the flow, which the distributor has stored in the packet
// (weir_distributor_mark).
static inline uint32_t weir_burst_part_of(const struct rte_mbuf *m) {
	return m->hash.usr;
}

// Slow path of weir_burst_table_hash.
uint64_t weir_burst_marked_hash(const struct weir_burst *b, unsigned int i);

// Returns the hash to look up the flow of packet i in the flow table. d: descriptor of packet i.
static inline uint64_t weir_burst_table_hash(
	const struct weir_burst *b, const struct weir_descriptor *d, unsigned int i) {
	return likely(!b->pipeline->by_rss) ? d->hash : weir_burst_marked_hash(b, i);
}

// Returns the hash to look up a key in the flow table if there is no packet. hash: hash of the key.
uint64_t weir_burst_key_hash(
	const struct weir_pipeline *pipeline, const struct weir_flow_key *key, uint64_t hash);

// --- tables ---------------------------------------------------------------------------------

// Returns the service that accepts new flows to the destination of a key, or WEIR_SERVICE_NONE.
static inline uint16_t weir_burst_service(
	const struct weir_burst *b, const struct weir_flow_key *key) {
	uint16_t service = weir_service_lookup(b->services, key->destination, key->family,
		key->protocol, rte_be_to_cpu_16(key->destination_port));

	return service < b->pipeline->max_services ? service : WEIR_SERVICE_NONE;
}

// Returns the service of an existing flow, even if the bind accepts no new flows.
static inline uint16_t weir_burst_existing_service(
	const struct weir_burst *b, const struct weir_flow_key *key) {
	uint16_t service = weir_bind_existing(weir_service_lookup(b->services, key->destination,
		key->family, key->protocol, rte_be_to_cpu_16(key->destination_port)));

	return service < b->pipeline->max_services ? service : WEIR_SERVICE_NONE;
}

// Returns whether the service chooses a backend for each UDP datagram, and therefore has no UDP
// flows. False for WEIR_SERVICE_NONE.
static inline bool weir_burst_by_datagram(const struct weir_pipeline *pipeline, uint16_t service) {
	const struct weir_reader *reader = &pipeline->reader;

	return service < pipeline->max_services &&
	       weir_policy_by_datagram(&reader->selection[service].table.settings);
}

// Returns whether a flow belongs to the service of its backend. False for a UDP flow if its address
// and port were assigned to another service or to none, if the service no longer has UDP flows, or
// if the backend was removed. False for a TCP flow if its bind was removed and the drain of the
// bind has ended. Before any service is published, returns true for all flows.
static inline bool weir_burst_belongs(const struct weir_pipeline *pipeline,
	const struct weir_services_view *services, const struct weir_flow_key *key,
	uint16_t backend) {
	const struct weir_row_head *head = &pipeline->outers[backend].head;
	uint16_t bind;

	if (services->buckets == NULL) {
		return true;
	}
	bind = weir_service_lookup(services, key->destination, key->family, key->protocol,
		rte_be_to_cpu_16(key->destination_port));
	return key->protocol == WEIR_PROTOCOL_TCP
		       ? !weir_bind_is_over(bind, head->service)
		       : (head->flags & WEIR_BACKEND_PRESENT) != 0 &&
				 weir_bind_existing(bind) == head->service &&
				 !weir_burst_by_datagram(pipeline, head->service);
}

// Searches for an open backend in at most WEIR_POLICY_WINDOW slots, beginning with the slot of the
// hash. Returns this backend, or `closed` if no searched slot has an open backend.
uint16_t weir_burst_skip_closed(const struct weir_pipeline *pipeline,
	const struct weir_selection_view *view, uint64_t hash, uint16_t closed);

// Slow path of weir_burst_choice_hash.
uint64_t weir_burst_fields_hash(const struct weir_pipeline *pipeline,
	const struct weir_policy_settings *settings, const struct weir_flow_key *key);

// Returns the hash from which a backend is chosen for a flow. The hash covers the fields that the
// service hashes (hash4). hash: hash of the key.
static inline uint64_t weir_burst_choice_hash(const struct weir_pipeline *pipeline,
	const struct weir_selection_view *view, const struct weir_flow_key *key, uint64_t hash) {
	const struct weir_policy_settings *settings = &view->table.settings;

	return likely(settings->hash4 == 0) ? hash
					    : weir_burst_fields_hash(pipeline, settings, key);
}

// Returns the backend of the Maglev fallback: the backend in the table of the selection, regardless
// of the policy, or WEIR_BACKEND_NONE. Backends that were closed after the table was built are
// skipped. hash: result of weir_burst_choice_hash.
static inline uint16_t weir_burst_fallback(const struct weir_pipeline *pipeline,
	const struct weir_selection_view *view, uint64_t hash) {
	uint16_t backend = weir_selection_choose(view, hash);

	if (unlikely(backend >= pipeline->max_backends)) {
		return WEIR_BACKEND_NONE;
	}
	if (unlikely(pipeline->policy.closed > 0 &&
		     pipeline->policy.backends[backend].closed != 0)) {
		return weir_burst_skip_closed(pipeline, view, hash, backend);
	}
	return backend;
}

// Mark packet i: the rewrite stage forwards the packet to the backend in its verdict.
static inline void weir_burst_forward(struct weir_burst *b, unsigned int i) {
	struct weir_summary *s = &b->pipeline->summaries[i];

	if (likely(s->family != 0)) {
		s->backend = b->pipeline->descriptors[i].verdict.backend;
	} else {
		b->forwards[b->forward_count++] = (uint8_t)i;
	}
}

// Undo weir_burst_forward for packet i, and report its verdict, which the caller has changed. The
// last call of weir_burst_forward must have been for packet i.
void weir_burst_cancel_forward(struct weir_burst *b, unsigned int i);

// Prefetch data of the backend for the rewrite stage.
static __rte_always_inline void weir_burst_prefetch_backend(
	const struct weir_pipeline *pipeline, uint32_t backend) {
	rte_prefetch0(&pipeline->outers[backend]);
	__builtin_prefetch(&pipeline->backend_counters[backend], 1, 3); // 1 = for a write
}

// --- verdicts -------------------------------------------------------------------------------

// Copies the verdict of packet i to the array of the caller. Not needed for packets that
// stage_rewrite forwards, because stage_rewrite copies their verdicts.
static inline void weir_burst_report(struct weir_burst *b, unsigned int i) {
	b->verdicts[i] = b->pipeline->descriptors[i].verdict;
}

// Count n packets of a verdict as dropped, for the worker, their service and their backend.
void weir_burst_add_drops(struct weir_pipeline *pipeline, const struct weir_verdict *verdict,
	enum weir_drop_reason reason, uint32_t n);
// Count a packet as dropped, and set the reason; the verdict keeps its action.
void weir_burst_count_drop(
	struct weir_burst *b, struct weir_descriptor *d, enum weir_drop_reason reason);

// Set the verdict of a packet to drop, or to the kernel, and count the packet.
void weir_burst_drop(struct weir_burst *b, struct weir_descriptor *d, enum weir_drop_reason reason);
void weir_burst_to_kernel(struct weir_burst *b, struct weir_descriptor *d);

// Returns true if a reply to packet i is allowed. Otherwise drops the packet and returns false;
// the drop reason is `rate` if the limit has no token.
//
// Packets from a VIP get no reply (weir_burst_vip_source). Packets with a group source MAC address
// get no reply either: a reply swaps the MAC addresses, and would go to the whole group. Frames
// with a group destination address were dropped before (RFC 1122, 3.2.2).
bool weir_burst_may_reply(struct weir_burst *b, unsigned int i, struct weir_icmp_limit *limit,
	enum weir_drop_reason rate);

static inline bool weir_burst_is_vip(
	const struct weir_burst *b, const uint8_t address[16], uint8_t family) {
	return b->services->buckets != NULL && weir_service_is_vip(b->services, address, family);
}

// Drops packet i and returns true if its source is a VIP; otherwise returns false. Two services
// that reply to each other would loop forever (CVE-2024-2169).
bool weir_burst_vip_source(struct weir_burst *b, unsigned int i);

// Sets the verdict of a packet that was rewritten into a reply: send on the port that received the
// packet. Takes a token of the rate limit, which the caller has checked.
void weir_burst_reply(
	struct weir_burst *b, struct weir_descriptor *d, struct weir_icmp_limit *limit);
