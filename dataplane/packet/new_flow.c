// SPDX-License-Identifier: BSD-3-Clause
#include "new_flow.h"

#include <errno.h>

#include "closed_port.h"
#include "flow_insert.h"
#include "flow_life.h"
#include "lookup.h"
#include "probes.h"
#include "source.h"

// Maximum age of the end of a flow when its sample is written; an older end is recorded with this
// age. It is longer than the longest recording of weir-control (10 minutes), and shorter than the
// period of weir_sample.end (73 minutes).
#define SAMPLE_AGE_MAX_NS (UINT64_C(1000) * 1000000000)

// --- begin and end --------------------------------------------------------------------------

// Returns this worker's state for the policy of a service.
static struct weir_policy_client *client_of(struct weir_pipeline *pipeline, uint16_t service) {
	return &pipeline->clients[service];
}

void weir_new_flow_publish_half_open(const struct weir_pipeline *pipeline, uint16_t backend) {
	weir_gauge_set(&weir_burst_backend_counters(pipeline, backend)->half_open,
		pipeline->policy.backends[backend].half_open);
}

// Call when the number of half-open flows of a backend has changed. Publishes the number if
// weir-control requests this for the service.
static inline void half_open_changed(const struct weir_pipeline *pipeline,
	const struct weir_policy_client *client, uint16_t backend) {
	if (unlikely((client->settings.needs & WEIR_NEEDS_HALF_OPEN) != 0)) {
		weir_new_flow_publish_half_open(pipeline, backend);
	}
}

void weir_new_flow_owner(struct weir_pipeline *pipeline, uint16_t backend, uint16_t service) {
	struct weir_policy_worker *policy = &pipeline->policy;
	const struct weir_row_head *head = &pipeline->outers[backend].head;

	// Remove the backend from the counts of its previous service.
	weir_policy_count_shared(policy, backend, false);
	weir_policy_set_limit(
		policy, client_of(pipeline, pipeline->owner[backend]), backend, UINT32_MAX);
	policy->backends[backend] =
		(struct weir_policy_backend){.index = policy->backends[backend].index};
	pipeline->owner[backend] = service;
	weir_new_flow_publish_half_open(pipeline, backend);
	if (head->flags != 0 && head->service == service) {
		weir_new_flow_follow_row(pipeline, backend);
	}
}

void weir_new_flow_follow_row(struct weir_pipeline *pipeline, uint16_t backend) {
	const struct weir_row_head *head = &pipeline->outers[backend].head;
	struct weir_policy_client *client = client_of(pipeline, pipeline->owner[backend]);

	weir_policy_count_shared(&pipeline->policy, backend, head->max_active_flows != 0);
	if ((head->flags & WEIR_BACKEND_CLOSED) != 0) {
		weir_policy_close(&pipeline->policy, client, backend);
	} else {
		weir_policy_set_limit(
			&pipeline->policy, client, backend, weir_encap_own_limit(head));
	}
	weir_policy_set_share(
		&pipeline->policy, client, backend, weir_reader_share(pipeline->segment, backend));
}

static inline void flow_started(struct weir_pipeline *pipeline, struct weir_policy_client *client,
	uint16_t backend, uint16_t service, enum weir_flow_event event, bool half_open,
	uint64_t now_ns) {
	struct weir_share_counters *of_backend = weir_burst_backend_counters(pipeline, backend);
	struct weir_share_counters *of_service = weir_burst_service_counters(pipeline, service);

	// Usually the owner was set when the backend's row was adopted, but not if the id still had
	// flows at that time.
	if (unlikely(pipeline->owner[backend] != service)) {
		weir_new_flow_owner(pipeline, backend, service);
	}
	pipeline->pending.flow_new++;
	weir_counter_add(&of_backend->new_flows, 1);
	weir_counter_add(&of_backend->active_flows, 1);
	weir_counter_add(&of_service->new_flows, 1);
	weir_counter_add(&of_service->active_flows, 1);
	if (likely(event != WEIR_FLOW_EVENT_FIN && event != WEIR_FLOW_EVENT_RST)) {
		weir_counter_add(&of_backend->open_flows, 1);
		weir_counter_add(&of_service->open_flows, 1);
		if (likely(half_open)) {
			weir_policy_half_open(
				&pipeline->policy, backend, event == WEIR_FLOW_EVENT_SYN);
			half_open_changed(pipeline, client, backend);
		}
		weir_policy_started(&pipeline->policy, client, backend, now_ns);
	}
}

