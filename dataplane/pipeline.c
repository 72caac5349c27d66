// SPDX-License-Identifier: BSD-3-Clause
#include "pipeline.h"

#include <errno.h>

#include <rte_malloc.h>
#include <rte_prefetch.h>

#include "burst.h"

#define PACKETS_AHEAD 8u // how far prefetching of packets runs before parsing

// rte_prefetch0_write is experimental in DPDK 22.11.
static inline void prefetch_write(const void *line) {
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
		}
	}
	*pending = (struct weir_pending){0};
}

void weir_burst_flow_started(struct weir_pipeline *pipeline, uint16_t backend, uint16_t service) {
	struct weir_share_counters *of_backend = weir_burst_backend_counters(pipeline, backend);
	struct weir_share_counters *of_service = weir_burst_service_counters(pipeline, service);

	pipeline->owner[backend] = service;
	pipeline->pending.flow_new++;
	weir_counter_add(&of_backend->new_flows, 1);
	weir_counter_add(&of_backend->active_flows, 1);
	weir_counter_add(&of_service->new_flows, 1);
	weir_counter_add(&of_service->active_flows, 1);
}

static void count_end(struct weir_share_counters *counters, enum weir_flow_end end) {
	weir_counter_add(&counters->active_flows, (uint64_t)-1);
	weir_counter_add(&counters->completed, end == WEIR_FLOW_END_COMPLETED);
	weir_counter_add(&counters->refused, end == WEIR_FLOW_END_REFUSED);
	weir_counter_add(&counters->timed_out, end == WEIR_FLOW_END_TIMED_OUT);
}

static void flow_ended(void *context, uint16_t backend, enum weir_flow_end end) {
	struct weir_pipeline *pipeline = context;

	pipeline->pending.flow_expired += end == WEIR_FLOW_END_TIMED_OUT;
	count_end(weir_burst_backend_counters(pipeline, backend), end);
	count_end(weir_burst_service_counters(pipeline, pipeline->owner[backend]), end);
}

// --- stage: parse ---------------------------------------------------------------------------

static inline void prefetch_packet(const struct rte_mbuf *m) {
	const uint8_t *frame = rte_pktmbuf_mtod(m, const uint8_t *);

	rte_prefetch0(frame);
	prefetch_write(frame - 1); // the line that the outer header will begin in
}

static void stage_parse(struct weir_burst *b) {
	struct weir_pipeline *pipeline = b->pipeline;
	uint64_t bytes = 0;
	unsigned int flows = 0, others = 0;

	for (unsigned int i = 0; i < RTE_MIN(b->packets, PACKETS_AHEAD); i++) {
		prefetch_packet(b->pkts[i]);
	}
	for (unsigned int i = 0; i < b->packets; i++) {
		struct weir_descriptor *d = &pipeline->descriptors[i];
		struct rte_mbuf *m = b->pkts[i];

		if (i + PACKETS_AHEAD < b->packets) {
			prefetch_packet(b->pkts[i + PACKETS_AHEAD]);
		}
		if (unlikely(m->nb_segs > 1)) {
			weir_parse_gather(m);
		}
		bytes += m->pkt_len;
		weir_parse(m, pipeline->hash_seed, d);
		if (likely(d->kind == WEIR_PACKET_FLOW)) {
			weir_flow_prefetch(pipeline->flows, d->key.family, d->hash);
			b->flows[flows++] = (uint8_t)i;
		} else {
			b->others[others++] = (uint8_t)i;
		}
	}
	b->flow_count = (uint8_t)flows;
	b->other_count = (uint8_t)others;
	pipeline->pending.rx_packets += b->packets;
	pipeline->pending.rx_bytes += bytes;
}

// --- stage: flow lookup ---------------------------------------------------------------------

