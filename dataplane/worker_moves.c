// SPDX-License-Identifier: BSD-3-Clause
#include "worker_private.h"

#include "departure.h"
#include "pipeline_parts.h"

// Time after which a move no longer waits for a device that accepts no packet, so that a stuck
// device does not block the bucket.
#define STUCK_NS 100000000ull

// Maximum time that a move waits until the packets in a transmit queue are transmitted: many
// drivers never report this, or do not report it for the last packets of an idle queue.
#define DEPARTURE_NS 1000000ull
// Time in which a device transmits the packets whose transmission its driver does not report. In
// this time a device sends 41 packets of 1,500 bytes at 10 Gbit/s.
#define UNREPORTED_NS 50000ull

// Held packets are processed while each transmit ring has room for at least this number of packets.
// This room is left for other packets.
#define ROOM (WEIR_TX_RING / 4)
_Static_assert(ROOM >= WEIR_BURST, "a transmit ring must have room for a burst");

static void drop_refused(
	struct weir_worker *worker, struct rte_mbuf **pkts, uint16_t n, uint8_t in_port) {
	weir_worker_count_received(worker, n, weir_worker_bytes(pkts, n));
	weir_worker_count_dropped(worker, WEIR_DROP_HANDOFF_FULL, pkts, n, in_port);
	rte_pktmbuf_free_bulk(pkts, n);
}

uint16_t weir_worker_hold_slow(
	struct weir_worker *worker, struct rte_mbuf **pkts, uint16_t n, uint8_t in_port) {
	uint16_t refused;
	uint16_t stay = weir_mover_hold(worker->mover, pkts, n, in_port, &refused);

	weir_counter_add(&worker->steals->held_packets, (uint64_t)n - stay - refused);
	if (unlikely(refused > 0)) {
		drop_refused(worker, pkts + stay, refused, in_port);
	}
	return stay;
}

enum weir_bucket_answer weir_worker_give(
	struct weir_worker *worker, uint32_t bucket, uint32_t thief, uint64_t deadline_ns) {
	enum weir_bucket_answer answer;

	if (worker->mover == NULL) {
		return WEIR_BUCKET_NOT_BUCKETED;
	}
	answer = weir_mover_request(worker->mover, bucket, thief, deadline_ns, worker->now_ns,
		weir_segment_stealing(worker->segment));
	weir_counter_add(&worker->steals->answers[answer], 1);
	return answer;
}

// Counts the cycles since `since` as the cost of a move. Not used for the processing of held
// packets, because these packets would also be processed without a move.
static void count_cycles(struct weir_worker *worker, uint64_t since) {
	weir_counter_add(&worker->steals->move_cycles, rte_rdtsc() - since);
}

// --- waiting for devices ----------------------------------------------------------------------

// Returns whether a move no longer waits for a device. This is the case if this move has waited
// until until_ns and the device accepts no packet, or if an earlier move has stopped waiting and
// the device has sent no packet since. A device does not count as stuck while the worker that owns
// its queue makes no progress: the move then continues to wait.
static bool goes_without(struct weir_worker *worker, uint32_t device, uint64_t until_ns) {
	uint64_t sent = weir_path_sent(weir_worker_path(worker, (uint8_t)device));

	if (worker->given_up[device] == sent + 1) {
		return true;
	}
	if (worker->now_ns <= until_ns ||
		!weir_path_is_stuck(weir_worker_path(worker, (uint8_t)device))) {
		return false;
	}
	worker->given_up[device] = sent + 1;
	return true;
}

// Returns true if all transmit rings have room for held packets. After until_ns, a ring to a device
// that accepts no packet counts as having room.
static bool have_room(struct weir_worker *worker, uint64_t until_ns) {
	for (uint32_t d = 0; d < worker->transmit->devices; d++) {
		if (!weir_path_has_room(weir_worker_path(worker, (uint8_t)d), ROOM) &&
			!goes_without(worker, d, until_ns)) {
			return false;
		}
	}
	return true;
}

