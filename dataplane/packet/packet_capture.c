// SPDX-License-Identifier: BSD-3-Clause
#include "packet_capture.h"

#include <errno.h>

#include <rte_malloc.h>

#include "burst.h"
#include "packet_match.h"
#include "parse.h"

#define AHEAD 4u // packets whose first bytes are prefetched
#define UNDESCRIBED 0xff // not a value of enum weir_packet_kind

_Static_assert(WEIR_BURST <= 64, "a 64-bit mask must have a bit for each packet of a burst");
_Static_assert(WEIR_REASON_NONE == WEIR_CAPTURE_NONE,
	"the values must be equal, because reasons are copied unchanged");
_Static_assert(WEIR_PACKET_KIND_COUNT <= UNDESCRIBED, "UNDESCRIBED must not be a kind of packet");

struct noted { // a packet of the burst
	struct weir_capture_record record;
	struct weir_flow_key flow; // family 0 = no flow
	uint64_t flow_hash; // hash for the lookup in the table
	uint32_t part; // part of the packet's flow; valid if packets carry their part
};

struct weir_packet_capture {
	struct weir_pipeline *pipeline;
	struct weir_capture_ring *ring;
	const struct weir_ring_position *read; // position up to which weir-control has read
	uint64_t number; // number of the capture order with these terms; 0 = no order yet
	bool sound; // the terms are in range
	bool one_flow; // only one flow can match the terms
	struct weir_capture_terms terms;
	struct weir_icmp_limit limit;
	uint64_t now_ns; // time of the burst
	uint64_t candidates; // bit i: the first bytes of packet i were saved
	struct noted noted[WEIR_BURST];
	// First bytes of each packet. The last element is for packets outside of a burst.
	uint8_t data[WEIR_BURST + 1][WEIR_CAPTURE_SNAP_MOST];
};

int weir_packet_capture_create(
	struct weir_pipeline *pipeline, int socket, struct weir_packet_capture **ret) {
	const struct weir_segment *segment = pipeline->segment;
	struct weir_packet_capture *capture =
		rte_zmalloc_socket("capture", sizeof(*capture), RTE_CACHE_LINE_SIZE, socket);

	if (capture == NULL) {
		return -ENOMEM;
	}
	capture->pipeline = pipeline;
	capture->ring = &segment->capture_rings[pipeline->worker];
	capture->read = &segment->capture_control->read[pipeline->worker];
	*ret = capture;
	return 0;
}

void weir_packet_capture_free(struct weir_packet_capture *capture) {
	rte_free(capture);
}

// --- the order ----------------------------------------------------------------------------

static void adopt(struct weir_packet_capture *capture, uint64_t number, uint64_t now_ns) {
	int r = weir_capture_read(capture->pipeline->segment, number, &capture->terms);

	if (r == -EAGAIN) {
		return;
	}
	capture->number = number;
	capture->sound = r == 0;
	capture->one_flow =
		capture->terms.source_port != 0 && capture->terms.destination_port != 0 &&
		capture->terms.client_bits >= (capture->terms.client_family == 6 ? 128 : 32);
	if (r == 0) {
		capture->limit = (struct weir_icmp_limit){.cost_ns = capture->terms.interval_ns,
			.credit_ns = WEIR_CAPTURE_SECOND_NS,
			.last_ns = now_ns};
		weir_capture_begin(capture->ring, number);
	}
}

// Returns whether a capture order is active. Copies the terms of a new order.
static bool is_active(struct weir_packet_capture *capture, uint64_t now_ns) {
	const struct weir_segment *segment = capture->pipeline->segment;
	uint64_t number = weir_capture_wanted(segment);

	if (number == 0 || !weir_capture_is_due(segment, now_ns)) {
		return false;
	}
	if (number != capture->number) {
		adopt(capture, number, now_ns);
	}
	return number == capture->number && capture->sound;
}

// --- saving -------------------------------------------------------------------------------

