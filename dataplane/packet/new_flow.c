// SPDX-License-Identifier: BSD-3-Clause
#include "new_flow.h"

#include <errno.h>

#include "flow_insert.h"
#include "flow_life.h"
#include "lookup.h"

// --- begin and end --------------------------------------------------------------------------

// The client of a service: this worker's state of its policy.
static struct weir_policy_client *client_of(struct weir_pipeline *pipeline, uint16_t service) {
	return &pipeline->clients[service];
}

static inline void flow_started(struct weir_pipeline *pipeline, struct weir_policy_client *client,
	uint16_t backend, uint16_t service, enum weir_flow_event event, uint64_t now_ns) {
	struct weir_share_counters *of_backend = weir_burst_backend_counters(pipeline, backend);
	struct weir_share_counters *of_service = weir_burst_service_counters(pipeline, service);

	// take_over has seen to this, but for flows that came by the consistent choice.
	if (unlikely(pipeline->owner[backend] != service)) {
		pipeline->policy.backends[backend] = (struct weir_policy_backend){
			.place = pipeline->policy.backends[backend].place};
		pipeline->owner[backend] = service;
	}
	pipeline->pending.flow_new++;
	weir_counter_add(&of_backend->new_flows, 1);
	weir_counter_add(&of_backend->active_flows, 1);
	weir_counter_add(&of_service->new_flows, 1);
	weir_counter_add(&of_service->active_flows, 1);
	if (likely(event != WEIR_FLOW_EVENT_FIN && event != WEIR_FLOW_EVENT_RST)) {
		weir_counter_add(&of_backend->open_flows, 1);
		weir_counter_add(&of_service->open_flows, 1);
		weir_policy_started(&pipeline->policy, client, backend, now_ns);
	}
}

void weir_new_flow_started(struct weir_pipeline *pipeline, uint16_t backend, uint16_t service,
	enum weir_flow_event event, uint64_t now_ns) {
	flow_started(pipeline, client_of(pipeline, service), backend, service, event, now_ns);
}

// Control may be behind or dead: then samples are lost, nothing waits.
static __rte_noinline void sample(
	struct weir_pipeline *pipeline, uint16_t backend, uint64_t service_ns) {
	struct weir_sample_ring *ring = &pipeline->segment->samples[pipeline->worker];
	uint64_t tail = ring->tail;

	if (tail - __atomic_load_n(&ring->head, __ATOMIC_ACQUIRE) >= WEIR_SAMPLES) {
		weir_counter_add(&ring->lost, 1);
		return;
	}
	ring->sample[tail % WEIR_SAMPLES] =
		(struct weir_sample){.service_ns = service_ns, .backend = backend};
	__atomic_store_n(&ring->tail, tail + 1, __ATOMIC_RELEASE);
}

static inline void count_finish(struct weir_share_counters *counters, bool error) {
	weir_counter_add(&counters->open_flows, (uint64_t)-1);
	if (unlikely(error)) {
		weir_counter_add(&counters->errors, 1);
	}
}

static inline void finish(struct weir_pipeline *pipeline, uint16_t backend, uint16_t service,
	enum weir_outcome outcome, uint64_t service_ns) {
	bool error = outcome == WEIR_OUTCOME_REFUSED || outcome == WEIR_OUTCOME_UNANSWERED;

	count_finish(weir_burst_backend_counters(pipeline, backend), error);
	count_finish(weir_burst_service_counters(pipeline, service), error);
	weir_policy_ended(&pipeline->policy, client_of(pipeline, service), backend, outcome,
		pipeline->now_ns);
	if (service_ns != 0 && outcome == WEIR_OUTCOME_COMPLETED) {
		sample(pipeline, backend, service_ns);
	}
}

static void flow_finished(
	void *context, uint16_t backend, enum weir_outcome outcome, uint64_t service_ns) {
	struct weir_pipeline *pipeline = context;

	finish(pipeline, backend, pipeline->owner[backend], outcome, service_ns);
}

static void flow_resumed(void *context, uint16_t backend) {
	struct weir_pipeline *pipeline = context;
	uint16_t service = pipeline->owner[backend];

	weir_counter_add(&weir_burst_backend_counters(pipeline, backend)->open_flows, 1);
	weir_counter_add(&weir_burst_service_counters(pipeline, service)->open_flows, 1);
	weir_policy_resumed(&pipeline->policy, client_of(pipeline, service), backend);
}

