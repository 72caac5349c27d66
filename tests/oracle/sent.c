// SPDX-License-Identifier: BSD-3-Clause
//
// Part of the judge: checks the sent packets and the counters.
#include "fuzz.h"
#include "judge.h"
#include "segment.h"

static bool wrong_bytes(struct judge *judge, uint32_t i, const char *what, const uint8_t *got,
	uint32_t got_n, uint32_t want_n) {
	uint32_t at = 0;

	while (at < got_n && at < want_n && got[at] == judge->scratch[at]) {
		at++;
	}
	judge_fail(judge, (int)i, "%s differs at byte %u: %u bytes, expected %u\ncame     ", what,
		at, got_n, want_n);
	for (uint32_t k = at > 8 ? at - 8 : 0; k < got_n && k < at + 40; k++) {
		judge_fail(judge, (int)i, "%02x", got[k]);
	}
	judge_fail(judge, (int)i, "\nexpected ");
	for (uint32_t k = at > 8 ? at - 8 : 0; k < want_n && k < at + 40; k++) {
		judge_fail(judge, (int)i, "%02x", judge->scratch[k]);
	}
	return judge_fail(judge, (int)i, "\n");
}

// Identification of an outer packet that is sent in fragments.
static uint32_t id_of(const struct output_path *output, const uint8_t *frame, uint32_t n) {
	uint32_t bytes, at = output_id_at(output, &bytes);

	if (!output->outer || n < at + bytes) {
		return 0;
	}
	return bytes == 2 ? get16(frame + at) : get32(frame + at);
}

// Find the other fragments of a packet among the packets created by the burst. They must be
// adjacent and in order.
static bool claim_pieces(struct judge *judge, struct judged_burst *burst, uint32_t i,
	const struct output_path *output, uint32_t id) {
	const struct view *view = &burst->seen[i].view;
	uint32_t others = output->pieces - 1;

	for (uint32_t from = 0; from + others <= burst->extra_count; from++) {
		uint32_t k = 0;

		while (k < others && !burst->extras[from + k].claimed) {
			const struct extra *extra = &burst->extras[from + k];
			uint32_t n = output_piece(view, output, k + 1, id, judge->scratch);

			if (extra->n != n || memcmp(extra->bytes, judge->scratch, n) != 0) {
				break;
			}
			k++;
		}
		if (k == others) {
			for (k = 0; k < others; k++) {
				burst->extras[from + k].claimed = true;
			}
			return true;
		}
	}
	return judge_fail(judge, (int)i, "%u further pieces are not there, or not right\n", others);
}

// Returns the number of bytes behind the packet in its buffer.
static uint32_t room_of(const struct seen *seen) {
	if (seen->segments) { // the buffer of the last segment may have room for padding
		return seen->out_n == OUTPUT_FRAME_MIN ? OUTPUT_FRAME_MIN : 0;
	}
	return seen->frame.n + seen->tailroom - seen->view.l3 - seen->view.ip_bytes;
}

bool judge_is_sent(const struct plan *plan, const struct seen *seen) {
	uint8_t wanted[OUTPUT_FRAME_MAX];
	struct output_path output;
	uint32_t n;

	output_plan(plan, &seen->view, seen->verdict.backend, seen->hash, room_of(seen), &output);
	if (seen->verdict.action != WEIR_ACTION_FORWARD) {
		return true;
	}
	n = output.pieces == 0 ? 0
			       : output_piece(&seen->view, &output, 0,
					 id_of(&output, seen->out, seen->out_n), wanted);
	return n > 0 && n == seen->out_n && memcmp(wanted, seen->out, n) == 0;
}

static void add_share(struct judged_share *share, uint64_t packets, uint64_t bytes) {
	share->packets += packets;
	share->bytes += bytes;
}

