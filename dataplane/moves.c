// SPDX-License-Identifier: BSD-3-Clause
#include "moves.h"

#include <errno.h>
#include <string.h>

#include <rte_common.h>
#include <rte_malloc.h>
#include <rte_mbuf.h>
#include <rte_ring.h>

#include "ring_fill.h"
#include "verdict.h"

_Static_assert(
	(WEIR_HOLD_PACKETS & (WEIR_HOLD_PACKETS - 1)) == 0, "the size must be a power of two");
_Static_assert(WEIR_BUCKETS == WEIR_DISTRIBUTOR_BUCKETS,
	"the table and the segment must have the same number of buckets");

// --- set-up ---------------------------------------------------------------------------------

static bool is_valid(const struct weir_moves_params *params) {
	if (params->workers < 2 || params->workers > WEIR_WORKERS_MAX ||
		params->distributors == 0 || params->distributors > WEIR_DISTRIBUTORS_MAX) {
		return false;
	}
	for (uint32_t d = 0; d < params->distributors; d++) {
		const struct weir_distributor *distributor = params->distributor[d];

		if (distributor == NULL || distributor->workers != params->workers ||
			distributor->number != d ||
			memcmp(distributor->worker, params->distributor[0]->worker,
				sizeof(distributor->worker)) != 0) {
			return false;
		}
	}
	return true;
}

int weir_moves_create(const struct weir_moves_params *params, struct weir_moves **ret) {
	struct weir_moves *moves;

	if (!is_valid(params)) {
		return -EINVAL;
	}
	moves = rte_zmalloc_socket("moves",
		sizeof(*moves) + params->workers * sizeof(moves->mover[0]), RTE_CACHE_LINE_SIZE,
		params->socket);
	if (moves == NULL) {
		return -ENOMEM;
	}
	moves->workers = params->workers;
	moves->distributors = params->distributors;
	for (uint32_t d = 0; d < params->distributors; d++) {
		moves->distributor[d] = params->distributor[d];
	}
	memcpy(moves->owner, params->distributor[0]->worker, sizeof(moves->owner));
	for (uint32_t w = 0; w < params->workers; w++) {
		moves->mover[w].moves = moves;
		moves->mover[w].worker = w;
		moves->mover[w].move.parcel = params->parcel[w];
	}
	*ret = moves;
	return 0;
}

void weir_moves_free(struct weir_moves *moves) {
	if (moves == NULL) {
		return;
	}
	for (uint32_t w = 0; w < moves->workers; w++) {
		weir_hold_free(&moves->mover[w].hold);
		weir_hold_free(&moves->mover[w].shift_hold);
	}
	rte_free(moves);
}

// --- requests -------------------------------------------------------------------------------

static void set_state(struct weir_move *move, enum weir_moving state) {
	__atomic_store_n(&move->state, state, __ATOMIC_RELEASE);
}

static bool owns(const struct weir_mover *mover, uint32_t bucket) {
	return __atomic_load_n(&mover->moves->owner[bucket], __ATOMIC_RELAXED) == mover->worker;
}