static inline void count_end(struct weir_share_counters *counters, enum weir_flow_end end) {
	switch (end) {
	case WEIR_FLOW_END_COMPLETED:
		weir_counter_add(&counters->completed, 1);
		break;
	case WEIR_FLOW_END_REFUSED:
		weir_counter_add(&counters->refused, 1);
		break;
	case WEIR_FLOW_END_TIMED_OUT:
		weir_counter_add(&counters->timed_out, 1);
		break;
	case WEIR_FLOW_END_EVICTED:
		break;
	}
}

static void flow_ended(
	void *context, uint16_t backend, enum weir_flow_end end, int outcome, uint64_t service_ns) {
	struct weir_pipeline *pipeline = context;
	uint16_t service = pipeline->owner[backend];
	struct weir_share_counters *of_backend = weir_burst_backend_counters(pipeline, backend);
	struct weir_share_counters *of_service = weir_burst_service_counters(pipeline, service);

	weir_counter_add(&of_backend->active_flows, (uint64_t)-1);
	weir_counter_add(&of_service->active_flows, (uint64_t)-1);
	if (end != WEIR_FLOW_END_EVICTED) { // that is common: every SYN of a flood evicts another
		pipeline->pending.flow_expired += end == WEIR_FLOW_END_TIMED_OUT;
		count_end(of_backend, end);
		count_end(of_service, end);
	}
	if (outcome != WEIR_OUTCOME_KNOWN) {
		finish(pipeline, backend, service, (enum weir_outcome)outcome, service_ns);
	}
}

struct weir_flow_listener weir_new_flow_listener(struct weir_pipeline *pipeline) {
	return (struct weir_flow_listener){.finished = flow_finished,
		.resumed = flow_resumed,
		.ended = flow_ended,
		.context = pipeline};
}

// --- choice ---------------------------------------------------------------------------------

// Ids that were another service's begin anew, before the policy looks at them. One that still has
// flows is left alone: control gives no id away before its last flow has ended.
static void take_over(
	struct weir_pipeline *pipeline, uint16_t service, const struct weir_policy_table *table) {
	for (uint32_t i = 0; i < table->count; i++) {
		uint16_t id = __atomic_load_n(&table->candidates[i].id, __ATOMIC_RELAXED);

		if (id < pipeline->max_backends && pipeline->owner[id] != service &&
			weir_burst_backend_counters(pipeline, id)->active_flows == 0) {
			pipeline->policy.backends[id] = (struct weir_policy_backend){0};
			pipeline->owner[id] = service;
		}
	}
}

// What new flows of one service share. They come together.
struct newcomers {
	// The table that the policy has adopted: weir_reader_selection might give a newer one.
	const struct weir_selection_view *view;
	struct weir_policy_client *client;
	uint16_t service;
	struct weir_flow_start start; // of any of them
};

static __rte_noinline void newcomers_of(
	struct weir_burst *b, uint16_t service, struct newcomers *ret) {
	struct weir_pipeline *pipeline = b->pipeline;
	const struct weir_selection_view *view;
	struct weir_policy_client *client;

	*ret = (struct newcomers){.service = service};
	if (service == WEIR_SERVICE_NONE) {
		return;
	}
	view = weir_reader_selection(&pipeline->reader, service);
	client = client_of(pipeline, service);
	if (unlikely(pipeline->adopted[service] != view->ref)) {
		take_over(pipeline, service, &view->table);
		weir_policy_adopt(&pipeline->policy, client, &view->table, b->now_ns);
		pipeline->adopted[service] = view->ref;
	}
	*ret = (struct newcomers){.view = view,
		.client = client,
		.service = service,
		.start = {.now_ns = b->now_ns,
			.measured = (client->settings.needs & WEIR_NEEDS_TIMES) != 0}};
}

// The policy had to pass over backends at their limit, or found none. False when the packet was
// dropped under its reason.
static __rte_noinline bool chosen_with_care(
	struct weir_burst *b, struct weir_descriptor *d, struct weir_chosen chosen) {
	struct weir_pipeline *pipeline = b->pipeline;
	uint16_t service = d->verdict.service;

	if (chosen.how == WEIR_CHOSEN_NOBODY) {
		weir_burst_drop(b, d, WEIR_DROP_NO_BACKEND);
		return false;
	}
	if (chosen.how == WEIR_CHOSEN_REJECTED) {
		weir_counter_add(&weir_burst_service_counters(pipeline, service)->rejected, 1);
		weir_burst_drop(b, d, WEIR_DROP_FLOW_CONTROL);
		return false;
	}
	weir_counter_add(&weir_burst_service_counters(pipeline, service)->spilled, 1);
	weir_counter_add(&weir_burst_backend_counters(pipeline, chosen.id)->spilled, 1);
	return true;
}