static void stage_lookup(struct weir_burst *b) {
	struct weir_pipeline *pipeline = b->pipeline;
	// May be replaced before the rewrite, or be none; good enough to prefetch from.
	uintptr_t rows = (uintptr_t)pipeline->reader.backends.rows;
	unsigned int forwards = 0, misses = 0;

	for (unsigned int k = 0; k < b->flow_count; k++) {
		const struct weir_descriptor *d = &pipeline->descriptors[b->flows[k]];

		weir_flow_prefetch_second(pipeline->flows, d->key.family, d->hash);
	}
	for (unsigned int k = 0; k < b->flow_count; k++) {
		struct weir_descriptor *d = &pipeline->descriptors[b->flows[k]];
		weir_flow_ref flow = weir_flow_lookup(pipeline->flows, &d->key, d->hash, b->now_ns);
		uint16_t backend;

		if (unlikely(flow < 0 || weir_flow_advance(pipeline->flows, flow,
						 (enum weir_flow_event)d->event, b->now_ns))) {
			b->misses[misses++] = b->flows[k];
			continue;
		}
		backend = weir_flow_backend(pipeline->flows, flow);
		rte_prefetch0((const void *)(rows + backend * sizeof(struct weir_backend_row)));
		prefetch_write(weir_burst_backend_counters(pipeline, backend));
		d->verdict.backend = backend;
		d->verdict.choice = WEIR_CHOICE_FLOW;
		b->forwards[forwards++] = b->flows[k];
	}
	pipeline->pending.flow_hits += forwards;
	b->forward_count = (uint8_t)forwards;
	b->miss_count = (uint8_t)misses;
}

// --- stage: new flows -----------------------------------------------------------------------

// May a packet without a flow begin one? Not the last packets of a flow, and not a SYN ACK: no
// client sends one, but the victims of forged SYNs do.
static bool begins_flow(const struct weir_burst *b, unsigned int i) {
	const struct weir_descriptor *d = &b->pipeline->descriptors[i];
	const uint8_t *l4 =
		rte_pktmbuf_mtod_offset(b->pkts[i], const uint8_t *, d->l3_offset + d->l4_offset);

	switch ((enum weir_flow_event)d->event) {
	case WEIR_FLOW_EVENT_FIN:
	case WEIR_FLOW_EVENT_RST:
		return false;
	case WEIR_FLOW_EVENT_DATA:
		return (l4[13] & WEIR_TCP_SYN) == 0;
	case WEIR_FLOW_EVENT_SYN:
	case WEIR_FLOW_EVENT_DATAGRAM:
		break;
	}
	return true;
}

// Enter a flow that is not in the table, or restart the one at `flow` that has ended.
static enum weir_choice enter_flow(struct weir_burst *b, unsigned int i, weir_flow_ref flow) {
	struct weir_pipeline *pipeline = b->pipeline;
	struct weir_descriptor *d = &pipeline->descriptors[i];
	enum weir_flow_event event = (enum weir_flow_event)d->event;

	if (flow >= 0) {
		weir_flow_restart(pipeline->flows, flow, d->verdict.backend, event,
			WEIR_FLOW_END_COMPLETED, b->now_ns);
	} else {
		if (!begins_flow(b, i)) {
			return WEIR_CHOICE_UNTRACKED;
		}
		// One packet in the middle of a connection proves nothing: it may be forged. The
		// flow stays half-open, limited as such, until its next packet.
		flow = weir_flow_insert(pipeline->flows, &d->key, d->hash, d->verdict.backend,
			event == WEIR_FLOW_EVENT_DATA ? WEIR_FLOW_EVENT_SYN : event, b->now_ns);
		if (unlikely(flow < 0)) {
			pipeline->pending.flow_untracked++;
			return WEIR_CHOICE_UNTRACKED;
		}
	}
	weir_burst_flow_started(pipeline, d->verdict.backend, d->verdict.service);
	return WEIR_CHOICE_NEW;
}

static void begin(struct weir_burst *b, unsigned int i) {
	struct weir_pipeline *pipeline = b->pipeline;
	struct weir_descriptor *d = &pipeline->descriptors[i];
	weir_flow_ref flow;

	if (unlikely(b->services->buckets == NULL)) {
		weir_burst_to_kernel(b, d); // no service yet, so nothing here is ours
		return;
	}
	d->verdict.service = weir_burst_service(b, &d->key);
	if (d->verdict.service == WEIR_SERVICE_NONE) {
		weir_burst_to_kernel(b, d);
		return;
	}
	// A packet before this one in the burst may have begun the flow.
	flow = weir_flow_lookup(pipeline->flows, &d->key, d->hash, b->now_ns);
	if (flow >= 0 && !weir_flow_advance(pipeline->flows, flow, (enum weir_flow_event)d->event,
				 b->now_ns)) {
		d->verdict.backend = weir_flow_backend(pipeline->flows, flow);
		d->verdict.choice = WEIR_CHOICE_FLOW;
		pipeline->pending.flow_hits++;
	} else {
		d->verdict.backend = weir_burst_choose(pipeline, d->verdict.service, d->hash);
		if (unlikely(d->verdict.backend == WEIR_BACKEND_NONE)) {
			weir_burst_drop(b, d, WEIR_DROP_NO_BACKEND);
			return;
		}
		d->verdict.choice = (uint8_t)enter_flow(b, i, flow);
	}
	b->forwards[b->forward_count++] = (uint8_t)i;
}

