// SPDX-License-Identifier: BSD-3-Clause
#include "maglev.h"

#include <string.h>

// The accumulator method says: in every sweep over the backends, in order, each one gains its
// weight; one that has gained the largest weight W pays it and claims a slot. Walking all backends
// in every sweep would cost n * slots * W / sum(weights) steps, which is slots * n when one weight
// outweighs the rest. So claims are scheduled instead: a backend that has `gained` g after a claim
// claims again after ceil((W - g) / weight) sweeps. Sweeps are handled a window at a time: the
// claims of a window are sorted by sweep, in two passes over the backends, which also keeps them in
// backend order within a sweep. The window is as long as about n claims take, so everything is
// O(slots + n) but for the search for free slots.

struct schedule {
	const struct weir_maglev_backend *backends;
	uint32_t n;
	uint32_t slots;
	uint32_t heaviest;
	uint32_t window; // sweeps, 1 .. n
	uint32_t *cursor; // [n] next slot of the permutation to try
	uint32_t *gained; // [n] after the last scheduled claim, < weight
	uint32_t *next; // [n] sweeps from the window's start to the next claim
	uint32_t *first; // [n + 1] by sweep of the window: its first claim
	uint16_t *claims; // [2 * n] backends by sweep
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

size_t weir_maglev_scratch_bytes(uint32_t n) {
	return (size_t)n * (4 * sizeof(uint32_t) + 2 * sizeof(uint16_t)) + sizeof(uint32_t);
}

static void schedule_init(struct schedule *s, uint64_t sum, void *scratch) {
	s->cursor = scratch;
	s->gained = s->cursor + s->n;
	s->next = s->gained + s->n;
	s->first = s->next + s->n;
	s->claims = (uint16_t *)(s->first + s->n + 1);
	// At most window * sum / heaviest + n claims, hence no more than 2 * n.
	s->window = (uint32_t)((uint64_t)s->n * s->heaviest / sum);
	for (uint32_t i = 0; i < s->n; i++) {
		uint32_t weight = s->backends[i].weight;

		s->cursor[i] = s->backends[i].offset;
		s->gained[i] = 0;
		s->next[i] = 0;
		if (weight > 0) {
			s->next[i] = (s->heaviest - 1) / weight;
			s->gained[i] =
				(uint32_t)(((uint64_t)s->next[i] + 1) * weight - s->heaviest);
		}
	}
}

// From the claim that stands in next/gained to the one after it. Returns its distance in sweeps.
static uint32_t schedule_step(const struct schedule *s, uint32_t weight, uint32_t *gained) {
	uint32_t missing = s->heaviest - *gained;
	uint32_t sweeps = missing <= weight ? 1 : (missing - 1) / weight + 1;

	*gained = (uint32_t)((uint64_t)sweeps * weight - missing);
	return sweeps;
}

// Sort the claims of the next window into claims[]. Returns how many there are.
static uint32_t schedule_window(struct schedule *s) {
	uint32_t total = 0;

	memset(s->first, 0, (s->window + 1) * sizeof(*s->first));
	for (uint32_t i = 0; i < s->n; i++) {
		uint32_t weight = s->backends[i].weight;
		uint32_t gained = s->gained[i];
		uint64_t next = s->next[i];

		while (weight > 0 && next < s->window) {
			s->first[next]++;
			next += schedule_step(s, weight, &gained);
		}
	}
	for (uint32_t sweep = 0; sweep < s->window; sweep++) {
		uint32_t count = s->first[sweep];

		s->first[sweep] = total;
		total += count;
	}
	for (uint32_t i = 0; i < s->n; i++) {
		uint32_t weight = s->backends[i].weight;
		uint64_t next = s->next[i];

		if (weight == 0) {
			continue;
		}
		while (next < s->window) {
			s->claims[s->first[next]++] = (uint16_t)i;
			next += schedule_step(s, weight, &s->gained[i]);
		}
		s->next[i] = (uint32_t)(next - s->window);
	}
	return total;
}

static void claim(struct schedule *s, uint16_t backend, uint16_t *table) {
	uint32_t skip = s->backends[backend].skip;
	uint32_t wrap = s->slots - skip;
	uint32_t c = s->cursor[backend];

	while (table[c] != WEIR_MAGLEV_EMPTY) {
		c = c >= wrap ? c - wrap : c + skip;
	}
	table[c] = backend;
	s->cursor[backend] = c >= wrap ? c - wrap : c + skip;
}

void weir_maglev_build(const struct weir_maglev_backend *backends, uint32_t n, uint16_t *table,
	uint32_t slots, void *scratch) {
	struct schedule s = {.backends = backends, .n = n, .slots = slots};
	uint64_t sum = 0;
	uint32_t filled = 0;

	memset(table, 0xff, slots * sizeof(*table));
	for (uint32_t i = 0; i < n; i++) {
		sum += backends[i].weight;
		if (backends[i].weight > s.heaviest) {
			s.heaviest = backends[i].weight;
		}
	}
	if (sum == 0) {
		return;
	}
	schedule_init(&s, sum, scratch);
	while (filled < slots) {
		uint32_t claims = schedule_window(&s);

		if (claims > slots - filled) {
			claims = slots - filled;
		}
		for (uint32_t i = 0; i < claims; i++) {
			claim(&s, s.claims[i], table);
		}
		filled += claims;
	}
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
