// SPDX-License-Identifier: BSD-3-Clause
#include "move_flow.h"

#include <errno.h>

#include "closed_port.h"
#include "flow_life.h"
#include "new_flow.h"
#include "reset.h"
#include "source.h"

static weir_flow_ref lookup(const struct weir_burst *b, unsigned int i) {
	const struct weir_descriptor *d = &b->pipeline->descriptors[i];

	return d->kind == WEIR_PACKET_FLOW ? weir_flow_lookup(b->pipeline->flows, &d->key,
						     weir_burst_table_hash(b, d, i), b->now_ns)
					   : -ENOENT;
}

static void decide(struct weir_descriptor *d, uint16_t backend) {
	d->verdict.backend = backend;
	d->verdict.choice = WEIR_CHOICE_REPLACED;
}

static void count(uint64_t *of_backend, uint64_t *of_service) {
	weir_counter_add(of_backend, 1);
	weir_counter_add(of_service, 1);
}

static void count_rehashed(struct weir_pipeline *pipeline, uint16_t backend) {
	uint16_t service = pipeline->owner[backend];

	count(&weir_burst_backend_counters(pipeline, backend)->rehashed,
		&weir_burst_service_counters(pipeline, service)->rehashed);
}

// Move the flow to the backend in the packet's verdict.
static void move(struct weir_burst *b, const struct weir_descriptor *d, weir_flow_ref flow,
	const struct weir_flow_start *start) {
	struct weir_pipeline *pipeline = b->pipeline;
	enum weir_flow_state state;

	count_rehashed(pipeline, weir_flow_backend(pipeline->flows, flow));
	weir_flow_restart(pipeline->flows, flow, start, WEIR_FLOW_END_EVICTED);
	state = weir_flow_state(pipeline->flows, flow);
	weir_new_flow_started(pipeline, start->backend, d->verdict.service, &d->key, start->event,
		state == WEIR_FLOW_SYN_SEEN || state == WEIR_FLOW_UDP_SEEN, b->now_ns);
}

// Chooses another backend for a flow that must leave its backend (weir_new_flow_choose). Returns
// the headers of the new backend, or NULL if no backend is chosen, or a backend that is removed or
// closed, because the selection can be older than the rows.
static const struct weir_outer *choose_another(struct weir_burst *b, struct weir_descriptor *d) {
	uint16_t service = weir_burst_existing_service(b, &d->key);
	const struct weir_outer *outer;
	uint16_t backend;

	if (service == WEIR_SERVICE_NONE) {
		return NULL;
	}
	backend = weir_new_flow_choose(b, service, d);
	outer = weir_move_outer(b, backend);
	if (outer == NULL || (outer->head.flags & WEIR_BACKEND_CLOSED) != 0) {
		return NULL;
	}
	d->verdict.service = service;
	decide(d, backend);
	return outer;
}

// --- SYNs -----------------------------------------------------------------------------------

// The SYN of an established flow may be forged. Therefore an established flow moves only if its
// backend is down.
static bool must_move(const struct weir_burst *b, weir_flow_ref flow, uint32_t flags) {
	enum weir_flow_state state = weir_flow_state(b->pipeline->flows, flow);

	return (flags & WEIR_BACKEND_DOWN) != 0 ||
	       (state != WEIR_FLOW_ESTABLISHED && state != WEIR_FLOW_YOUNG);
}

// Returns whether the backend is at its limit and the service rejects new flows at the limit.
static bool may_reject(const struct weir_pipeline *pipeline, uint16_t service, uint16_t backend) {
	const struct weir_policy_client *client = &pipeline->clients[service];

	return client->settings.when_exhausted == WEIR_EXHAUSTED_REJECT &&
	       !weir_policy_would_admit(&pipeline->policy, client, backend);
}

// Returns whether another backend accepts a new flow of this key. Uses the Maglev fallback,
// because the policy would count the flow.
static bool has_another(const struct weir_burst *b, const struct weir_descriptor *d) {
	const struct weir_pipeline *pipeline = b->pipeline;
	uint16_t service = weir_burst_service(b, &d->key);
	const struct weir_outer *outer;
	uint16_t backend;

	if (service == WEIR_SERVICE_NONE) {
		return false;
	}
	backend = weir_source_fallback_of(
		pipeline, weir_reader_selection(&pipeline->reader, service), service, d);
	outer = weir_move_outer(b, backend);
	return outer != NULL && (outer->head.flags & WEIR_BACKEND_CLOSED) == 0 &&
	       !may_reject(pipeline, service, backend);
}

static bool is_group_frame(const struct rte_mbuf *m) {
	const uint8_t *frame = rte_pktmbuf_mtod(m, const uint8_t *);

	return ((frame[0] | frame[6]) & 1) != 0;
}

