// SPDX-License-Identifier: BSD-3-Clause
#include "pipeline.h"

#include <errno.h>

#include <rte_malloc.h>
#include <rte_prefetch.h>

#include "burst.h"
#include "hash.h"

// Packets are fetched so many at a time, so many before they are parsed. More at once than the CPU
// has buffers for misses make it wait for memory.
#define AHEAD 4u

// rte_prefetch0_write is experimental in DPDK 22.11.
static __rte_always_inline void prefetch_write(const void *line) {
	__builtin_prefetch(line, 1, 3);
}

// --- counters -------------------------------------------------------------------------------

static void publish(struct weir_pipeline *pipeline) {
	struct weir_worker_counters *counters =
		&pipeline->segment->worker_counters[pipeline->worker];
	struct weir_pending *pending = &pipeline->pending;

	weir_counter_add(&counters->rx_packets, pending->rx_packets);
	weir_counter_add(&counters->rx_bytes, pending->rx_bytes);
	weir_counter_add(&counters->forwarded, pending->forwarded);
	weir_counter_add(&counters->answered, pending->answered);
	weir_counter_add(&counters->to_kernel, pending->to_kernel);
	weir_counter_add(&counters->flow_hits, pending->flow_hits);
	weir_counter_add(&counters->flow_new, pending->flow_new);
	weir_counter_add(&counters->flow_untracked, pending->flow_untracked);
	weir_counter_add(&counters->flow_expired, pending->flow_expired);
	if (unlikely(pending->dropped > 0)) {
		weir_counter_add(&counters->dropped, pending->dropped);
		for (unsigned int i = 0; i < WEIR_DROP_REASON_COUNT; i++) {
			weir_counter_add(&counters->drops[i], pending->drops[i]);
			pending->drops[i] = 0;
		}
	}
	memset(pending, 0, offsetof(struct weir_pending, drops));
}

// --- stage: parse ---------------------------------------------------------------------------

static __rte_always_inline void prefetch_packet(const struct rte_mbuf *m) {
	const uint8_t *frame = rte_pktmbuf_mtod(m, const uint8_t *);

	rte_prefetch0(frame);
	prefetch_write(frame - 1); // the line that the outer header will begin in
}

// Packets first .. first + AHEAD - 1 of the burst. IPv6 and TCP headers end in the second line:
// what the last burst had, this one has.
static __rte_always_inline void prefetch_packets(
	struct rte_mbuf **pkts, unsigned int packets, unsigned int first, bool ipv6) {
	unsigned int end = RTE_MIN(first + AHEAD, packets);

	for (unsigned int i = first; i < end; i++) {
		prefetch_packet(pkts[i]);
	}
	for (unsigned int i = first; ipv6 && i < end; i++) {
		rte_prefetch0(rte_pktmbuf_mtod_offset(pkts[i], const uint8_t *, 64));
	}
}

// In the loops below, what all packets of the burst share is copied to local variables: the
// compiler must take every store to a packet for one to the pipeline.

static void stage_parse(struct weir_burst *b) {
	struct weir_pipeline *pipeline = b->pipeline;
	const struct weir_flow_table *table = pipeline->flows;
	const uint64_t seed = pipeline->hash_seed;
	struct rte_mbuf **const pkts = b->pkts;
	const unsigned int packets = b->packets;
	const bool ipv6_before = pipeline->ipv6_before;
	struct weir_descriptor *d = pipeline->descriptors;
	unsigned int flows = 0, others = 0;
	uint64_t bytes = 0;

	pipeline->ipv6_before = false;
	prefetch_packets(pkts, packets, 0, ipv6_before);
	for (unsigned int i = 0; i < packets; i++, d++) {
		struct rte_mbuf *m = pkts[i];
		unsigned int family;

		if (i % AHEAD == 0) {
			prefetch_packets(pkts, packets, i + AHEAD, ipv6_before);
		}
		family = weir_parse_usual(m, seed, d);
		bytes += m->pkt_len;
		if (likely(family == 4)) {
			weir_flow_prefetch(table, 4, d->hash);
			b->flows[flows++] = (uint8_t)i;
			continue;
		}
		if (likely(family == 6)) {
			weir_flow_prefetch(table, 6, d->hash);
			b->flows[flows++] = (uint8_t)i;
			pipeline->ipv6_before = true;
			continue;
		}
		if (unlikely(m->nb_segs > 1)) {
			weir_parse_gather(m);
		}
		weir_parse_whole(m, seed, d);
		if (d->kind == WEIR_PACKET_FLOW) {
			weir_flow_prefetch(table, d->key.family, d->hash);
			b->flows[flows++] = (uint8_t)i;
		} else {
			b->others[others++] = (uint8_t)i;
		}
	}
	b->flow_count = (uint8_t)flows;
	b->other_count = (uint8_t)others;
	pipeline->pending.rx_packets += packets;
	pipeline->pending.rx_bytes += bytes;
}