// Save packet m if it may match the filter of the capture.
static bool save(struct weir_packet_capture *capture, const struct rte_mbuf *m, uint8_t port,
	struct weir_capture_record *record, struct weir_flow_key *key, uint8_t *data) {
	const struct weir_capture_terms *terms = &capture->terms;
	uint32_t wanted = RTE_MAX(terms->snap_bytes, (uint32_t)WEIR_HEADERS_BYTES);
	uint32_t bytes = RTE_MIN(wanted, m->pkt_len);
	// Read the whole first segment, as the parser does, because headers may extend to its end.
	uint32_t readable = RTE_MAX(bytes, m->data_len);
	const uint8_t *frame = rte_pktmbuf_read(m, 0, readable, data);

	if (frame == NULL) {
		bytes = readable = 0;
		frame = data;
	}
	weir_packet_key_read(frame, readable, key);
	if (!weir_packet_matches(terms, key)) {
		return false;
	}
	if (frame != data) {
		memcpy(data, frame, bytes);
	}
	*record = (struct weir_capture_record){.time_ns = capture->now_ns,
		.number = capture->number,
		.length = m->pkt_len,
		.bucket = WEIR_CAPTURE_NO_BUCKET,
		.saved = (uint16_t)RTE_MIN(bytes, terms->snap_bytes),
		.service = WEIR_SERVICE_NONE,
		.backend = WEIR_BACKEND_NONE,
		.port = port,
		.out_port = WEIR_CAPTURE_NONE,
		.action = WEIR_ACTION_DROP,
		.reason = WEIR_CAPTURE_NONE,
		.choice = WEIR_CHOICE_NONE,
		.kind = WEIR_CAPTURE_NONE,
		.event = WEIR_CAPTURE_NONE,
		.path = WEIR_CAPTURE_NONE,
		.flow_state = WEIR_CAPTURE_NONE};
	return true;
}

bool weir_packet_capture_begin(struct weir_packet_capture *capture, struct rte_mbuf *const *pkts,
	uint16_t *n, uint8_t in_port, uint64_t now_ns) {
	struct weir_descriptor *descriptors = capture->pipeline->descriptors;
	const uint16_t count = RTE_MIN(*n, (uint16_t)WEIR_BURST);

	capture->candidates = 0;
	if (!is_active(capture, now_ns)) {
		return false;
	}
	capture->now_ns = now_ns;
	for (uint16_t i = 0; i < RTE_MIN(count, AHEAD); i++) {
		rte_prefetch0(rte_pktmbuf_mtod(pkts[i], const void *));
	}
	for (uint16_t i = 0; i < count; i++) {
		struct noted *noted = &capture->noted[i];

		if (i + AHEAD < count) {
			rte_prefetch0(rte_pktmbuf_mtod(pkts[i + AHEAD], const void *));
		}
		// Mark the descriptor as not written. The mark stays if the packet takes the fast
		// path.
		descriptors[i].kind = UNDESCRIBED;
		if (save(capture, pkts[i], in_port, &noted->record, &noted->flow,
			    capture->data[i])) {
			noted->part = weir_burst_part_of(pkts[i]);
			capture->candidates |= UINT64_C(1) << i;
			if (capture->one_flow && weir_icmp_limit_ready(&capture->limit, now_ns)) {
				*n = (uint16_t)(i + 1);
				break;
			}
		}
	}
	return capture->candidates != 0;
}

// --- data of the pipeline -------------------------------------------------------------------

// Record the hash of a flow's key and, if the flow table has parts, the part that contains the
// flow.
static void note_flow(struct weir_packet_capture *capture, struct noted *noted, uint64_t hash) {
	const struct weir_pipeline *pipeline = capture->pipeline;
	const struct weir_flow_secret *secret = &pipeline->flows->secret;

	noted->record.hash = hash;
	noted->flow_hash = hash;
	if (pipeline->by_rss) {
		noted->record.bucket = noted->part & (WEIR_FLOW_PARTS - 1);
		noted->flow_hash = weir_flow_hash_in_part(secret, &noted->flow, hash, noted->part);
	} else if (pipeline->flows->owned.shift != 0) {
		noted->record.bucket =
			weir_flow_part(secret, weir_flow_bucket_hash(secret, &noted->flow, hash));
	}
}

// Returns the event of a packet. For a TCP packet without a payload, the fast path reports DATA,
// but this function returns ACK, the event that weir_lookup_slow uses.
static uint8_t event_of(const struct weir_descriptor *d, uint32_t length, const uint8_t *data) {
	uint32_t at = (uint32_t)d->l3_offset + d->l4_offset + 12;

	return d->event == WEIR_FLOW_EVENT_DATA && d->key.protocol == WEIR_PROTOCOL_TCP &&
			       at < RTE_MIN(length, (uint32_t)WEIR_HEADERS_BYTES) &&
			       d->ip_bytes <= d->l4_offset + (data[at] >> 4) * 4u
		       ? WEIR_FLOW_EVENT_ACK
		       : d->event;
}