// --- the thief --------------------------------------------------------------------------------

// Processes some of the held packets. until_ns: the time after which the packets no longer wait for
// room in rings to devices that accept no packet. Processes as many packets as weir_hold_due allows
// in this iteration, and only while the transmit rings have room, so that neither the worker's
// sources nor its transmit rings overflow.
static void process_held(struct weir_worker *worker, struct weir_hold *hold, uint64_t until_ns) {
	struct rte_mbuf *pkts[WEIR_BURST];
	uint32_t due = weir_hold_due(hold);
	uint8_t in_port = 0;

	while (due > 0 && have_room(worker, until_ns)) {
		uint16_t n =
			weir_hold_take(hold, pkts, (uint16_t)RTE_MIN(due, WEIR_BURST), &in_port);

		weir_worker_process(worker, pkts, n, in_port);
		due -= n;
	}
}

// Adopt a part that is arriving, then process the packets held for the part.
static __rte_noinline void take_bucket(struct weir_worker *worker) {
	struct weir_mover *mover = worker->mover;
	const uint64_t since = rte_rdtsc();
	const struct weir_move *move = weir_mover_adopt(mover);
	uint32_t bucket;

	worker->idle.turns = 0;
	if (move != NULL &&
		weir_pipeline_adopt_part(worker->pipeline, move->parcel, worker->now_ns)) {
		weir_mover_adopted(mover);
		worker->held_until_ns = worker->now_ns + STUCK_NS;
	}
	if (move != NULL) {
		count_cycles(worker, since);
	}
	if (weir_mover_held(mover) != NULL) {
		process_held(worker, weir_mover_held(mover), worker->held_until_ns);
	}
	if (weir_mover_end(mover, &bucket)) {
		weir_segment_own_bucket(worker->segment, bucket, worker->index);
		weir_counter_add(&worker->steals->buckets_taken, 1);
	}
}

// --- the owner of buckets that shift ------------------------------------------------------------

uint16_t weir_worker_hold_shift_slow(struct weir_worker *worker,
	const struct weir_distributor *distributor, struct rte_mbuf **pkts, uint16_t n,
	uint8_t in_port) {
	uint16_t refused;
	uint16_t stay =
		weir_mover_hold_shift(worker->mover, distributor, pkts, n, in_port, &refused);

	weir_counter_add(&worker->steals->held_packets, (uint64_t)n - stay - refused);
	if (unlikely(refused > 0)) {
		drop_refused(worker, pkts + stay, refused, in_port);
	}
	return stay;
}

static __rte_noinline void shift_buckets(struct weir_worker *worker) {
	struct weir_mover *mover = worker->mover;
	struct weir_hold *hold;
	bool begins = !mover->shift_due;

	worker->idle.turns = 0;
	hold = weir_mover_shift(mover);
	if (hold == NULL) {
		return;
	}
	if (begins) {
		worker->shift_until_ns = worker->now_ns + STUCK_NS;
	}
	process_held(worker, hold, worker->shift_until_ns);
	weir_mover_shift_end(mover);
}

// --- the victim -------------------------------------------------------------------------------

// Records how many packets were put into each path so far. The packets of the bucket have been
// processed, but may still be in transmit queues, or in rings to the workers that own these queues.
static void begin_release(struct weir_worker *worker) {
	worker->release.begun = true;
	worker->release.done = false;
	worker->release.until_ns = worker->now_ns + STUCK_NS;
	for (uint32_t d = 0; d < worker->transmit->devices; d++) {
		worker->release.leaving[d] =
			(struct leaving){.put = weir_worker_path(worker, (uint8_t)d)->put};
	}
}

// Returns true if the thief sends on the queue that has this worker's packets. Packets of the thief
// then leave after packets of this worker.
static bool keeps_queue(const struct weir_worker *worker, uint32_t device) {
	const struct weir_path *paths = worker->transmit->path[device];

	return paths[worker->mover->move.thief].queue == paths[worker->index].queue;
}