// --- stage: flow lookup ---------------------------------------------------------------------

static void stage_lookup(struct weir_burst *b) {
	struct weir_pipeline *pipeline = b->pipeline;
	const struct weir_flow_table *table = pipeline->flows;
	struct weir_flow_bucket4 *const buckets4 = table->part4.buckets;
	struct weir_flow_bucket6 *const buckets6 = table->part6.buckets;
	const uint32_t count4 = table->part4.bucket_count;
	const uint32_t count6 = table->part6.bucket_count;
	struct weir_share_counters *const counters = pipeline->backend_counters;
	const struct weir_outer *const outers = pipeline->outers;
	struct weir_descriptor *const descriptors = pipeline->descriptors;
	unsigned int forwards = 0, misses = 0;
	uint32_t backend;

	for (const uint8_t *next = b->flows, *end = next + b->flow_count; next < end; next++) {
		unsigned int i = *next;
		struct weir_descriptor *d = &descriptors[i];
		uint32_t *word = NULL;

		if (unlikely(d->event == WEIR_FLOW_EVENT_SYN)) {
			// Most of them are new: both places will be looked at with care.
		} else if (likely(d->key.family == 4)) {
			word = weir_flow_find4(
				&buckets4[weir_flow_first_bucket(count4, d->hash)], &d->key);
		} else {
			word = weir_flow_find6(&buckets6[weir_flow_first_bucket(count6, d->hash)],
				&d->key, d->hash);
		}
		if (unlikely(word == NULL) || unlikely(!weir_flow_refresh(table, word,
						      (enum weir_flow_event)d->event, &backend))) {
			weir_flow_prefetch_second(table, d->key.family, d->hash);
			weir_descriptor_decide(d, WEIR_CHOICE_NONE, WEIR_BACKEND_NONE);
			b->misses[misses++] = (uint8_t)i;
			continue;
		}
		d->verdict.choice = WEIR_CHOICE_FLOW; // the rest is in the backend's row
		d->verdict.backend = (uint16_t)backend;
		rte_prefetch0(&outers[backend]);
		prefetch_write(&counters[backend]);
		b->forwards[forwards++] = (uint8_t)i;
	}
	pipeline->pending.flow_hits += forwards;
	b->forward_count = (uint8_t)forwards;
	b->miss_count = (uint8_t)misses;
}

// What the fast look-up left: flows in their second place, or that change their state.
static __rte_noinline void stage_lookup_with_care(struct weir_burst *b) {
	struct weir_pipeline *pipeline = b->pipeline;
	unsigned int misses = 0;

	b->begun = (struct weir_burst_filter){0};
	for (unsigned int k = 0; k < b->miss_count; k++) {
		unsigned int i = b->misses[k];
		struct weir_descriptor *d = &pipeline->descriptors[i];
		weir_flow_ref flow;
		uint16_t backend;

		if (likely(weir_flow_absent(pipeline->flows, &d->key, d->hash))) {
			b->misses[misses++] = (uint8_t)i;
			continue;
		}
		flow = weir_flow_lookup(pipeline->flows, &d->key, d->hash, b->now_ns);
		if (flow < 0) { // an entry that has expired
			weir_burst_filter_add(&b->begun, d->hash);
			b->misses[misses++] = (uint8_t)i;
			continue;
		}
		if (weir_flow_advance(pipeline->flows, flow, (enum weir_flow_event)d->event,
			    b->now_ns)) { // it begins anew
			weir_burst_filter_add(&b->begun, d->hash);
			b->misses[misses++] = (uint8_t)i;
			continue;
		}
		backend = weir_flow_backend(pipeline->flows, flow);
		rte_prefetch0(&pipeline->outers[backend]);
		prefetch_write(weir_burst_backend_counters(pipeline, backend));
		weir_descriptor_decide(d, WEIR_CHOICE_FLOW, backend);
		b->forwards[b->forward_count++] = (uint8_t)i;
		pipeline->pending.flow_hits++;
	}
	b->miss_count = (uint8_t)misses;
}

// --- stage: rewrite -------------------------------------------------------------------------

// Add what a run of packets of one service came to.
static inline void count_service(
	struct weir_pipeline *pipeline, uint32_t service, const struct weir_share_counters *run) {
	struct weir_share_counters *counters = weir_burst_service_counters(pipeline, service);

	weir_counter_add(&counters->packets, run->packets);
	weir_counter_add(&counters->bytes, run->bytes);
}