static void note_packet(struct weir_packet_capture *capture, uint32_t i) {
	const struct weir_pipeline *pipeline = capture->pipeline;
	const struct weir_summary *s = &pipeline->summaries[i];
	const struct weir_descriptor *d = &pipeline->descriptors[i];
	struct noted *noted = &capture->noted[i];
	struct weir_capture_record *record = &noted->record;

	if (d->kind == UNDESCRIBED) {
		record->path = WEIR_CAPTURE_PATH_FAST;
		record->kind = WEIR_PACKET_FLOW;
		record->event = s->event;
		note_flow(capture, noted, s->hash);
		return;
	}
	record->path = WEIR_CAPTURE_PATH_SLOW;
	record->kind = d->kind;
	if (d->kind != WEIR_PACKET_FLOW && d->kind != WEIR_PACKET_FRAGMENT_FIRST) {
		noted->flow.family = 0;
		return;
	}
	record->event = event_of(d, record->length, capture->data[i]);
	noted->flow = d->key;
	note_flow(capture, noted, d->hash);
}

void weir_packet_capture_note(
	struct weir_packet_capture *capture, const struct weir_verdict *verdicts) {
	for (uint64_t left = capture->candidates; left != 0; left &= left - 1) {
		uint32_t i = (uint32_t)__builtin_ctzll(left);
		const struct weir_verdict *verdict = &verdicts[i];
		struct weir_capture_record *record = &capture->noted[i].record;

		record->action = verdict->action;
		record->reason = verdict->reason;
		record->choice = verdict->choice;
		record->service = verdict->service;
		record->backend = verdict->backend;
		if (verdict->action == WEIR_ACTION_FORWARD ||
			verdict->action == WEIR_ACTION_REPLY) {
			record->out_port = verdict->port;
		}
		note_packet(capture, i);
	}
}

// If a reply is already counted as dropped for a reason, its record keeps this reason.
void weir_packet_capture_undelivered(
	struct weir_packet_capture *capture, uint32_t i, enum weir_drop_reason reason) {
	struct weir_capture_record *record = &capture->noted[i].record;

	record->action = WEIR_ACTION_DROP;
	if (record->reason == WEIR_CAPTURE_NONE) {
		record->reason = (uint8_t)reason;
	}
}

// --- records ------------------------------------------------------------------------------

static bool is_wanted(
	const struct weir_capture_terms *terms, const struct weir_capture_record *record) {
	if (terms->actions == 0 ? record->action == WEIR_ACTION_OFFER
				: (terms->actions >> record->action & 1) == 0) {
		return false;
	}
	if (terms->reasons != 0 && (record->reason == WEIR_CAPTURE_NONE ||
					   (terms->reasons >> record->reason & 1) == 0)) {
		return false;
	}
	return (terms->service == WEIR_SERVICE_NONE || terms->service == record->service) &&
	       (terms->backend == WEIR_BACKEND_NONE || terms->backend == record->backend);
}

// Writes a matching record to the ring, unless the rate limit is reached.
static void put(struct weir_packet_capture *capture, struct weir_capture_record *record,
	const uint8_t *data) {
	if (!weir_icmp_limit_ready(&capture->limit, capture->now_ns)) {
		weir_counter_add(&capture->ring->limited, 1);
		return;
	}
	record->tables = capture->pipeline->reader.selections_seen;
	if (!weir_capture_put(capture->ring, capture->read, record, data)) {
		weir_counter_add(&capture->ring->lost, 1);
		return;
	}
	weir_icmp_limit_take(&capture->limit);
}

void weir_packet_capture_end(struct weir_packet_capture *capture) {
	const struct weir_flow_table *flows = capture->pipeline->flows;

	for (uint64_t left = capture->candidates; left != 0; left &= left - 1) {
		uint32_t i = (uint32_t)__builtin_ctzll(left);
		struct noted *noted = &capture->noted[i];

		if (!is_wanted(&capture->terms, &noted->record)) {
			continue;
		}
		if (noted->record.hash != 0 && noted->flow.family != 0) {
			weir_flow_ref flow = weir_flow_lookup_owned(
				flows, &noted->flow, noted->flow_hash, capture->now_ns);

			if (flow >= 0) {
				noted->record.flow_state = (uint8_t)weir_flow_state(flows, flow);
			}
		}
		put(capture, &noted->record, capture->data[i]);
	}
	capture->candidates = 0;
}

void weir_packet_capture_dropped(struct weir_packet_capture *capture, struct rte_mbuf *const *pkts,
	uint32_t n, uint8_t port, enum weir_drop_reason reason, uint64_t now_ns) {
	uint8_t *data = capture->data[WEIR_BURST];

	if (!is_active(capture, now_ns)) {
		return;
	}
	capture->now_ns = now_ns;
	for (uint32_t i = 0; i < n; i++) {
		struct weir_capture_record record;
		struct weir_flow_key key;

		if (save(capture, pkts[i], port, &record, &key, data)) {
			record.reason = (uint8_t)reason;
			if (is_wanted(&capture->terms, &record)) {
				put(capture, &record, data);
			}
		}
	}
}