static __rte_noinline void stage_begin(struct weir_burst *b) {
	for (unsigned int k = 0; k < b->miss_count; k++) {
		begin(b, b->misses[k]);
	}
}

// --- stage: rewrite -------------------------------------------------------------------------

static void stage_rewrite(struct weir_burst *b) {
	struct weir_pipeline *pipeline = b->pipeline;
	const uint8_t ready = WEIR_BACKEND_PRESENT | WEIR_BACKEND_RESOLVED;
	uint64_t forwarded = 0;

	for (unsigned int k = 0; k < b->forward_count; k++) {
		struct weir_descriptor *d = &pipeline->descriptors[b->forwards[k]];
		struct rte_mbuf *m = b->pkts[b->forwards[k]];
		const struct weir_backend_row *row;
		struct weir_row_head head;
		unsigned int unusual;

		if (unlikely(d->verdict.backend >= b->row_count)) {
			weir_burst_rewrite(b, b->forwards[k]);
			continue;
		}
		row = &b->rows[d->verdict.backend];
		head = weir_encap_read(row);
		unusual = (head.flags & ready) != ready;
		unusual |= !weir_burst_row_sound(pipeline, &head);
		unusual |= !weir_encap_fits(&head, d);
		unusual |= m->nb_segs != 1;
		unusual |= (uint32_t)rte_pktmbuf_headroom(m) + d->l3_offset < head.header_bytes;
		if (unlikely(unusual)) {
			weir_burst_rewrite(b, b->forwards[k]);
			continue;
		}
		weir_encap_push(m, d, row, &head);
		d->verdict.port = head.port;
		d->verdict.service = head.service;
		forwarded++;
		weir_burst_count_forwarded(pipeline, d->verdict.backend, head.service, d->ip_bytes);
	}
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
	b.now_ns = now_ns;
	publish(pipeline);
	b.services = weir_reader_services(&pipeline->reader);
	stage_parse(&b);
	stage_lookup(&b);
	if (unlikely(b.other_count > 0)) {
		weir_burst_others(&b);
	}
	if (b.miss_count > 0) {
		stage_begin(&b);
	}
	weir_burst_adopt_backends(&b);
	stage_rewrite(&b);
	for (unsigned int i = 0; i < b.packets; i++) {
		verdicts[i] = pipeline->descriptors[i].verdict;
	}
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

	bool more = weir_flow_sweep(pipeline->flows, now_ns);

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

		message->flow.chosen =
			weir_burst_choose(pipeline, message->flow.service, message->flow.hash);
		if (view->slots != NULL) {
			message->flow.slot =
				weir_selection_slot(message->flow.hash, view->slot_count);
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

int weir_pipeline_create(const struct weir_pipeline_params *params, struct weir_pipeline **ret) {
	const struct weir_segment *segment = params->segment;
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
	pipeline->ports = segment->ports;
	pipeline->max_services = segment->max_services;
	pipeline->max_backends = segment->max_backends;
	pipeline->hash_seed = params->hash_seed;
	weir_icmp_limit_init(&pipeline->icmp_limit, params->icmp_answers_per_second);
	pipeline->owner =
		rte_zmalloc_socket("pipeline", segment->max_backends * sizeof(*pipeline->owner),
			RTE_CACHE_LINE_SIZE, params->flow_table.socket);
	if (pipeline->owner == NULL) {
		r = -ENOMEM;
		goto free_pipeline;
	}
	r = weir_reader_init(&pipeline->reader, segment, params->worker);
	if (r < 0) {
		goto free_pipeline;
	}
	r = weir_flow_table_create(&params->flow_table, flow_ended, pipeline, &pipeline->flows);
	if (r < 0) {
		goto free_pipeline;
	}
	*ret = pipeline;
	return 0;

free_pipeline:
	weir_pipeline_free(pipeline);
	return r;
}

void weir_pipeline_free(struct weir_pipeline *pipeline) {
	if (pipeline == NULL) {
		return;
	}
	weir_flow_table_free(pipeline->flows);
	if (pipeline->reader.segment != NULL) {
		weir_reader_fini(&pipeline->reader);
	}
	rte_free(pipeline->owner);
	rte_free(pipeline);
}