// A backend table was published since the last packet for this backend.
static __rte_noinline void adopt_outer(const struct weir_burst *b, uint32_t backend) {
	const struct weir_pipeline *pipeline = b->pipeline;

	weir_outer_adopt(&pipeline->outers[backend],
		backend < b->row_count ? &b->rows[backend] : NULL, b->generation, (uint16_t)backend,
		pipeline->ports, pipeline->max_services);
}

static void stage_rewrite(struct weir_burst *b) {
	struct weir_pipeline *pipeline = b->pipeline;
	struct weir_share_counters *const counters = pipeline->backend_counters;
	struct weir_descriptor *const descriptors = pipeline->descriptors;
	const struct weir_outer *const outers = pipeline->outers;
	struct weir_verdict *const verdicts = b->verdicts;
	struct rte_mbuf **const pkts = b->pkts;
	const uint32_t generation = b->generation;
	struct weir_share_counters run = {0}; // of `service`: packets of one service come together
	uint32_t service = 0;
	uint64_t forwarded = 0;

	for (const uint8_t *next = b->forwards, *end = next + b->forward_count; next < end;
		next++) {
		unsigned int i = *next;
		struct weir_descriptor *d = &descriptors[i];
		struct rte_mbuf *m = pkts[i];
		uint32_t backend = d->verdict.backend;
		const struct weir_outer *outer = &outers[backend];
		uint32_t bytes;

		if (unlikely(outer->generation != generation)) {
			adopt_outer(b, backend);
		}
		if (unlikely(weir_outer_unusual(outer, m, d))) {
			weir_descriptor_decide(d, d->verdict.choice, (uint16_t)backend);
			weir_burst_rewrite(b, i);
			weir_burst_tell(b, i);
			continue;
		}
		weir_outer_push(m, d, outer);
		verdicts[i] = outer->verdict;
		verdicts[i].choice = d->verdict.choice;
		bytes = d->ip_bytes;
		weir_counter_add(&counters[backend].packets, 1);
		weir_counter_add(&counters[backend].bytes, bytes);
		if (unlikely(outer->verdict.service != service)) {
			count_service(pipeline, service, &run);
			forwarded += run.packets;
			run = (struct weir_share_counters){0};
			service = outer->verdict.service;
		}
		run.packets++;
		run.bytes += bytes;
	}
	forwarded += run.packets;
	count_service(pipeline, service, &run);
	pipeline->pending.forwarded += forwarded;
}

// --- a burst --------------------------------------------------------------------------------

void weir_pipeline_process(struct weir_pipeline *pipeline, struct rte_mbuf **pkts, uint16_t n,
	uint8_t in_port, uint64_t now_ns, struct weir_verdict *verdicts) {
	struct weir_burst b;

	b.pipeline = pipeline;
	b.pkts = pkts;
	b.packets = RTE_MIN(n, (uint16_t)WEIR_BURST);
	b.in_port = in_port;
	b.verdicts = verdicts;
	b.now_ns = now_ns;
	pipeline->now_ns = now_ns;
	weir_flow_stamp(pipeline->flows, now_ns);
	b.services = weir_reader_services(&pipeline->reader);
	weir_trace_begin(pipeline->trace);
	stage_parse(&b);
	weir_trace_end(pipeline->trace, WEIR_STAGE_PARSE);
	stage_lookup(&b);
	if (b.miss_count > 0) {
		stage_lookup_with_care(&b);
	}
	weir_trace_end(pipeline->trace, WEIR_STAGE_LOOKUP);
	if (unlikely(b.other_count > 0)) {
		weir_burst_others(&b);
	}
	weir_trace_end(pipeline->trace, WEIR_STAGE_OTHERS);
	if (b.miss_count > 0) {
		weir_burst_begin(&b);
	}
	weir_trace_end(pipeline->trace, WEIR_STAGE_BEGIN);
	weir_burst_adopt_backends(&b);
	stage_rewrite(&b);
	weir_trace_end(pipeline->trace, WEIR_STAGE_REWRITE);
}

void weir_pipeline_trace(struct weir_pipeline *pipeline, struct weir_trace *trace) {
	pipeline->trace = trace;
}