static inline bool is_first(const struct weir_descriptor *d) {
	return d->event == WEIR_FLOW_EVENT_SYN || d->event == WEIR_FLOW_EVENT_DATAGRAM;
}

// Choose a backend for the packet's flow, which has none: as the policy says for a flow's first
// packet, else consistently. False when there is none: the packet was dropped under its reason.
static inline bool choose(
	struct weir_burst *b, struct weir_descriptor *d, const struct newcomers *of) {
	struct weir_pipeline *pipeline = b->pipeline;
	struct weir_chosen chosen;

	if (unlikely(!is_first(d))) {
		// Not the first packet of its flow: another instance, or this one before it was
		// restarted, or when its table was full, chose the backend by the same table.
		uint16_t backend = weir_burst_choose_consistent(pipeline, of->view, d->hash);

		d->verdict.backend = backend;
		if (backend == WEIR_BACKEND_NONE) {
			weir_burst_drop(b, d, WEIR_DROP_NO_BACKEND);
		}
		return backend != WEIR_BACKEND_NONE;
	}
	chosen = weir_policy_choose(
		&pipeline->policy, of->client, &of->view->table, d->hash, b->now_ns);
	if (unlikely(chosen.how != WEIR_CHOSEN) && !chosen_with_care(b, d, chosen)) {
		return false;
	}
	d->verdict.backend = chosen.id;
	return true;
}

struct weir_flow_start weir_new_flow_start(
	const struct weir_burst *b, const struct weir_descriptor *d) {
	const struct weir_policy_client *client = client_of(b->pipeline, d->verdict.service);

	return (struct weir_flow_start){.now_ns = b->now_ns,
		.event = (enum weir_flow_event)d->event,
		.backend = d->verdict.backend,
		.measured = (client->settings.needs & WEIR_NEEDS_TIMES) != 0};
}

// --- stage: new flows -----------------------------------------------------------------------

// May a packet that is not the first of a flow begin one? Not the last packets of a flow, and not a
// SYN ACK: no client sends one, but the victims of forged SYNs do.
static bool may_join(const struct weir_burst *b, unsigned int i) {
	const struct weir_descriptor *d = &b->pipeline->descriptors[i];
	const uint8_t *l4 =
		rte_pktmbuf_mtod_offset(b->pkts[i], const uint8_t *, d->l3_offset + d->l4_offset);

	return d->event == WEIR_FLOW_EVENT_DATA && (l4[13] & WEIR_TCP_SYN) == 0;
}

// The table is full. The flow's next packets will find no entry either: all of them must go where
// the consistent choice says.
static enum weir_choice untracked(
	struct weir_burst *b, struct weir_descriptor *d, const struct newcomers *of) {
	uint16_t backend = weir_burst_choose_consistent(b->pipeline, of->view, d->hash);

	b->pipeline->pending.flow_untracked++;
	if (backend != WEIR_BACKEND_NONE) {
		d->verdict.backend = backend;
	}
	return WEIR_CHOICE_UNTRACKED;
}

// Enter a flow that is not in the table, or restart the one at `flow` that has ended.
// absent: its key is nowhere in the table.
static inline enum weir_choice enter_flow(struct weir_burst *b, unsigned int i,
	struct weir_descriptor *d, struct newcomers *of, weir_flow_ref flow, bool absent) {
	struct weir_pipeline *pipeline = b->pipeline;
	struct weir_flow_start *start = &of->start;
	struct weir_flow_start joined;

	start->event = (enum weir_flow_event)d->event;
	start->backend = d->verdict.backend;
	start->absent = absent;
	if (unlikely(flow >= 0)) {
		weir_flow_restart(pipeline->flows, flow, start, WEIR_FLOW_END_COMPLETED);
	} else {
		if (unlikely(!is_first(d))) {
			if (!may_join(b, i)) {
				return WEIR_CHOICE_UNTRACKED;
			}
			// One packet in the middle of a connection proves nothing: it may be
			// forged. The flow stays half-open, limited as such, until its next packet.
			joined = *start;
			joined.event = WEIR_FLOW_EVENT_SYN;
			joined.joined = true;
			joined.measured = false;
			start = &joined;
		}
		if (unlikely(weir_flow_insert(pipeline->flows, &d->key, d->hash, start) < 0)) {
			return untracked(b, d, of);
		}
	}
	flow_started(
		pipeline, of->client, d->verdict.backend, of->service, start->event, start->now_ns);
	return WEIR_CHOICE_NEW;
}