static bool has_departed(const struct weir_path *path, uint64_t put) {
	return path->ring == NULL ? weir_path_has_departed(path, put) : weir_path_is_answered(path);
}

// Returns whether the device has transmitted the packets, or the move no longer waits for them. A
// driver may report that all packets were transmitted although the last few still wait. Therefore
// the move waits UNREPORTED_NS longer after this report.
static bool is_gone(
	const struct weir_worker *worker, const struct weir_path *path, struct leaving *leaving) {
	if (!leaving->departed && has_departed(path, leaving->put)) {
		leaving->departed = true;
		leaving->until_ns = RTE_MIN(leaving->until_ns, worker->now_ns + UNREPORTED_NS);
	}
	return worker->now_ns > leaving->until_ns || weir_mover_thief_is_crowded(worker->mover);
}

static bool has_left(struct weir_worker *worker, uint32_t device) {
	struct weir_path *path = weir_worker_path(worker, (uint8_t)device);
	struct leaving *leaving = &worker->release.leaving[device];

	if (leaving->put == 0) {
		return true;
	}
	if (!leaving->given) {
		if (!weir_path_is_given(path, leaving->put)) {
			return goes_without(worker, device, worker->release.until_ns);
		}
		leaving->given = true;
		leaving->until_ns = worker->now_ns + DEPARTURE_NS;
		if (path->ring != NULL && !keeps_queue(worker, device)) {
			weir_path_request(path);
		}
	}
	return keeps_queue(worker, device) || is_gone(worker, path, leaving);
}

static bool have_left(struct weir_worker *worker) {
	bool all = true;

	for (uint32_t d = 0; d < worker->transmit->devices; d++) {
		all = has_left(worker, d) && all;
	}
	return all;
}

static void end_release(struct weir_worker *worker) {
	worker->release.begun = false;
	for (uint32_t d = 0; d < worker->transmit->devices; d++) {
		weir_path_stop_requesting(weir_worker_path(worker, (uint8_t)d));
	}
}

static __rte_noinline void release_slice(struct weir_worker *worker) {
	struct weir_mover *mover = worker->mover;

	worker->idle.turns = 0;
	if (!worker->release.begun) {
		begin_release(worker);
	}
	if (!worker->release.done) {
		worker->release.done = weir_pipeline_release_part(
			worker->pipeline, mover->move.bucket, mover->move.parcel);
	}
	if (worker->release.done && have_left(worker)) {
		end_release(worker);
		weir_mover_released(mover);
	}
}

static void give_bucket(struct weir_worker *worker) {
	struct weir_mover *mover = worker->mover;
	uint64_t since;

	switch (weir_mover_give(mover)) {
	case WEIR_GIVING_NOTHING:
		break;
	case WEIR_GIVING_RELEASE:
		since = rte_rdtsc();
		release_slice(worker);
		count_cycles(worker, since);
		break;
	case WEIR_GIVING_SETTLE:
		since = rte_rdtsc();
		if (weir_pipeline_settle_part(worker->pipeline, mover->move.parcel)) {
			weir_mover_settled(mover);
			weir_counter_add(&worker->steals->buckets_given, 1);
		}
		count_cycles(worker, since);
		worker->idle.turns = 0;
		break;
	}
}

// --- both -------------------------------------------------------------------------------------

void weir_worker_move_buckets(struct weir_worker *worker) {
	uint32_t bucket, thief;

	if (worker->mover == NULL) {
		return;
	}
	if (unlikely(weir_mover_pressed(worker->mover, &bucket, &thief))) {
		weir_counter_add(&worker->steals->buckets_urgent, 1);
		weir_worker_give(worker, bucket, thief, UINT64_MAX);
	}
	give_bucket(worker);
	if (weir_mover_is_taking(worker->mover)) {
		take_bucket(worker);
	}
	if (weir_mover_is_shifting(worker->mover)) {
		shift_buckets(worker);
	}
}