void weir_pipeline_undelivered(struct weir_pipeline *pipeline, const struct weir_verdict *verdict,
	enum weir_drop_reason reason, uint32_t n) {
	struct weir_pending *pending = &pipeline->pending;

	switch ((enum weir_action)verdict->action) {
	case WEIR_ACTION_FORWARD:
		pending->forwarded -= n;
		break;
	case WEIR_ACTION_ANSWER:
		if (verdict->reason == WEIR_DROP_MTU_EXCEEDED) {
			return; // counted as dropped already
		}
		pending->answered -= n;
		break;
	case WEIR_ACTION_KERNEL:
		pending->to_kernel -= n;
		break;
	case WEIR_ACTION_DROP:
		return;
	}
	pending->dropped += n;
	pending->drops[reason] += n;
}

static void set_gauge(uint64_t *gauge, uint64_t value) {
	__atomic_store_n(gauge, value, __ATOMIC_RELAXED);
}

bool weir_pipeline_idle(struct weir_pipeline *pipeline, uint64_t now_ns) {
	struct weir_worker_counters *counters =
		&pipeline->segment->worker_counters[pipeline->worker];

	bool more;

	pipeline->now_ns = now_ns;
	more = weir_flow_sweep(pipeline->flows, now_ns);
	publish(pipeline);
	set_gauge(&counters->flows, weir_flow_count(pipeline->flows));
	set_gauge(&counters->flows_half_open, weir_flow_half_open_count(pipeline->flows));
	set_gauge(&counters->flow_half_open_evicted, weir_flow_evicted_count(pipeline->flows));
	return more;
}

// --- questions ------------------------------------------------------------------------------

void weir_pipeline_answer(
	struct weir_pipeline *pipeline, struct weir_message *message, uint64_t now_ns) {
	struct weir_burst b = {.pipeline = pipeline};
	struct weir_flow_key key = {.family = message->flow.family,
		.protocol = message->flow.protocol,
		.source_port = rte_cpu_to_be_16(message->flow.source_port),
		.destination_port = rte_cpu_to_be_16(message->flow.destination_port)};
	weir_flow_ref flow;

	if (message->kind != WEIR_MESSAGE_FLOW_LOOKUP) {
		return;
	}
	memcpy(key.source, message->flow.source, key.family == 4 ? 4 : 16);
	memcpy(key.destination, message->flow.destination, key.family == 4 ? 4 : 16);
	message->flow.hash = weir_parse_hash(&key, pipeline->hash_seed);
	message->flow.found = 0;
	message->flow.state = 0;
	message->flow.idle_ms = 0;
	message->flow.slot = 0;
	message->flow.backend = WEIR_BACKEND_NONE;
	message->flow.chosen = WEIR_BACKEND_NONE;
	message->flow.service = WEIR_SERVICE_NONE;
	if (key.protocol != WEIR_PROTOCOL_TCP && key.protocol != WEIR_PROTOCOL_UDP) {
		return;
	}
	flow = weir_flow_lookup(pipeline->flows, &key, message->flow.hash, now_ns);
	if (flow >= 0) {
		message->flow.found = 1;
		message->flow.state = (uint8_t)weir_flow_state(pipeline->flows, flow);
		message->flow.backend = weir_flow_backend(pipeline->flows, flow);
		message->flow.idle_ms = weir_flow_idle_ms(pipeline->flows, flow, now_ns);
	}
	b.services = weir_reader_services(&pipeline->reader);
	if (b.services->buckets == NULL) {
		return;
	}
	message->flow.service = weir_burst_service(&b, &key);
	if (message->flow.service != WEIR_SERVICE_NONE) {
		const struct weir_selection_view *view =
			weir_reader_selection(&pipeline->reader, message->flow.service);

		message->flow.chosen = weir_burst_choose_consistent(
			pipeline, message->flow.service, message->flow.hash);
		if (view->table.slot_count > 0) {
			message->flow.slot =
				weir_selection_slot(message->flow.hash, view->table.slot_count);
		}
	}
}

uint64_t weir_pipeline_distribution_hash(const struct rte_mbuf *pkt, uint64_t hash_seed) {
	struct weir_descriptor d;

	weir_parse(pkt, hash_seed, &d);
	if (likely(d.kind == WEIR_PACKET_FLOW)) {
		return d.hash;
	}
	if (d.kind == WEIR_PACKET_ICMP_ERROR && weir_icmp_error_flow(pkt, &d, &d.key) == 0) {
		return weir_parse_hash(&d.key, hash_seed);
	}
	return 0;
}

const char *weir_action_name(enum weir_action action) {
	static const char *const names[] = {
		[WEIR_ACTION_FORWARD] = "forward",
		[WEIR_ACTION_ANSWER] = "answer",
		[WEIR_ACTION_KERNEL] = "kernel",
		[WEIR_ACTION_DROP] = "drop",
	};

	return (unsigned int)action < RTE_DIM(names) ? names[action] : "unknown";
}

