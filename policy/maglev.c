// SPDX-License-Identifier: BSD-3-Clause
#include "maglev.h"

#include <string.h>

// A table is built by claims, one for each slot. The order in which backends claim (their turns)
// depends only on the weights. The slot that a backend gets depends on the slots that are free at
// that time.
//
// Turns (the accumulator method). In every sweep over the backends, each backend gains its
// weight. When its sum has reached the largest weight W, W is subtracted and the backend claims a
// slot. A table needs n * slots * W / sum(weights) visits to backends: about slots * n if one
// weight is much larger than the sum of the others.
//
// Therefore, if a claim would take more than SWEEP_COST visits, claims are scheduled instead. A
// backend that has `gained` g after a claim claims again after ceil((W - g) / weight) sweeps. The
// schedule processes one window of sweeps at a time. A window is long enough for about n claims.
// Two passes over the backends sort the claims of a window by sweep and, within a sweep, by
// backend.
//
// Slots. A claim takes the first free slot of the backend's permutation. All claims together
// inspect about slots * ln(slots) slots, most of which are taken. If slots were inspected one by
// one, each claim would end with a mispredicted branch. Therefore many positions of a permutation
// are inspected together, without branches, and the free positions are stored. The table stays the
// same: taken slots are never freed, and a stored position is checked again before it is claimed.
//
// When only f slots are free, a claim would inspect about slots / f slots. Therefore the last slots
// are found in reverse: for each free slot, the number of steps of the permutation to this slot is
// computed.

#define SWEEP_COST 4u
// Number of positions inspected together if there are fewer than MANY backends: one per bit of a
// mask
#define AHEAD_FEW 32u
// Number of positions inspected together if there are at least MANY backends. The number is small,
// because other backends soon take the inspected slots.
#define AHEAD_MANY 8u
#define MANY 1000u
// The last slots / LAST_SHARE slots, at most LAST_MAX, are found in reverse. LAST_SHARE is about
// sqrt(65,537): with this number of free slots in a table of 65,537 slots, inspection and reverse
// search cost the same.
#define LAST_SHARE 256u
#define LAST_MAX 1024u

struct build {
	const struct weir_maglev_backend *backends;
	uint32_t n;
	uint32_t slots;
	uint16_t *table;
	uint32_t heaviest;
	bool scheduled;
	bool alike; // all weights are 0 or the maximum, so all sweeps are equal
	uint32_t window; // length of a window, in sweeps: 1 .. n
	uint32_t ahead; // positions inspected together, a multiple of LOOK
	uint32_t *positions; // [n * ahead] the last positions inspected
	uint32_t *kept; // [n] bit i: position i was free when inspected, and no claim has tried it
	// [n] sum that each backend has gained, after its last scheduled claim or after the last
	// sweep
	uint32_t *gained;
	uint32_t *next; // [n] sweeps from the window's start to the next claim
	uint32_t *first; // [n + 1] first claim of each sweep of the window
	uint16_t *claims; // [2 * n] backends in the order of their turns
	uint32_t claim_count;
	uint32_t claimed; // number of claims processed
	uint32_t left; // number of free slots, without the last slots
	uint32_t last; // number of the last slots, which are found in reverse; 0 = all are filled
};