// Replies with a challenge ACK to a SYN of an established flow whose backend accepts no new flows.
// If the SYN were forwarded, a backend without state of the old connection would accept it as a new
// connection.
//
// If the client has really sent the SYN, it replies to the challenge with an RST, which ends the
// flow. The client's next SYN then starts a new flow.
//
// The SYN is forwarded to the backend if a challenge was already sent and not answered (a
// firewall may drop challenges), or if a challenge cannot be sent.
static void challenge(struct weir_burst *b, unsigned int i, weir_flow_ref flow) {
	struct weir_pipeline *pipeline = b->pipeline;
	struct weir_descriptor *d = &pipeline->descriptors[i];

	if (weir_flow_is_challenged(pipeline->flows, flow) || is_group_frame(b->pkts[i]) ||
		weir_burst_is_vip(b, d->key.source, d->key.family) || !has_another(b, d) ||
		!weir_icmp_limit_ready(&pipeline->challenge_limit, b->now_ns) ||
		weir_reset_challenge(b->pkts[i], d) < 0) {
		return;
	}
	weir_flow_challenge(pipeline->flows, flow, b->now_ns);
	d->verdict.service = pipeline->owner[d->verdict.backend];
	weir_burst_reply(b, d, &pipeline->challenge_limit);
	pipeline->pending.replied++;
	weir_burst_cancel_forward(b, i);
}

void weir_move_syn(struct weir_burst *b, unsigned int i, weir_flow_ref flow) {
	struct weir_pipeline *pipeline = b->pipeline;
	struct weir_descriptor *d = &pipeline->descriptors[i];
	const struct weir_outer *outer = weir_move_outer(b, d->verdict.backend);
	struct weir_summary *s = &pipeline->summaries[i];
	struct weir_flow_start start;

	if (likely(outer == NULL || (outer->head.flags & WEIR_BACKEND_CLOSED) == 0)) {
		return;
	}
	if (!must_move(b, flow, outer->head.flags)) {
		challenge(b, i, flow);
		return;
	}
	if (choose_another(b, d) == NULL) {
		return;
	}
	start = weir_new_flow_start(b, d);
	move(b, d, flow, &start);
	if (s->family != 0) {
		s->backend = d->verdict.backend;
	}
	weir_new_flow_redirect(b, i);
}

// --- removed backends -----------------------------------------------------------------------

static void end_flow(struct weir_pipeline *pipeline, weir_flow_ref flow, uint64_t now_ns) {
	if (flow >= 0) {
		weir_flow_remove(pipeline->flows, flow, WEIR_FLOW_END_EVICTED, now_ns);
	}
}

// Returns the headers of the backend to which an earlier packet of the burst has moved the flow, or
// NULL if the flow was not moved.
static const struct weir_outer *follow(
	const struct weir_burst *b, struct weir_descriptor *d, weir_flow_ref flow) {
	const struct weir_outer *outer;
	uint16_t backend;

	if (flow < 0) {
		return NULL;
	}
	backend = weir_flow_backend(b->pipeline->flows, flow);
	outer = backend != d->verdict.backend ? weir_move_outer(b, backend) : NULL;
	if (outer != NULL) {
		decide(d, backend);
	}
	return outer;
}

const struct weir_outer *weir_move_from_gone(struct weir_burst *b, unsigned int i) {
	struct weir_pipeline *pipeline = b->pipeline;
	struct weir_descriptor *d = &pipeline->descriptors[i];
	weir_flow_ref flow = lookup(b, i);
	const struct weir_outer *outer = follow(b, d, flow);
	uint16_t backend;

	if (outer != NULL) {
		return outer;
	}
	d->verdict.backend = WEIR_BACKEND_NONE;
	d->verdict.service = weir_burst_existing_service(b, &d->key);
	if (d->verdict.service == WEIR_SERVICE_NONE) {
		end_flow(pipeline, flow, b->now_ns);
		if (d->kind == WEIR_PACKET_FLOW) {
			weir_closed_port(b, i);
		} else {
			weir_burst_to_kernel(b, d);
		}
		return NULL;
	}
	backend = weir_source_fallback_of(pipeline,
		weir_reader_selection(&pipeline->reader, d->verdict.service), d->verdict.service,
		d);
	if (backend == WEIR_BACKEND_NONE) {
		end_flow(pipeline, flow, b->now_ns);
		weir_burst_drop(b, d, WEIR_DROP_NO_BACKEND);
		return NULL;
	}
	outer = weir_move_outer(b, backend);
	if (outer == NULL) {
		weir_burst_drop(b, d, WEIR_DROP_BACKEND_GONE);
		return NULL;
	}
	decide(d, backend);
	if (flow >= 0) {
		struct weir_flow_start start = weir_new_flow_start(b, d);

		start.measured = false; // the start time is unknown
		move(b, d, flow, &start);
	}
	return outer;
}

// --- backends that are down -----------------------------------------------------------------