void weir_new_flow_started(struct weir_pipeline *pipeline, uint16_t backend, uint16_t service,
	const struct weir_flow_key *key, enum weir_flow_event event, bool half_open,
	uint64_t now_ns) {
	WEIR_PROBE_FLOW_BEGIN(pipeline->worker, service, backend, key);
	flow_started(
		pipeline, client_of(pipeline, service), backend, service, event, half_open, now_ns);
}

// Writes the sample of a flow to the ring for weir-control. If the ring is full, the sample is
// lost, because the worker never waits. idle_ns: time since the last packet of the flow; 0 if a
// packet of this burst ends the flow.
static __rte_noinline void sample(
	struct weir_pipeline *pipeline, uint16_t backend, uint64_t service_ns, uint64_t idle_ns) {
	const struct weir_segment *segment = pipeline->segment;
	struct weir_sample_ring *ring = &segment->worker_boxes[pipeline->worker].samples;
	const uint64_t *head = &segment->control_boxes[pipeline->worker].samples.head;
	uint64_t tail = ring->tail;

	idle_ns = idle_ns < SAMPLE_AGE_MAX_NS ? idle_ns : SAMPLE_AGE_MAX_NS;
	if (tail - __atomic_load_n(head, __ATOMIC_ACQUIRE) >= WEIR_SAMPLES) {
		weir_counter_add(&ring->lost, 1);
		return;
	}
	ring->sample[tail % WEIR_SAMPLES] = (struct weir_sample){.service_ns = service_ns,
		.backend = backend,
		.end = (uint32_t)((pipeline->now_ns - idle_ns) / WEIR_SAMPLE_TICK_NS)};
	__atomic_store_n(&ring->tail, tail + 1, __ATOMIC_RELEASE);
}

static inline void count_finish(struct weir_share_counters *counters, bool error) {
	weir_counter_add(&counters->open_flows, (uint64_t)-1);
	if (unlikely(error)) {
		weir_counter_add(&counters->errors, 1);
	}
}

static inline void finish(struct weir_pipeline *pipeline, uint16_t backend, uint16_t service,
	enum weir_outcome outcome, uint64_t service_ns, uint64_t idle_ns, bool half_open) {
	bool error = outcome == WEIR_OUTCOME_REFUSED || outcome == WEIR_OUTCOME_UNANSWERED;

	count_finish(weir_burst_backend_counters(pipeline, backend), error);
	count_finish(weir_burst_service_counters(pipeline, service), error);
	if (half_open) {
		weir_policy_no_longer_half_open(&pipeline->policy, backend);
		half_open_changed(pipeline, client_of(pipeline, service), backend);
	}
	weir_policy_ended(&pipeline->policy, client_of(pipeline, service), backend, outcome,
		pipeline->now_ns);
	if (service_ns != 0 && outcome == WEIR_OUTCOME_COMPLETED) {
		sample(pipeline, backend, service_ns, idle_ns);
	}
}

static void flow_established(void *context, uint16_t backend, bool answered) {
	struct weir_pipeline *pipeline = context;
	uint16_t service = pipeline->owner[backend];
	struct weir_policy_client *client = client_of(pipeline, service);

	if (unlikely((client->settings.needs & WEIR_NEEDS_RESULTS) != 0) && answered) {
		weir_counter_add(&weir_burst_backend_counters(pipeline, backend)->established, 1);
	}
	weir_policy_established(&pipeline->policy, client, backend);
	half_open_changed(pipeline, client, backend);
	if (unlikely((client->settings.hash4 & WEIR_HASH_AFFINITY) != 0) &&
		pipeline->advancing != NULL) {
		weir_source_advanced(pipeline, pipeline->advancing, backend);
	}
}