const char *weir_choice_name(enum weir_choice choice) {
	static const char *const names[] = {
		[WEIR_CHOICE_NONE] = "none",
		[WEIR_CHOICE_FLOW] = "flow",
		[WEIR_CHOICE_NEW] = "new",
		[WEIR_CHOICE_UNTRACKED] = "untracked",
		[WEIR_CHOICE_REPLACED] = "replaced",
	};

	return (unsigned int)choice < RTE_DIM(names) ? names[choice] : "unknown";
}

// --- set-up ---------------------------------------------------------------------------------

static void *table_create(uint32_t count, size_t bytes, int socket) {
	return rte_zmalloc_socket("pipeline", count * bytes, 128, socket);
}

// What is known per backend and per service.
static int tables_create(
	struct weir_pipeline *pipeline, const struct weir_pipeline_params *params) {
	const struct weir_segment *segment = params->segment;
	int socket = params->flow_table.socket;

	pipeline->owner = table_create(segment->max_backends, sizeof(*pipeline->owner), socket);
	pipeline->outers = table_create(segment->max_backends, sizeof(*pipeline->outers), socket);
	pipeline->clients = table_create(segment->max_services, sizeof(*pipeline->clients), socket);
	pipeline->adopted = table_create(segment->max_services, sizeof(*pipeline->adopted), socket);
	pipeline->policy = (struct weir_policy_worker){
		.backends = table_create(
			segment->max_backends, sizeof(struct weir_policy_backend), socket),
		.cost_ns = segment->costs,
		.backend_count = segment->max_backends,
		.rank = params->worker,
		.ranks = segment->workers,
		.random = weir_hash_mix(segment->epoch, params->worker + 1),
	};
	return pipeline->owner == NULL || pipeline->outers == NULL || pipeline->clients == NULL ||
			       pipeline->adopted == NULL || pipeline->policy.backends == NULL
		       ? -ENOMEM
		       : 0;
}

int weir_pipeline_create(const struct weir_pipeline_params *params, struct weir_pipeline **ret) {
	const struct weir_segment *segment = params->segment;
	struct weir_flow_table_params flow_table;
	struct weir_flow_listener listener;
	struct weir_pipeline *pipeline;
	int r;

	if (params->worker >= segment->workers) {
		return -EINVAL;
	}
	pipeline = rte_zmalloc_socket(
		"pipeline", sizeof(*pipeline), RTE_CACHE_LINE_SIZE, params->flow_table.socket);
	if (pipeline == NULL) {
		return -ENOMEM;
	}
	pipeline->segment = segment;
	pipeline->worker = params->worker;
	pipeline->service_counters = weir_segment_service_counters(segment, params->worker, 0);
	pipeline->backend_counters = weir_segment_backend_counters(segment, params->worker, 0);
	pipeline->ports = segment->ports;
	pipeline->max_services = segment->max_services;
	pipeline->max_backends = segment->max_backends;
	pipeline->hash_seed = params->hash_seed;
	weir_icmp_limit_init(&pipeline->icmp_limit, params->icmp_answers_per_second);
	r = tables_create(pipeline, params);
	if (r < 0) {
		goto free_pipeline;
	}
	r = weir_reader_init(&pipeline->reader, segment, params->worker);
	if (r < 0) {
		goto free_pipeline;
	}
	flow_table = params->flow_table;
	flow_table.hash_seed = params->hash_seed;
	listener = weir_burst_listener(pipeline);
	r = weir_flow_table_create(&flow_table, &listener, &pipeline->flows);
	if (r < 0) {
		goto free_pipeline;
	}
	*ret = pipeline;
	return 0;

free_pipeline:
	weir_pipeline_free(pipeline);
	return r;
}

uint64_t weir_pipeline_bytes(uint32_t max_services, uint32_t max_backends) {
	const struct weir_pipeline *p = NULL;

	return sizeof(*p) +
	       (uint64_t)max_services * (sizeof(struct weir_selection_view) +
						sizeof(p->clients[0]) + sizeof(p->adopted[0])) +
	       (uint64_t)max_backends *
		       (sizeof(p->owner[0]) + sizeof(p->outers[0]) + sizeof(p->policy.backends[0]));
}

void weir_pipeline_free(struct weir_pipeline *pipeline) {
	if (pipeline == NULL) {
		return;
	}
	weir_flow_table_free(pipeline->flows);
	if (pipeline->reader.segment != NULL) {
		weir_reader_fini(&pipeline->reader);
	}
	rte_free(pipeline->policy.backends);
	rte_free(pipeline->adopted);
	rte_free(pipeline->clients);
	rte_free(pipeline->outers);
	rte_free(pipeline->owner);
	rte_free(pipeline);
}