static bool judge_forwarded(struct judge *judge, struct judged_burst *burst, uint32_t i) {
	const struct seen *seen = &burst->seen[i];
	uint16_t backend = seen->verdict.backend;
	const struct weir_backend_path *path = &judge->plan->backends[backend].path;
	uint64_t bytes = seen->view.ip_bytes;
	struct output_path output;
	uint32_t n, id;

	output_plan(judge->plan, &seen->view, backend, seen->hash, room_of(seen), &output);
	REQUIRE(output.pieces > 0 && output.pieces <= OUTPUT_PIECES_MAX);
	if (seen->verdict.port != path->port || seen->verdict.service != path->service) {
		return judge_fail(judge, (int)i, "wrong port %u or service %u\n",
			seen->verdict.port, seen->verdict.service);
	}
	id = id_of(&output, seen->out, seen->out_n);
	n = output_piece(&seen->view, &output, 0, id, judge->scratch);
	if (n != seen->out_n || memcmp(judge->scratch, seen->out, n) != 0) {
		return wrong_bytes(judge, i, "packet to a backend", seen->out, seen->out_n, n);
	}
	judge->forwarded += output.pieces;
	judge->fragments_made += output.pieces - 1;
	judge->fragmented += output.pieces > 1;
	if (output.pieces > 1 && !output.outer) { // each fragment has a separate inner header
		uint32_t l2 = output_l2_bytes(path), outer = output_outer_bytes(path);

		bytes = 0;
		for (uint32_t k = 0; k < output.pieces; k++) {
			(void)output_piece(&seen->view, &output, k, id, judge->scratch);
			bytes += get16(judge->scratch + l2 + outer + 2); // the total length
		}
	}
	add_share(&judge->backends[backend], output.pieces, bytes);
	add_share(&judge->services[path->service], output.pieces, bytes);
	return output.pieces == 1 || claim_pieces(judge, burst, i, &output, id);
}

static enum output_kind reply_kind(const struct seen *seen) {
	switch (seen->verdict.reason) {
	case WEIR_REASON_NONE:
		return seen->verdict.backend == WEIR_BACKEND_NONE ? OUTPUT_ECHO : OUTPUT_CHALLENGE;
	case WEIR_DROP_MTU_EXCEEDED:
		return OUTPUT_TOO_BIG;
	case WEIR_DROP_BACKEND_DOWN:
		return OUTPUT_RESET;
	default:
		return seen->view.key.protocol == 6 ? OUTPUT_RESET : OUTPUT_UNREACHABLE;
	}
}

// Returns the MTU in a "too big" message.
static uint32_t reported_mtu(const struct judge *judge, const struct seen *seen) {
	const struct weir_backend_path *path;
	uint32_t mtu;

	if (seen->verdict.reason != WEIR_DROP_MTU_EXCEEDED) {
		return 0;
	}
	path = &judge->plan->backends[seen->verdict.backend].path;
	mtu = path->mtu - output_outer_bytes(path);
	return seen->view.key.family == 6 && mtu < 1280 ? 1280 : mtu;
}

static bool judge_replied(struct judge *judge, struct judged_burst *burst, uint32_t i) {
	const struct seen *seen = &burst->seen[i];
	uint32_t end, padded;
	uint32_t n = output_reply(&seen->frame, &seen->view, reply_kind(seen), seen->tag,
		reported_mtu(judge, seen), judge->scratch, &end);
	uint32_t room = seen->frame.n + seen->tailroom - end;

	if (seen->verdict.port != burst->in_port) {
		return judge_fail(judge, (int)i, "replied on port %u\n", seen->verdict.port);
	}
	padded = n < OUTPUT_FRAME_MIN ? OUTPUT_FRAME_MIN : n;
	memset(judge->scratch + n, 0, padded - n);
	if (seen->segments ? seen->out_n == n : room < padded - n) {
		padded = n; // the buffer may have no room for padding
	}
	if (seen->out_n != padded || memcmp(judge->scratch, seen->out, padded) != 0) {
		return wrong_bytes(judge, i, "reply", seen->out, seen->out_n, padded);
	}
	if (seen->verdict.reason == WEIR_REASON_NONE) {
		judge->replied++;
	}
	return true;
}

static bool judge_sent(struct judge *judge, struct judged_burst *burst, uint32_t i) {
	const struct seen *seen = &burst->seen[i];
	const struct weir_verdict *verdict = &seen->verdict;

	if (verdict->reason != WEIR_REASON_NONE) {
		judge->dropped++;
		judge->drops[verdict->reason]++;
		if (verdict->backend != WEIR_BACKEND_NONE) {
			judge->backends[verdict->backend].dropped++;
		}
		if (verdict->service != WEIR_SERVICE_NONE) {
			judge->services[verdict->service].dropped++;
		}
	}
	judge->chosen[verdict->choice]++;
	switch ((enum weir_action)verdict->action) {
	case WEIR_ACTION_FORWARD:
		return judge_forwarded(judge, burst, i);
	case WEIR_ACTION_REPLY:
		return judge_replied(judge, burst, i);
	case WEIR_ACTION_KERNEL:
		judge->to_kernel++;
		if (seen->out_n != seen->frame.n ||
			memcmp(seen->out, seen->frame.bytes, seen->out_n) != 0) {
			return judge_fail(judge, (int)i, "a packet for the kernel was changed\n");
		}
		return true;
	case WEIR_ACTION_DROP:
	case WEIR_ACTION_OFFER:
		break;
	}
	return true;
}