static void flow_finished(void *context, uint16_t backend, enum weir_outcome outcome,
	uint64_t service_ns, bool half_open) {
	struct weir_pipeline *pipeline = context;

	finish(pipeline, backend, pipeline->owner[backend], outcome, service_ns, 0, half_open);
	if (unlikely((client_of(pipeline, pipeline->owner[backend])->settings.hash4 &
			     WEIR_HASH_AFFINITY) != 0) &&
		!half_open && pipeline->advancing != NULL) {
		weir_source_advanced(pipeline, pipeline->advancing, backend);
	}
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

static void flow_ended(void *context, uint16_t backend, enum weir_flow_end end, int outcome,
	uint64_t service_ns, uint64_t idle_ns, bool half_open) {
	struct weir_pipeline *pipeline = context;
	uint16_t service = pipeline->owner[backend];
	struct weir_share_counters *of_backend = weir_burst_backend_counters(pipeline, backend);
	struct weir_share_counters *of_service = weir_burst_service_counters(pipeline, service);

	weir_counter_add(&of_backend->active_flows, (uint64_t)-1);
	weir_counter_add(&of_service->active_flows, (uint64_t)-1);
	// Evictions are not counted per backend or service, because they are frequent: in a flood
	// every SYN evicts a flow.
	if (end != WEIR_FLOW_END_EVICTED) {
		pipeline->pending.flow_expired += end == WEIR_FLOW_END_TIMED_OUT;
		count_end(of_backend, end);
		count_end(of_service, end);
	}
	if (outcome != WEIR_OUTCOME_KNOWN) {
		finish(pipeline, backend, service, (enum weir_outcome)outcome, service_ns, idle_ns,
			half_open);
	}
}

static bool flow_belongs(void *context, const struct weir_flow_key *key, uint16_t backend) {
	const struct weir_pipeline *pipeline = context;

	return weir_burst_belongs(pipeline, weir_reader_services(&pipeline->reader), key, backend);
}

struct weir_flow_listener weir_new_flow_listener(struct weir_pipeline *pipeline) {
	return (struct weir_flow_listener){.established = flow_established,
		.finished = flow_finished,
		.resumed = flow_resumed,
		.ended = flow_ended,
		.belongs = flow_belongs,
		.context = pipeline};
}

// --- choice ---------------------------------------------------------------------------------

// Data of one service, kept for the next new flow, because new flows of one service usually arrive
// together.
struct new_flows {
	const struct weir_selection_view *view;
	struct weir_policy_client *client;
	uint16_t service;
	bool by_datagram; // UDP datagrams of the service begin no flows
	// now_ns and measured are the same for all flows; other fields are set for each flow.
	struct weir_flow_start start;
};

// Returns the policy state of a service, after updating it to the published selection.
static inline struct weir_policy_client *adopt_selection(
	struct weir_burst *b, uint16_t service, const struct weir_selection_view *view) {
	struct weir_pipeline *pipeline = b->pipeline;
	struct weir_policy_client *client = client_of(pipeline, service);

	if (unlikely(pipeline->adopted[service] != view->generation)) {
		weir_policy_adopt(&pipeline->policy, client, &view->table, b->now_ns);
		pipeline->adopted[service] = view->generation;
	}
	return client;
}

static __rte_noinline void new_flows_of(
	struct weir_burst *b, uint16_t service, struct new_flows *ret) {
	struct weir_pipeline *pipeline = b->pipeline;

	ret->service = service;
	if (service == WEIR_SERVICE_NONE) {
		return;
	}
	ret->view = weir_reader_selection(&pipeline->reader, service);
	ret->client = adopt_selection(b, service, ret->view);
	ret->by_datagram = weir_policy_by_datagram(&ret->client->settings);
	ret->start.now_ns = b->now_ns;
	ret->start.measured = (ret->client->settings.needs & WEIR_NEEDS_TIMES) != 0;
}

static void count_spilled(struct weir_pipeline *pipeline, uint16_t service, uint16_t backend) {
	weir_counter_add(&weir_burst_service_counters(pipeline, service)->spilled, 1);
	weir_counter_add(&weir_burst_backend_counters(pipeline, backend)->spilled, 1);
}

// Handle a choice other than WEIR_CHOSEN: all searched backends are at their limit, or there is no
// backend. Returns false if the packet was dropped; its verdict then contains the reason.
static __rte_noinline bool chosen_slow(
	struct weir_burst *b, struct weir_descriptor *d, struct weir_chosen chosen) {
	struct weir_pipeline *pipeline = b->pipeline;
	uint16_t service = d->verdict.service;

	if (chosen.how == WEIR_CHOSEN_NONE) {
		weir_burst_drop(b, d, WEIR_DROP_NO_BACKEND);
		return false;
	}
	if (chosen.how == WEIR_CHOSEN_REJECTED) {
		weir_counter_add(&weir_burst_service_counters(pipeline, service)->rejected, 1);
		weir_burst_drop(b, d, WEIR_DROP_FLOW_CONTROL);
		return false;
	}
	count_spilled(pipeline, service, chosen.id);
	return true;
}

static inline bool is_first(const struct weir_descriptor *d) {
	return d->event == WEIR_FLOW_EVENT_SYN || d->event == WEIR_FLOW_EVENT_DATAGRAM;
}

static struct weir_chosen fallback(const struct weir_pipeline *pipeline,
	const struct weir_selection_view *view, uint64_t hash) {
	const uint16_t backend = weir_burst_fallback(pipeline, view, hash);

	return (struct weir_chosen){.id = backend,
		.how = backend != WEIR_BACKEND_NONE ? WEIR_CHOSEN : WEIR_CHOSEN_NONE};
}

// Chooses a backend for a service with affinity: the backend in the affinity entry of the source,
// otherwise a backend of the policy or of the Maglev fallback, by the rules of `choose`. A backend
// of the policy is stored if it is below its limit and the source has no backend yet. A stored
// backend at its limit gets no new flow, but its entry is kept. first: the packet is the first of
// its flow. family: family of the flow to insert; 0 = no flow is inserted. *ret_known: the source
// had an entry with the returned backend.
static __rte_noinline struct weir_chosen choose_by_source(struct weir_burst *b, uint16_t service,
	const struct weir_selection_view *view, struct weir_policy_client *client, uint64_t source,
	bool first, uint8_t family, bool *ret_known) {
	struct weir_pipeline *pipeline = b->pipeline;
	uint16_t stale;
	const uint16_t known = weir_source_backend(pipeline, service, source, &stale);
	struct weir_chosen chosen;

	*ret_known = known != WEIR_BACKEND_NONE &&
		     (!first || weir_source_admits(pipeline, service, known));
	if (*ret_known) {
		return (struct weir_chosen){.id = known, .how = WEIR_CHOSEN};
	}
	if (!first || (family != 0 && weir_flow_crowded(pipeline->flows, family))) {
		return fallback(pipeline, view, source);
	}
	chosen = weir_policy_choose(&pipeline->policy, client, &view->table, source, b->now_ns);
	if (known == WEIR_BACKEND_NONE && chosen.how == WEIR_CHOSEN) {
		chosen.id = weir_source_remember(pipeline, view, service, source, chosen.id, stale);
	}
	return chosen;
}

// Chooses a backend for the packet's flow; for a service with affinity, see choose_by_source. The
// policy chooses for the first packet of a flow, and the Maglev fallback chooses for any other
// packet. While the flow table is crowded, as in a SYN flood, the fallback also chooses for first
// packets. The SYN and the ACK of a flow then go to the same backend, even if the entry of the flow
// is evicted between them.
//
// entered: the flow is inserted into the flow table, if the table has room; a constant.
//
// Returns false if no backend can be chosen. The function then drops the packet, and writes the
// reason to the verdict.
static __rte_always_inline bool choose(struct weir_burst *b, struct weir_descriptor *d,
	const struct new_flows *of, const bool entered) {
	struct weir_pipeline *pipeline = b->pipeline;
	const uint64_t hash = weir_burst_choice_hash(pipeline, of->view, &d->key, d->hash);
	struct weir_chosen chosen;

	if (unlikely(weir_source_has_affinity(of->view))) {
		bool known;

		chosen = choose_by_source(b, of->service, of->view, of->client, hash, is_first(d),
			entered ? d->key.family : 0, &known);
		pipeline->pending.affinity_known += known && is_first(d);
		// Renew the entry only for a packet that may begin a flow.
		if (known && (is_first(d) || d->event == WEIR_FLOW_EVENT_DATA)) {
			weir_source_renew(pipeline, of->view, of->service, hash, chosen.id);
		}
	} else if (unlikely(!is_first(d)) ||
		   (entered && weir_flow_crowded(pipeline->flows, d->key.family))) {
		// If the packet is not the first of its flow, the backend was probably chosen with
		// an equal Maglev table: by another instance, or by this instance before a restart
		// or while its flow table was full.
		chosen = fallback(pipeline, of->view, hash);
	} else {
		chosen = weir_policy_choose(
			&pipeline->policy, of->client, &of->view->table, hash, b->now_ns);
	}
	if (unlikely(chosen.how != WEIR_CHOSEN) && !chosen_slow(b, d, chosen)) {
		return false;
	}
	d->verdict.backend = chosen.id;
	return true;
}

uint16_t weir_new_flow_choose(
	struct weir_burst *b, uint16_t service, const struct weir_descriptor *d) {
	struct weir_pipeline *pipeline = b->pipeline;
	const struct weir_selection_view *view = weir_reader_selection(&pipeline->reader, service);
	struct weir_policy_client *client = adopt_selection(b, service, view);
	const uint64_t hash = weir_burst_choice_hash(pipeline, view, &d->key, d->hash);
	struct weir_chosen chosen;
	bool known;

	if (unlikely(weir_source_has_affinity(view))) {
		chosen = choose_by_source(
			b, service, view, client, hash, true, d->key.family, &known);
	} else if (weir_flow_crowded(pipeline->flows, d->key.family)) {
		return weir_burst_fallback(pipeline, view, hash);
	} else {
		chosen = weir_policy_choose(
			&pipeline->policy, client, &view->table, hash, b->now_ns);
	}
	switch ((enum weir_chosen_how)chosen.how) {
	case WEIR_CHOSEN_SPILLED:
		count_spilled(pipeline, service, chosen.id);
		break;
	case WEIR_CHOSEN:
		break;
	case WEIR_CHOSEN_REJECTED:
	case WEIR_CHOSEN_NONE:
		return WEIR_BACKEND_NONE;
	}
	return chosen.id;
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

// Returns whether a packet that is not the first of its flow may begin a flow. False for a packet
// with FIN or RST, because it is one of the last packets of a flow. False for a SYN ACK: clients
// send no SYN ACKs, but a host that gets a SYN with a forged source replies to this source with a
// SYN ACK.
static bool may_join(const struct weir_burst *b, unsigned int i) {
	const struct weir_descriptor *d = &b->pipeline->descriptors[i];
	const uint8_t *l4 =
		rte_pktmbuf_mtod_offset(b->pkts[i], const uint8_t *, d->l3_offset + d->l4_offset);

	return d->event == WEIR_FLOW_EVENT_DATA && (l4[13] & WEIR_TCP_SYN) == 0;
}

// Call when a flow could not be inserted. Its next packets will probably not find an entry.
// Therefore this packet gets the backend that the next packets will get: the stored backend of the
// source, or the backend of the Maglev fallback.
static enum weir_choice untracked(
	struct weir_burst *b, struct weir_descriptor *d, const struct new_flows *of) {
	uint16_t backend = weir_source_fallback_of(b->pipeline, of->view, of->service, d);

	b->pipeline->pending.flow_untracked++;
	if (backend != WEIR_BACKEND_NONE) {
		d->verdict.backend = backend;
	}
	return WEIR_CHOICE_UNTRACKED;
}

// Insert a flow that is not in the table, or restart the ended flow `flow`. absent: the key is not
// in the table.
static inline enum weir_choice enter_flow(struct weir_burst *b, unsigned int i,
	struct weir_descriptor *d, struct new_flows *of, weir_flow_ref flow, bool absent) {
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
			// A packet in the middle of a connection may be forged. The flow stays
			// half-open, and counts towards the half-open limit, until its next packet.
			joined = *start;
			joined.event = WEIR_FLOW_EVENT_SYN;
			joined.joined = true;
			joined.measured = false;
			start = &joined;
		}
		if (unlikely(weir_flow_insert(pipeline->flows, &d->key,
				     weir_burst_table_hash(b, d, i), start) < 0)) {
			return untracked(b, d, of);
		}
	}
	// The probe reads its arguments from memory, because loading them into registers would cost
	// instructions for each flow.
	WEIR_PROBE_FLOW_BEGIN(pipeline->worker, d->verdict.service, d->verdict.backend, &d->key);
	flow_started(pipeline, of->client, d->verdict.backend, of->service, start->event, true,
		start->now_ns);
	return WEIR_CHOICE_NEW;
}