// The flow of packet i began anew. Packets behind it in the burst were looked up before that: data
// that comes with a SYN (RFC 7413) must not go to the old flow's backend.
static void redirect_followers(struct weir_burst *b, unsigned int i) {
	const struct weir_descriptor *d = &b->pipeline->descriptors[i];

	for (unsigned int j = i + 1; j < b->packets; j++) {
		struct weir_summary *s = &b->pipeline->summaries[j];
		struct weir_descriptor other;

		if (s->backend == WEIR_BACKEND_NONE || s->hash != d->hash) {
			continue;
		}
		weir_parse_describe(b->pkts[j], s, &other);
		if (memcmp(&other.key, &d->key, sizeof(d->key)) == 0) {
			s->backend = d->verdict.backend;
		}
	}
	for (unsigned int k = 0; k < b->forward_count; k++) {
		unsigned int j = b->forwards[k];
		struct weir_descriptor *other = &b->pipeline->descriptors[j];

		if (j > i && other->hash == d->hash &&
			memcmp(&other->key, &d->key, sizeof(d->key)) == 0) {
			other->verdict.backend = d->verdict.backend;
		}
	}
}

// flow: the one that ended, in whose place this one begins, or negative. absent: as in
// weir_flow_start. False when the packet is not forwarded: it has its verdict.
static inline bool begin(struct weir_burst *b, unsigned int i, struct weir_descriptor *d,
	struct newcomers *of, weir_flow_ref flow, bool absent) {
	if (unlikely(!choose(b, d, of))) {
		return false;
	}
	d->verdict.choice = (uint8_t)enter_flow(b, i, d, of, flow, absent);
	if (unlikely(flow >= 0)) {
		redirect_followers(b, i);
	}
	return true;
}

// Same destination address, port, family and protocol?
static bool same_destination(const struct weir_flow_key *a, const struct weir_flow_key *b) {
	return memcmp(a->destination, b->destination, 16) == 0 &&
	       a->destination_port == b->destination_port && a->family == b->family &&
	       a->protocol == b->protocol;
}

// Find out whose the new flows are. Those of one service come together.
static void find_services(struct weir_burst *b) {
	struct weir_descriptor *const descriptors = b->pipeline->descriptors;
	const struct weir_selection_view *view = NULL;
	const struct weir_flow_key *last = NULL;
	const unsigned int count = b->miss_count;
	uint16_t service = WEIR_SERVICE_NONE;

	if (unlikely(b->services->buckets == NULL)) {
		return; // no service yet, so nothing here is ours
	}
	for (unsigned int k = 0; k < count; k++) {
		struct weir_descriptor *d = &descriptors[b->misses[k]];

		if (last == NULL || unlikely(!same_destination(last, &d->key))) {
			service = weir_burst_service(b, &d->key);
			last = &d->key;
			if (likely(service != WEIR_SERVICE_NONE)) {
				view = weir_reader_selection(&b->pipeline->reader, service);
			}
		}
		d->verdict.service = service;
		if (likely(service != WEIR_SERVICE_NONE)) {
			weir_selection_prefetch(view, d->hash);
		}
	}
}

void weir_new_flow_process(struct weir_burst *b) {
	struct weir_pipeline *const pipeline = b->pipeline;
	struct weir_descriptor *const descriptors = pipeline->descriptors;
	struct newcomers of = {.service = WEIR_SERVICE_NONE};
	const uint8_t *next = b->misses, *const end = b->misses + b->miss_count;

	find_services(b);
	for (; next < end; next++) {
		unsigned int i = *next;
		struct weir_descriptor *d = &descriptors[i];
		uint16_t service = d->verdict.service;
		weir_flow_ref flow = -ENOENT;
		bool absent = weir_flow_absent(pipeline->flows, &d->key, d->hash);

		// Known after all: a SYN that comes again, or whose flow a packet before it in the
		// burst has begun.
		if (unlikely(!absent) && weir_lookup_slow(b, i, &flow)) {
			pipeline->pending.flow_hits++;
			continue;
		}
		if (unlikely(service != of.service)) {
			newcomers_of(b, service, &of);
		}
		if (unlikely(service == WEIR_SERVICE_NONE)) {
			weir_burst_to_kernel(b, d);
			weir_burst_tell(b, i);
		} else if (unlikely(!begin(b, i, d, &of, flow, absent))) {
			weir_burst_tell(b, i);
		} else {
			weir_burst_forward(b, i);
		}
	}
}