// Start the move: from now on the thief holds packets of the bucket. Returns false if the thief is
// taking another bucket.
static bool claim(const struct weir_mover *mover, uint32_t thief) {
	uint64_t none = 0;

	return __atomic_compare_exchange_n(&mover->moves->mover[thief].taking, &none,
		mover->worker + 1, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

enum weir_bucket_answer weir_mover_request(struct weir_mover *mover, uint32_t bucket,
	uint32_t thief, uint64_t deadline_ns, uint64_t now_ns, bool stealing) {
	struct weir_moves *moves = mover->moves;
	struct weir_move *move = &mover->move;

	if (!stealing) {
		return WEIR_BUCKET_OFF;
	}
	if (bucket >= WEIR_BUCKETS || thief >= moves->workers) {
		return WEIR_BUCKET_OUT_OF_RANGE;
	}
	if (now_ns > deadline_ns) {
		return WEIR_BUCKET_LATE;
	}
	if (!owns(mover, bucket)) {
		return WEIR_BUCKET_NOT_OWNER;
	}
	if (thief == mover->worker) {
		return WEIR_BUCKET_SELF;
	}
	if (__atomic_load_n(&move->state, __ATOMIC_RELAXED) != WEIR_MOVING_NOTHING ||
		(mover->shift_holds && weir_shift_has(&moves->shift, bucket))) {
		return WEIR_BUCKET_BUSY;
	}
	// Set both fields before the claim: the thief reads them after it has read the claim.
	move->bucket = bucket;
	move->thief = thief;
	if (!claim(mover, thief)) {
		return WEIR_BUCKET_BUSY;
	}
	set_state(move, WEIR_MOVING_SWITCHING);
	for (uint32_t d = 0; d < moves->distributors; d++) {
		weir_distributor_request(moves->distributor[d], mover->worker, bucket, thief);
	}
	return WEIR_BUCKET_CONFIRMED;
}

// --- the victim -----------------------------------------------------------------------------

// Returns true if no packet of the bucket is left in the rings to this worker, and no further
// packet of the bucket will arrive.
static bool is_drained(const struct weir_mover *mover) {
	const struct weir_moves *moves = mover->moves;

	for (uint32_t d = 0; d < moves->distributors; d++) {
		if (!weir_distributor_switched(
			    moves->distributor[d], mover->worker, mover->taken[d])) {
			return false;
		}
	}
	return true;
}

enum weir_giving weir_mover_give_slow(struct weir_mover *mover) {
	struct weir_move *move = &mover->move;

	switch ((enum weir_moving)__atomic_load_n(&move->state, __ATOMIC_ACQUIRE)) {
	case WEIR_MOVING_SWITCHING:
		if (!is_drained(mover)) {
			return WEIR_GIVING_NOTHING;
		}
		set_state(move, WEIR_MOVING_RELEASING);
		return WEIR_GIVING_RELEASE;
	case WEIR_MOVING_RELEASING:
		return WEIR_GIVING_RELEASE;
	case WEIR_MOVING_ADOPTED:
		return WEIR_GIVING_SETTLE;
	case WEIR_MOVING_NOTHING:
	case WEIR_MOVING_RELEASED:
		break;
	}
	return WEIR_GIVING_NOTHING;
}

void weir_mover_released(struct weir_mover *mover) {
	set_state(&mover->move, WEIR_MOVING_RELEASED);
}

void weir_mover_settled(struct weir_mover *mover) {
	set_state(&mover->move, WEIR_MOVING_NOTHING);
}

// --- the thief ------------------------------------------------------------------------------

// Returns the move that gives a bucket to this worker, or NULL if there is none.
static struct weir_move *taking(const struct weir_mover *mover) {
	uint64_t victim = __atomic_load_n(&mover->taking, __ATOMIC_ACQUIRE);

	return victim != 0 ? &mover->moves->mover[victim - 1].move : NULL;
}

uint16_t weir_mover_hold(struct weir_mover *mover, struct rte_mbuf **pkts, uint16_t n,
	uint8_t in_port, uint16_t *ret_refused) {
	const uint32_t bucket = taking(mover)->bucket;
	struct rte_mbuf *refused[WEIR_BURST];
	uint16_t stay = 0, refused_count = 0;

	for (uint16_t i = 0; i < n; i++) {
		if (weir_distributor_bucket_of(pkts[i]) != bucket) {
			pkts[stay++] = pkts[i];
		} else if (!weir_hold_put(&mover->hold, pkts[i], in_port)) {
			refused[refused_count++] = pkts[i];
		}
	}
	if (weir_hold_count(&mover->hold) >= WEIR_HOLD_PACKETS / 2) {
		__atomic_store_n(&mover->crowded, 1, __ATOMIC_RELAXED);
	}
	memcpy(pkts + stay, refused, refused_count * sizeof(refused[0]));
	*ret_refused = refused_count;
	return stay;
}

const struct weir_move *weir_mover_adopt(struct weir_mover *mover) {
	const struct weir_move *move = taking(mover);

	return move != NULL && !mover->adopted &&
			       __atomic_load_n(&move->state, __ATOMIC_ACQUIRE) ==
				       WEIR_MOVING_RELEASED
		       ? move
		       : NULL;
}

void weir_mover_adopted(struct weir_mover *mover) {
	mover->adopted = true;
	weir_hold_begin(&mover->hold);
}

struct weir_hold *weir_mover_held(struct weir_mover *mover) {
	return mover->adopted ? &mover->hold : NULL;
}

bool weir_mover_end(struct weir_mover *mover, uint32_t *ret_bucket) {
	struct weir_move *move = taking(mover);

	if (!mover->adopted || !weir_hold_is_empty(&mover->hold)) {
		return false;
	}
	*ret_bucket = move->bucket;
	mover->adopted = false;
	__atomic_store_n(&mover->crowded, 0, __ATOMIC_RELAXED);
	__atomic_store_n(
		&mover->moves->owner[move->bucket], (uint8_t)mover->worker, __ATOMIC_RELAXED);
	// Clear `taking` before the state is set: the victim may begin its next move as soon as it
	// reads the state, and another victim may claim this worker immediately.
	__atomic_store_n(&mover->taking, 0, __ATOMIC_RELEASE);
	set_state(move, WEIR_MOVING_ADOPTED);
	return true;
}

// --- back pressure --------------------------------------------------------------------------

// Returns the worker with the shortest ring, if the ring is at most a quarter full; otherwise the
// victim.
static uint32_t shortest(const struct weir_distributor *distributor, uint32_t victim) {
	uint32_t best = victim, least = WEIR_DISTRIBUTOR_RING / 4 + 1;

	for (uint32_t w = 0; w < distributor->workers; w++) {
		uint32_t waiting;

		if (w == victim || distributor->ring[w] == NULL) {
			continue;
		}
		waiting = weir_ring_fill(distributor->ring[w]);
		if (waiting < least) {
			least = waiting;
			best = w;
		}
	}
	return best;
}

// Finds the bucket with the most packets among the buckets that have at most half of all packets.
// Returns false if there is none.
static bool busiest(struct rte_mbuf *const *pkts, uint16_t n, uint32_t *ret_bucket) {
	uint16_t most = 0;

	for (uint16_t i = 0; i < n; i++) {
		uint32_t bucket = weir_distributor_bucket_of(pkts[i]);
		uint16_t count = 0;

		for (uint16_t j = 0; j < n; j++) {
			count = (uint16_t)(count + (weir_distributor_bucket_of(pkts[j]) == bucket));
		}
		if (count > most && count <= n / 2) {
			most = count;
			*ret_bucket = bucket;
		}
	}
	return most > 0;
}

void weir_moves_press(struct weir_moves *moves, struct weir_distributor *distributor,
	uint32_t victim, struct rte_mbuf *const *pkts, uint16_t n, uint64_t now_ns) {
	uint64_t nothing = 0;
	uint32_t thief, bucket;

	if (n < 2) {
		return; // the bucket of a single packet would have more than half of all packets
	}
	if (now_ns - distributor->pressed_ns < WEIR_URGENT_NS ||
		now_ns - distributor->looked_ns[victim] < WEIR_URGENT_NS) {
		return;
	}
	// Set the time even if the search finds no bucket: a search in every burst would slow this
	// worker down.
	distributor->looked_ns[victim] = now_ns;
	thief = shortest(distributor, victim);
	if (thief == victim || !busiest(pkts, n, &bucket)) {
		return;
	}
	distributor->pressed_ns = now_ns;
	(void)__atomic_compare_exchange_n(&moves->mover[victim].urgent, &nothing,
		(uint64_t)bucket << 32 | (thief + 1), false, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
}