void weir_new_flow_redirect(struct weir_burst *b, unsigned int i) {
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

// Choose a backend for a datagram of a service without UDP flows. Because no entry is needed, the
// policy chooses even if the flow table is crowded. The counters of the service and the backend
// count the datagram as a new flow, but count no end of this flow. Returns false if the datagram
// was dropped; its verdict is then set.
static __rte_noinline bool choose_for_datagram(
	struct weir_burst *b, struct weir_descriptor *d, const struct new_flows *of) {
	struct weir_pipeline *pipeline = b->pipeline;

	if (!choose(b, d, of, false)) {
		return false;
	}
	d->verdict.choice = WEIR_CHOICE_DATAGRAM;
	pipeline->pending.datagrams++;
	weir_counter_add(&weir_burst_service_counters(pipeline, of->service)->new_flows, 1);
	weir_counter_add(&weir_burst_backend_counters(pipeline, d->verdict.backend)->new_flows, 1);
	return true;
}

// Begin the flow of packet i. flow: the ended flow that the packet restarts, or negative. absent:
// as in struct weir_flow_start. Returns false if the packet is not forwarded; its verdict is then
// set.
static inline bool begin(struct weir_burst *b, unsigned int i, struct weir_descriptor *d,
	struct new_flows *of, weir_flow_ref flow, bool absent) {
	if (unlikely(of->by_datagram) && d->event == WEIR_FLOW_EVENT_DATAGRAM) {
		return choose_for_datagram(b, d, of);
	}
	if (unlikely(!choose(b, d, of, true))) {
		return false;
	}
	d->verdict.choice = (uint8_t)enter_flow(b, i, d, of, flow, absent);
	if (unlikely(flow >= 0)) {
		weir_new_flow_redirect(b, i);
	}
	return true;
}

static bool same_destination(const struct weir_flow_key *a, const struct weir_flow_key *b) {
	return memcmp(a->destination, b->destination, 16) == 0 &&
	       a->destination_port == b->destination_port && a->family == b->family &&
	       a->protocol == b->protocol;
}

// Find the services of the new flows. Consecutive packets to one destination need only one lookup.
static void find_services(struct weir_burst *b) {
	struct weir_descriptor *const descriptors = b->pipeline->descriptors;
	const struct weir_selection_view *view = NULL;
	const struct weir_flow_key *last = NULL;
	const unsigned int count = b->miss_count;
	uint16_t service = WEIR_SERVICE_NONE;

	if (unlikely(b->services->buckets == NULL)) {
		return; // no service is published
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

unsigned int weir_new_flow_process(
	struct weir_burst *b, unsigned int from, weir_flow_ref *ret_known) {
	struct weir_pipeline *const pipeline = b->pipeline;
	struct weir_descriptor *const descriptors = pipeline->descriptors;
	struct new_flows of = {.service = WEIR_SERVICE_NONE};
	const uint8_t *next = b->misses + from, *const end = b->misses + b->miss_count;

	*ret_known = -ENOENT;
	if (from == 0) {
		find_services(b);
	}
	for (; next < end; next++) {
		unsigned int i = *next;
		struct weir_descriptor *d = &descriptors[i];
		uint16_t service = d->verdict.service;
		weir_flow_ref flow = -ENOENT;
		bool absent = weir_flow_absent(
			pipeline->flows, &d->key, weir_burst_table_hash(b, d, i), of.start.buckets);

		// The flow is known: the SYN is a retransmission, or an earlier packet of the burst
		// began the flow.
		if (unlikely(!absent) && weir_lookup_slow(b, i, &flow)) {
			pipeline->pending.flow_hits++;
			if (d->event == WEIR_FLOW_EVENT_SYN) {
				*ret_known = flow;
				return (unsigned int)(next - b->misses) + 1;
			}
			continue;
		}
		// A drained bind still accepts packets of existing flows.
		if (unlikely(service == WEIR_SERVICE_NONE) && !is_first(d)) {
			service = weir_burst_existing_service(b, &d->key);
			d->verdict.service = service;
		}
		if (unlikely(service != of.service)) {
			new_flows_of(b, service, &of);
		}
		if (unlikely(service == WEIR_SERVICE_NONE)) {
			weir_closed_port(b, i);
			weir_burst_report(b, i);
		} else if (d->event == WEIR_FLOW_EVENT_DATAGRAM &&
			   unlikely(weir_burst_vip_source(b, i))) {
			weir_burst_report(b, i);
		} else if (unlikely(!begin(b, i, d, &of, flow, absent))) {
			weir_burst_report(b, i);
		} else {
			weir_burst_forward(b, i);
		}
	}
	return b->miss_count;
}