// Forward a packet of a TCP connection to another backend, which replies with an RST. The moved
// flow is half-open, or closing after a FIN, and soon times out, unless the client sends more
// packets.
static const struct weir_outer *rehash(struct weir_burst *b, struct weir_descriptor *d,
	weir_flow_ref flow, const struct weir_outer *outer) {
	struct weir_pipeline *pipeline = b->pipeline;
	uint16_t service = weir_burst_existing_service(b, &d->key);
	struct weir_flow_start start;
	const struct weir_outer *other;
	uint16_t backend;

	if (service == WEIR_SERVICE_NONE) {
		return outer;
	}
	backend = weir_source_fallback_of(
		pipeline, weir_reader_selection(&pipeline->reader, service), service, d);
	other = weir_move_outer(b, backend);
	if (other == NULL || (other->head.flags & WEIR_BACKEND_CLOSED) != 0) {
		return outer;
	}
	d->verdict.service = service;
	decide(d, backend);
	start = weir_new_flow_start(b, d);
	start.measured = false; // the start time is unknown
	if (start.event == WEIR_FLOW_EVENT_DATA || start.event == WEIR_FLOW_EVENT_ACK) {
		start.event = WEIR_FLOW_EVENT_SYN;
		start.joined = true;
	}
	move(b, d, flow, &start);
	return other;
}

// Reply with an RST in place of the backend, and end the flow. Sets a verdict and returns NULL.
// Exception: a packet with a wrong checksum, which the backend would ignore, is forwarded to the
// backend; the function then returns the headers of the backend.
static const struct weir_outer *reset(
	struct weir_burst *b, unsigned int i, weir_flow_ref flow, const struct weir_outer *outer) {
	struct weir_pipeline *pipeline = b->pipeline;
	struct weir_descriptor *d = &pipeline->descriptors[i];
	uint16_t backend = d->verdict.backend;
	int r;

	d->verdict.service = outer->head.service;
	if (!weir_burst_may_reply(b, i, &pipeline->reset_limit, WEIR_DROP_RESET_RATE)) {
		return NULL;
	}
	r = weir_reset(b->pkts[i], d);
	if (r == -EBADMSG) { // the packet has a wrong checksum
		return outer;
	}
	if (r < 0) {
		weir_burst_drop(b, d, WEIR_DROP_HEADROOM);
		return NULL;
	}
	if (flow >= 0) {
		count(&weir_burst_backend_counters(pipeline, backend)->reset,
			&weir_burst_service_counters(pipeline, pipeline->owner[backend])->reset);
		end_flow(pipeline, flow, b->now_ns);
	}
	weir_burst_count_drop(b, d, WEIR_DROP_BACKEND_DOWN);
	weir_burst_reply(b, d, &pipeline->reset_limit);
	return NULL;
}

static const struct weir_outer *move_datagram(struct weir_burst *b, struct weir_descriptor *d,
	weir_flow_ref flow, const struct weir_outer *outer) {
	const struct weir_outer *other = choose_another(b, d);
	struct weir_flow_start start;

	if (other == NULL) {
		return outer;
	}
	start = weir_new_flow_start(b, d);
	start.measured = false; // the start time is unknown
	move(b, d, flow, &start);
	return other;
}

enum remedy { KEEP, MOVE, REHASH, RESET };

// Returns true if the bind of the packet was removed and its drain has ended. Then a SYN to the
// bind is not forwarded.
static bool has_ended(const struct weir_burst *b, const struct weir_descriptor *d, uint32_t flags) {
	return (flags & WEIR_BACKEND_RESET) != 0 &&
	       weir_burst_existing_service(b, &d->key) == WEIR_SERVICE_NONE;
}

static enum remedy remedy_of(
	const struct weir_burst *b, const struct weir_descriptor *d, uint32_t flags) {
	if (d->kind != WEIR_PACKET_FLOW) {
		return KEEP;
	}
	switch ((enum weir_flow_event)d->event) {
	case WEIR_FLOW_EVENT_DATAGRAM:
		return MOVE;
	// A SYN needs no other backend here: earlier stages have already chosen a usable backend,
	// if there is one.
	case WEIR_FLOW_EVENT_SYN:
		return has_ended(b, d, flags) ? RESET : KEEP;
	case WEIR_FLOW_EVENT_RST: // ends the connection at the backend, if the backend is up
		return KEEP;
	case WEIR_FLOW_EVENT_DATA:
	case WEIR_FLOW_EVENT_ACK:
	case WEIR_FLOW_EVENT_FIN:
		break;
	}
	return (flags & WEIR_BACKEND_RESET) != 0    ? RESET
	       : (flags & WEIR_BACKEND_REHASH) != 0 ? REHASH
						    : KEEP;
}

const struct weir_outer *weir_move_from_down(
	struct weir_burst *b, unsigned int i, const struct weir_outer *outer) {
	struct weir_descriptor *d = &b->pipeline->descriptors[i];
	enum remedy remedy = remedy_of(b, d, outer->head.flags);
	const struct weir_outer *other;
	weir_flow_ref flow;

	if (remedy == KEEP) {
		return outer;
	}
	flow = lookup(b, i);
	other = follow(b, d, flow);
	if (other != NULL) {
		return other;
	}
	if (remedy == RESET) {
		return reset(b, i, flow, outer);
	}
	if (flow < 0) { // no entry: the pipeline has chosen the backend for this packet
		return outer;
	}
	return remedy == MOVE ? move_datagram(b, d, flow, outer) : rehash(b, d, flow, outer);
}