bool judge_outputs(struct judge *judge, struct judged_burst *burst) {
	for (uint32_t i = 0; i < burst->n; i++) {
		judge->packets++;
		judge->bytes += burst->seen[i].frame.n;
		if (!judge_sent(judge, burst, i)) {
			return false;
		}
	}
	for (uint32_t k = 0; k < burst->extra_count; k++) {
		if (!burst->extras[k].claimed) {
			return judge_fail(judge, -1,
				"packet %u of those that the burst made belongs to none\n", k);
		}
	}
	return true;
}

// --- sums -------------------------------------------------------------------------------------

static bool same(struct judge *judge, const char *what, uint64_t got, uint64_t want) {
	if (got == want) {
		return true;
	}
	return judge_fail(judge, -1, "counter %s is %llu, expected %llu\n", what,
		(unsigned long long)got, (unsigned long long)want);
}

static bool within(struct judge *judge, const char *what, uint64_t got, struct flow_bounds bounds) {
	if (got >= bounds.least && got <= bounds.most) {
		return true;
	}
	return judge_fail(judge, -1, "%s: %llu, expected %u to %u\n", what, (unsigned long long)got,
		bounds.least, bounds.most);
}

static bool same_flows(struct judge *judge, const struct weir_segment *segment, uint64_t now_ns) {
	const struct weir_worker_counters *c = &segment->worker_counters[0];
	uint64_t active = 0;

	flows_count(&judge->flows, judge->plan, now_ns, &judge->counts);
	if (!within(judge, "flows", c->flows, judge->counts.all) ||
		!within(judge, "half-open flows", c->flows_half_open, judge->counts.half_open)) {
		return false;
	}
	for (uint32_t i = 0; i < PLAN_BACKENDS; i++) {
		const struct weir_share_counters *s = weir_segment_backend_counters(segment, 0, i);

		active += s->active_flows;
		if (!within(judge, "active flows of a backend", s->active_flows,
			    judge->counts.of_backend[i]) ||
			s->open_flows > s->active_flows) {
			return judge_fail(judge, -1, "that is backend %u, with %llu open ones\n", i,
				(unsigned long long)s->open_flows);
		}
	}
	return same(judge, "active_flows of all backends", active, c->flows);
}

static bool same_share(struct judge *judge, const struct weir_share_counters *got,
	const struct judged_share *want) {
	return same(judge, "packets", got->packets, want->packets) &&
	       same(judge, "bytes", got->bytes, want->bytes) &&
	       same(judge, "dropped", got->dropped, want->dropped);
}

bool judge_counters(
	struct judge *judge, const struct weir_segment *segment, bool flows, uint64_t now_ns) {
	const struct weir_worker_counters *c = &segment->worker_counters[0];

	if (!same(judge, "rx_packets", c->rx_packets, judge->packets) ||
		!same(judge, "rx_bytes", c->rx_bytes, judge->bytes) ||
		!same(judge, "forwarded", c->forwarded, judge->forwarded) ||
		!same(judge, "replied", c->replied, judge->replied) ||
		!same(judge, "to_kernel", c->to_kernel, judge->to_kernel) ||
		!same(judge, "dropped", c->dropped, judge->dropped) ||
		!same(judge, "fragmented", c->fragmented, judge->fragmented) ||
		!same(judge, "fragments_made", c->fragments_made, judge->fragments_made) ||
		!same(judge, "packets out", judge->packets + judge->fragments_made,
			judge->forwarded + judge->replied + judge->to_kernel + judge->dropped)) {
		return false;
	}
	for (uint32_t i = 0; i < WEIR_DROP_REASON_COUNT; i++) {
		if (!same(judge, weir_drop_reason_name((enum weir_drop_reason)i), c->drops[i],
			    judge->drops[i])) {
			return false;
		}
	}
	if (!flows) {
		return true;
	}
	for (uint32_t i = 0; i < PLAN_BACKENDS; i++) {
		if (!same_share(judge, weir_segment_backend_counters(segment, 0, i),
			    &judge->backends[i])) {
			return judge_fail(judge, -1, "of backend %u\n", i);
		}
	}
	for (uint32_t i = 0; i < PLAN_SERVICES; i++) {
		if (!same_share(judge, weir_segment_service_counters(segment, 0, i),
			    &judge->services[i])) {
			return judge_fail(judge, -1, "of service %u\n", i);
		}
	}
	return same_flows(judge, segment, now_ns);
}