// SplitMix64 of x.
static uint64_t scramble(uint64_t x) {
	x += 0x9e3779b97f4a7c15ull;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

void weir_maglev_permutation(
	uint64_t identity, uint32_t slots, uint32_t *ret_offset, uint32_t *ret_skip) {
	*ret_offset = (uint32_t)(scramble(2 * identity + 1) % slots);
	*ret_skip = (uint32_t)(scramble(2 * identity + 2) % (slots - 1)) + 1;
}

static uint32_t positions_ahead(uint32_t n) {
	return n < MANY ? AHEAD_FEW : AHEAD_MANY;
}

size_t weir_maglev_scratch_bytes(uint32_t n) {
	size_t words = (size_t)n * (positions_ahead(n) + 4) + 1;

	return sizeof(struct build) + words * sizeof(uint32_t) + (size_t)n * 2 * sizeof(uint16_t);
}

// --- turns: the schedule ------------------------------------------------------------------

static void schedule_init(struct build *b, uint64_t sum) {
	// A window has at most window * sum / heaviest + n claims. With the length below, this is
	// at most 2 * n.
	b->window = (uint32_t)((uint64_t)b->n * b->heaviest / sum);
	for (uint32_t i = 0; i < b->n; i++) {
		uint32_t weight = b->backends[i].weight;

		b->gained[i] = 0;
		b->next[i] = 0;
		if (weight > 0) {
			b->next[i] = (b->heaviest - 1) / weight;
			b->gained[i] =
				(uint32_t)(((uint64_t)b->next[i] + 1) * weight - b->heaviest);
		}
	}
}

// Advances *gained from a claim of a backend to the backend's next claim. Returns the number of
// sweeps between the two claims.
static uint32_t schedule_step(const struct build *b, uint32_t weight, uint32_t *gained) {
	uint32_t missing = b->heaviest - *gained;
	uint32_t sweeps = missing <= weight ? 1 : (missing - 1) / weight + 1;

	*gained = (uint32_t)((uint64_t)sweeps * weight - missing);
	return sweeps;
}

// Writes the claims of the next window to claims[], in the order of their sweeps. Returns the
// number of claims.
static uint32_t schedule_window(struct build *b) {
	uint32_t total = 0;

	memset(b->first, 0, (b->window + 1) * sizeof(*b->first));
	for (uint32_t i = 0; i < b->n; i++) {
		uint32_t weight = b->backends[i].weight;
		uint32_t gained = b->gained[i];
		uint64_t next = b->next[i];

		while (weight > 0 && next < b->window) {
			b->first[next]++;
			next += schedule_step(b, weight, &gained);
		}
	}
	for (uint32_t sweep = 0; sweep < b->window; sweep++) {
		uint32_t count = b->first[sweep];

		b->first[sweep] = total;
		total += count;
	}
	for (uint32_t i = 0; i < b->n; i++) {
		uint32_t weight = b->backends[i].weight;
		uint64_t next = b->next[i];

		if (weight == 0) {
			continue;
		}
		while (next < b->window) {
			b->claims[b->first[next]++] = (uint16_t)i;
			next += schedule_step(b, weight, &b->gained[i]);
		}
		b->next[i] = (uint32_t)(next - b->window);
	}
	return total;
}

// --- turns: sweeps ------------------------------------------------------------------------

// Copies the weights to next[]. In next[] the weights are contiguous, so that one vector
// instruction can process four weights. In backends[] there are other fields between the weights.
static void sweep_init(struct build *b) {
	for (uint32_t i = 0; i < b->n; i++) {
		b->gained[i] = 0;
		b->next[i] = b->backends[i].weight;
	}
}

// Put the claims of the next sweep into claims[]. Returns the number of claims.
static uint32_t sweep(struct build *b) {
	uint32_t n = b->n, heaviest = b->heaviest, total = 0;
	const uint32_t *restrict weights = b->next;
	uint32_t *restrict gained = b->gained;
	uint32_t *restrict due = b->first;

	// A sum may wrap around at 2^32; subtracting W wraps it back
	for (uint32_t i = 0; i < n; i++) {
		due[i] = gained[i] >= heaviest - weights[i];
		gained[i] += weights[i] - (heaviest & -due[i]);
	}
	for (uint32_t i = 0; i < n; i++) {
		b->claims[total] = (uint16_t)i;
		total += due[i];
	}
	return total;
}

static void init_turns(struct build *b) {
	uint32_t lightest = UINT32_MAX;
	uint64_t sum = 0;

	for (uint32_t i = 0; i < b->n; i++) {
		uint32_t weight = b->backends[i].weight;

		sum += weight;
		b->heaviest = weight > b->heaviest ? weight : b->heaviest;
		lightest = weight > 0 && weight < lightest ? weight : lightest;
	}
	b->alike = lightest == b->heaviest;
	b->scheduled = !b->alike && sum * SWEEP_COST < (uint64_t)b->heaviest * b->n;
	if (b->scheduled) {
		schedule_init(b, sum);
	} else {
		sweep_init(b);
	}
}

// Takes up to `most` of the next claims. *ret points to the first of these claims. Returns the
// number of claims taken.
static uint32_t take_claims(struct build *b, uint32_t most, const uint16_t **ret) {
	uint32_t n;

	while (b->claimed == b->claim_count) {
		if (!b->alike || b->claim_count == 0) {
			b->claim_count = b->scheduled ? schedule_window(b) : sweep(b);
		}
		b->claimed = 0;
	}
	n = b->claim_count - b->claimed;
	n = n < most ? n : most;
	*ret = &b->claims[b->claimed];
	b->claimed += n;
	return n;
}

// --- slots --------------------------------------------------------------------------------

// a + b modulo slots, both < slots. If the sum is below slots, the subtraction wraps around.
static inline uint32_t add(uint32_t a, uint32_t b, uint32_t slots) {
	uint32_t sum = a + b;
	uint32_t reduced = sum - slots;

	return reduced < sum ? reduced : sum;
}

static void init_positions(struct build *b) {
	for (uint32_t i = 0; i < b->n; i++) {
		const struct weir_maglev_backend *backend = &b->backends[i];

		b->kept[i] = 0;
		b->positions[(size_t)(i + 1) * b->ahead - 1] =
			add(backend->offset, b->slots - backend->skip, b->slots);
	}
}

#define LANES 4u // processed in one vector register
#define LOOK (2 * LANES)
_Static_assert(WEIR_MAGLEV_EMPTY == 0xffff, "EMPTY must be the largest 16-bit value");

// Inspects the next positions of a backend's permutation. Bit i of the result: position i is free.
static uint32_t look_ahead(const struct build *b, uint16_t backend, uint32_t *positions) {
	uint32_t slots = b->slots, ahead = b->ahead;
	uint32_t skip = b->backends[backend].skip;
	uint32_t skip_2 = add(skip, skip, slots), skip_4 = add(skip_2, skip_2, slots);
	const uint16_t *table = b->table;
	uint32_t lane[LANES], kept = 0;

	lane[0] = add(positions[ahead - 1], skip, slots);
	lane[1] = add(lane[0], skip, slots);
	lane[2] = add(lane[0], skip_2, slots);
	lane[3] = add(lane[1], skip_2, slots);
	for (uint32_t base = 0; base < ahead; base += LOOK) {
		uint32_t *to = &positions[base];

		for (uint32_t i = 0; i < LANES; i++) {
			to[i] = lane[i];
			lane[i] = add(lane[i], skip_4, slots);
		}
		for (uint32_t i = 0; i < LANES; i++) {
			to[LANES + i] = lane[i];
			lane[i] = add(lane[i], skip_4, slots);
		}
	}
	for (uint32_t base = 0; base < ahead; base += LOOK) {
		const uint32_t *at = &positions[base];
		uint32_t bits = 0;

		// WEIR_MAGLEV_EMPTY + 1 sets bit 16, other values do not
		for (uint32_t i = LOOK; i-- > 0;) {
			bits = 2 * bits + ((table[at[i]] + 1u) >> 16);
		}
		kept |= bits << base;
	}
	return kept;
}

static void claim_slots(struct build *b, const uint16_t *claims, uint32_t n) {
	uint16_t *table = b->table;

	for (uint32_t i = 0; i < n; i++) {
		uint16_t backend = claims[i];
		uint32_t *positions = &b->positions[(size_t)backend * b->ahead];
		uint32_t kept = b->kept[backend];
		uint32_t slot;

		do {
			while (kept == 0) {
				kept = look_ahead(b, backend, positions);
			}
			slot = positions[__builtin_ctz(kept)];
			kept &= kept - 1;
		} while (table[slot] != WEIR_MAGLEV_EMPTY);
		table[slot] = backend;
		b->kept[backend] = kept;
	}
}

// --- the last slots -----------------------------------------------------------------------

// List the free slots; `slots` has room for all free slots. Returns the number of free slots.
static uint32_t collect_free(const struct build *b, uint32_t *slots) {
	const uint32_t step = 32;
	uint32_t n = 0;

	for (uint32_t base = 0; base < b->slots; base += step) {
		uint32_t end = base + step < b->slots ? base + step : b->slots;
		uint16_t any = 0;

		for (uint32_t i = base; i < end; i++) {
			any |= b->table[i] == WEIR_MAGLEV_EMPTY;
		}
		for (uint32_t i = base; any != 0 && i < end; i++) {
			if (b->table[i] == WEIR_MAGLEV_EMPTY) {
				slots[n++] = i;
			}
		}
	}
	return n;
}

// Returns x such that a * x = 1 modulo slots, by the extended Euclidean algorithm. slots is prime,
// 0 < a < slots.
static uint32_t inverse(uint32_t a, uint32_t slots) {
	uint32_t rest = slots, next_rest = a;
	int64_t x = 0, next_x = 1;

	while (next_rest > 0) {
		uint32_t quotient = rest / next_rest;
		uint32_t last_rest = rest;
		int64_t last_x = x;

		rest = next_rest;
		next_rest = last_rest - quotient * rest;
		x = next_x;
		next_x = last_x - (int64_t)quotient * x;
	}
	return (uint32_t)(x < 0 ? x + slots : x);
}

// Returns the number of steps in a backend's permutation from slot `from` to the nearest of the n
// slots in `free`.
//
// The number of steps to a slot is (slot - from) / skip modulo slots. The division is done as a
// multiplication by the inverse of skip. The product is reduced by Shoup's method: with r =
// floor(inverse * 2^32 / slots) and q = floor(x * r / 2^32), x * inverse - q * slots is below 2 *
// slots.
static uint32_t steps_to_first(
	uint32_t skip, uint32_t slots, uint32_t from, const uint32_t *free, uint32_t n) {
	uint32_t inv = inverse(skip, slots);
	uint32_t ratio = (uint32_t)(((uint64_t)inv << 32) / slots);
	uint32_t first = UINT32_MAX;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t away = add(free[i], slots - from, slots);
		uint32_t quotient = (uint32_t)((uint64_t)away * ratio >> 32);
		uint32_t steps = add(away * inv - quotient * slots, 0, slots);

		first = steps < first ? steps : first;
	}
	return first;
}

