// SPDX-License-Identifier: BSD-3-Clause
#include "shift.h"

#include <string.h>

#include "moves.h"

static void set_state(struct weir_shift *shift, enum weir_shift_state state) {
	__atomic_store_n(&shift->state, state, __ATOMIC_RELEASE);
}

// --- main -----------------------------------------------------------------------------------

enum weir_shift_state weir_shift_state(const struct weir_moves *moves) {
	return (enum weir_shift_state)__atomic_load_n(&moves->shift.state, __ATOMIC_ACQUIRE);
}

void weir_shift_request(struct weir_moves *moves, uint32_t mask, uint32_t low,
	const struct weir_distributor *into, struct weir_distributor *const *other,
	uint32_t others) {
	struct weir_shift *shift = &moves->shift;

	shift->into = into;
	memcpy(shift->other, other, others * sizeof(shift->other[0]));
	shift->others = others;
	shift->mask = mask;
	shift->low = low;
	set_state(shift, WEIR_SHIFT_REQUESTED);
	__atomic_store_n(&moves->mover[into->owner].shifting, 1, __ATOMIC_RELEASE);
}

void weir_shift_drain(struct weir_moves *moves) {
	struct weir_shift *shift = &moves->shift;

	// Request the drains before the state is set. Otherwise the owner could mistake the result
	// of an earlier drain for the result of a new drain.
	for (uint32_t i = 0; i < shift->others; i++) {
		weir_distributor_drain(shift->other[i], shift->into->owner);
	}
	set_state(shift, WEIR_SHIFT_DRAINING);
}

// --- the owner ------------------------------------------------------------------------------

// Returns true if this worker owns all of the buckets and is not giving any of them to another
// worker.
static bool has_all(const struct weir_mover *mover) {
	const struct weir_moves *moves = mover->moves;
	const struct weir_shift *shift = &moves->shift;

	if (__atomic_load_n(&mover->move.state, __ATOMIC_RELAXED) != WEIR_MOVING_NOTHING &&
		weir_shift_has(shift, mover->move.bucket)) {
		return false;
	}
	for (uint32_t b = shift->low; b < WEIR_BUCKETS; b += shift->mask + 1) {
		if (__atomic_load_n(&moves->owner[b], __ATOMIC_RELAXED) != mover->worker) {
			return false;
		}
	}
	return true;
}

static void answer(struct weir_mover *mover) {
	struct weir_shift *shift = &mover->moves->shift;

	if (has_all(mover)) {
		mover->shift_holds = true;
		set_state(shift, WEIR_SHIFT_HOLDING);
		return;
	}
	// Clear `shifting` before the state is set: main may request the next shift as soon as it
	// reads the new state.
	__atomic_store_n(&mover->shifting, 0, __ATOMIC_RELAXED);
	set_state(shift, WEIR_SHIFT_REFUSED);
}

// Returns true if all senders have recorded their ends, and this worker has taken all packets
// before these ends from its rings.
static bool is_drained(const struct weir_mover *mover) {
	const struct weir_shift *shift = &mover->moves->shift;

	for (uint32_t i = 0; i < shift->others; i++) {
		uint64_t end;

		if (!weir_distributor_drained(shift->other[i], &end) ||
			mover->taken[shift->other[i]->number] < end) {
			return false;
		}
	}
	return true;
}

uint16_t weir_mover_hold_shift(struct weir_mover *mover, const struct weir_distributor *distributor,
	struct rte_mbuf **pkts, uint16_t n, uint8_t in_port, uint16_t *ret_refused) {
	const struct weir_shift *shift = &mover->moves->shift;
	struct rte_mbuf *refused[WEIR_BURST];
	uint16_t stay = 0, refused_count = 0;

	*ret_refused = 0;
	if (!mover->shift_holds || distributor != shift->into) {
		return n;
	}
	for (uint16_t i = 0; i < n; i++) {
		if (!weir_shift_has(shift, weir_distributor_bucket_of(pkts[i]))) {
			pkts[stay++] = pkts[i];
		} else if (!weir_hold_put(&mover->shift_hold, pkts[i], in_port)) {
			refused[refused_count++] = pkts[i];
		}
	}
	memcpy(pkts + stay, refused, refused_count * sizeof(refused[0]));
	*ret_refused = refused_count;
	return stay;
}

struct weir_hold *weir_mover_shift(struct weir_mover *mover) {
	switch (weir_shift_state(mover->moves)) {
	case WEIR_SHIFT_REQUESTED:
		answer(mover);
		break;
	case WEIR_SHIFT_DRAINING:
		if (!mover->shift_due && is_drained(mover)) {
			mover->shift_due = true;
			weir_hold_begin(&mover->shift_hold);
		}
		break;
	case WEIR_SHIFT_NOTHING:
	case WEIR_SHIFT_REFUSED:
	case WEIR_SHIFT_HOLDING:
		break;
	}
	return mover->shift_due ? &mover->shift_hold : NULL;
}

void weir_mover_shift_end(struct weir_mover *mover) {
	if (!weir_hold_is_empty(&mover->shift_hold)) {
		return;
	}
	mover->shift_due = false;
	mover->shift_holds = false;
	__atomic_store_n(&mover->shifting, 0, __ATOMIC_RELAXED);
	set_state(&mover->moves->shift, WEIR_SHIFT_NOTHING);
}
