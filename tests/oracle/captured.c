// SPDX-License-Identifier: BSD-3-Clause
#include "captured.h"

#include "capture.h"
#include "fuzz.h"
#include "packet_match.h"

#define INTERVAL_NS 1000 // so short that the rate limit of the capture allows a whole burst

static const struct weir_capture_terms any = {.interval_ns = INTERVAL_NS,
	.snap_bytes = WEIR_CAPTURE_SNAP_MOST,
	.service = WEIR_SERVICE_NONE,
	.backend = WEIR_BACKEND_NONE};

static struct weir_capture_packet *take(const struct rig *rig, uint64_t number) {
	static struct weir_capture_packet packet;

	return weir_capture_take(rig->memory.control, 0, number, &packet) ? &packet : NULL;
}

static uint64_t order(const struct rig *rig, const struct weir_capture_terms *terms) {
	return weir_capture_order(rig->memory.control, terms, UINT64_MAX);
}

// Check that the captured bytes are the packet as received, up to the requested length.
static void check_data(
	const struct weir_capture_packet *packet, const struct frame *frame, uint32_t snap_bytes) {
	const uint32_t saved = frame->n < snap_bytes ? frame->n : snap_bytes;

	REQUIRE(packet->record.length == frame->n && packet->record.saved == saved);
	REQUIRE(saved == 0 || memcmp(packet->data, frame->bytes, saved) == 0);
}

// --- packets of a flow --------------------------------------------------------------------------

static void add_flow(const struct key *key, struct weir_capture_terms *terms) {
	terms->protocol = key->protocol;
	terms->source_port = (uint16_t)get16(key->ports);
	terms->destination_port = (uint16_t)get16(key->ports + 2);
	terms->client_family = key->family;
	terms->client_bits = key->family == 4 ? 32 : 128;
	terms->destination_family = key->family;
	memcpy(terms->client, key->source, 16);
	memcpy(terms->destination, key->destination, 16);
}

static void check_flow(struct rig *rig, struct rte_mbuf *m, const struct frame *frame,
	const struct key *key, uint8_t in_port) {
	struct weir_capture_terms terms = any;
	struct weir_capture_packet *packet;
	uint64_t number;

	terms.snap_bytes = WEIR_CAPTURE_SNAP_LEAST;
	add_flow(key, &terms);
	number = order(rig, &terms);
	weir_packet_capture_dropped(
		rig->capture, &m, 1, in_port, WEIR_DROP_HANDOFF_FULL, rig->now_ns);
	packet = take(rig, number);
	REQUIRE(packet != NULL && packet->record.reason == WEIR_DROP_HANDOFF_FULL);
	check_data(packet, frame, terms.snap_bytes);
	REQUIRE(take(rig, number) == NULL);
	terms.destination[0] ^= 1;
	(void)order(rig, &terms);
	weir_packet_capture_dropped(
		rig->capture, &m, 1, in_port, WEIR_DROP_HANDOFF_FULL, rig->now_ns);
	REQUIRE(take(rig, number + 1) == NULL);
}

void captured_flows(struct rig *rig, struct rig_burst *burst, uint8_t in_port) {
	for (uint32_t i = 0; i < burst->judged.n; i++) {
		const struct frame *frame = &burst->seen[i].frame;
		struct view view;

		view_frame(rig->plan, frame, &view);
		if (view.kind == VIEW_FLOW) {
			check_flow(rig, burst->pkts[i], frame, &view.key, in_port);
		}
	}
}

// --- all packets --------------------------------------------------------------------------------

void captured_begin(struct rig *rig, struct rig_burst *burst, uint8_t in_port) {
	uint16_t n = (uint16_t)burst->judged.n;

	rig->captured = order(rig, &any);
	REQUIRE(weir_packet_capture_begin(rig->capture, burst->pkts, &n, in_port, rig->now_ns) ==
		(n > 0));
	REQUIRE(n == burst->judged.n); // not an order for one flow
}

static void check_record(
	const struct weir_capture_record *record, const struct weir_verdict *verdict) {
	const bool sent =
		verdict->action == WEIR_ACTION_FORWARD || verdict->action == WEIR_ACTION_REPLY;

	REQUIRE(record->action == verdict->action && record->reason == verdict->reason &&
		record->choice == verdict->choice);
	REQUIRE(record->service == verdict->service && record->backend == verdict->backend);
	REQUIRE(record->out_port == (sent ? verdict->port : WEIR_CAPTURE_NONE));
}

void captured_end(struct rig *rig, struct rig_burst *burst, const struct weir_verdict *verdicts) {
	const struct weir_capture_packet *packet;

	if (burst->judged.n == 0) {
		return;
	}
	weir_packet_capture_note(rig->capture, verdicts);
	weir_packet_capture_end(rig->capture);
	for (uint32_t i = 0; i < burst->judged.n; i++) {
		packet = take(rig, rig->captured);
		REQUIRE(packet != NULL);
		check_data(packet, &burst->seen[i].frame, any.snap_bytes);
		check_record(&packet->record, &verdicts[i]);
	}
	REQUIRE(take(rig, rig->captured) == NULL);
}