static void claim_last(struct build *b) {
	uint32_t free[LAST_MAX];
	uint32_t n = collect_free(b, free);

	while (n > 0) {
		const uint16_t *claims;
		uint16_t backend = take_claims(b, 1, &claims) == 1 ? claims[0] : 0;
		uint32_t skip = b->backends[backend].skip;
		uint32_t *positions = &b->positions[(size_t)backend * b->ahead];
		uint32_t kept = b->kept[backend];
		uint32_t from = kept != 0 ? positions[__builtin_ctz(kept)]
					  : add(positions[b->ahead - 1], skip, b->slots);
		uint32_t steps = steps_to_first(skip, b->slots, from, free, n);
		uint32_t slot = (uint32_t)((from + (uint64_t)steps * skip) % b->slots);
		uint32_t i = 0;

		while (i + 1 < n && free[i] != slot) {
			i++;
		}
		free[i] = free[--n];
		b->table[slot] = backend;
		b->kept[backend] = 0;
		positions[b->ahead - 1] = slot;
	}
}

// ------------------------------------------------------------------------------------------

void weir_maglev_begin(const struct weir_maglev_backend *backends, uint32_t n, uint16_t *table,
	uint32_t slots, void *scratch) {
	uint32_t last = slots / LAST_SHARE < LAST_MAX ? slots / LAST_SHARE : LAST_MAX;
	struct build *b = scratch;

	*b = (struct build){.backends = backends, .n = n, .slots = slots, .table = table};
	memset(table, 0xff, slots * sizeof(*table));
	b->ahead = positions_ahead(n);
	b->positions = (uint32_t *)(b + 1);
	b->kept = b->positions + (size_t)n * b->ahead;
	b->gained = b->kept + n;
	b->next = b->gained + n;
	b->first = b->next + n;
	b->claims = (uint16_t *)(b->first + n + 1);
	init_turns(b);
	if (b->heaviest > 0) {
		init_positions(b);
		b->left = slots - last;
		b->last = last;
	}
}

uint32_t weir_maglev_step(void *scratch, uint32_t most) {
	struct build *b = scratch;

	while (b->left > 0 && most > 0) {
		const uint16_t *claims;
		uint32_t count = take_claims(b, b->left < most ? b->left : most, &claims);

		claim_slots(b, claims, count);
		b->left -= count;
		most -= count;
	}
	if (b->left == 0 && b->last > 0) {
		claim_last(b);
		b->last = 0;
	}
	return b->left;
}

void weir_maglev_build(const struct weir_maglev_backend *backends, uint32_t n, uint16_t *table,
	uint32_t slots, void *scratch) {
	weir_maglev_begin(backends, n, table, slots, scratch);
	weir_maglev_step(scratch, slots);
}

bool weir_is_prime(uint32_t n) {
	if (n < 4) {
		return n >= 2;
	}
	if (n % 2 == 0) {
		return false;
	}
	for (uint32_t d = 3; (uint64_t)d * d <= n; d += 2) {
		if (n % d == 0) {
			return false;
		}
	}
	return true;
}
