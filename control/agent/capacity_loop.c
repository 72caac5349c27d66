// SPDX-License-Identifier: BSD-3-Clause
#include "capacity_loop.h"

#include <errno.h>
#include <stdlib.h>

#define HASHES 16000u // number of hashes in each chain
#define OPERATIONS 6000u
#define STEPS 6000u
#define ODD 0x9e3779b97f4a7c15u

// The finalizer of MurmurHash3: https://github.com/aappleby/smhasher (public domain).
static uint64_t mix(uint64_t value) {
	value = (value ^ value >> 33) * 0xff51afd7ed558ccdu;
	value = (value ^ value >> 33) * 0xc4ceb9fe1a85ec53u;
	return value ^ value >> 33;
}

// Link all lines in one random cycle (Sattolo's algorithm), so that prefetching does not help.
static void shuffle(struct weir_capacity_line *lines) {
	for (uint32_t i = 0; i < WEIR_CAPACITY_LOOP_LINES; i++) {
		lines[i].next = i;
	}
	for (uint32_t i = WEIR_CAPACITY_LOOP_LINES - 1; i > 0; i--) {
		uint32_t j = (uint32_t)(mix(i) % i), kept = lines[i].next;

		lines[i].next = lines[j].next;
		lines[j].next = kept;
	}
}

int weir_capacity_loop_init(struct weir_capacity_loop *loop) {
	*loop = (struct weir_capacity_loop){
		.lines = aligned_alloc(64, WEIR_CAPACITY_LOOP_LINES * sizeof(*loop->lines)),
		.chain = {1, 2, 3, 4},
	};
	if (loop->lines == NULL) {
		return -ENOMEM;
	}
	shuffle(loop->lines);
	return 0;
}

void weir_capacity_loop_fini(struct weir_capacity_loop *loop) {
	free(loop->lines);
	loop->lines = NULL;
}

static uint64_t hash(uint64_t chain[static 4]) {
	uint64_t a = chain[0], b = chain[1], c = chain[2], d = chain[3];

	for (uint32_t i = 0; i < HASHES; i++) {
		a = mix(a + ODD);
		b = mix(b + ODD);
		c = mix(c + ODD);
		d = mix(d + ODD);
	}
	chain[0] = a;
	chain[1] = b;
	chain[2] = c;
	chain[3] = d;
	return a ^ b ^ c ^ d;
}

static uint64_t branch(uint64_t seed) {
	uint64_t a = seed, b = ~seed;

	for (uint32_t i = 0; i < OPERATIONS; i++) {
		switch (mix(seed + i) & 7) {
		case 0:
			a += b;
			break;
		case 1:
			b ^= a << 7;
			break;
		case 2:
			a = a << 13 | a >> 51;
			break;
		case 3:
			b -= a >> 3;
			break;
		case 4:
			a ^= b >> 11;
			break;
		case 5:
			b = b * 5 + 1;
			break;
		case 6:
			a = ~a + i;
			break;
		default:
			b = b << 29 | b >> 35;
			break;
		}
	}
	return a ^ b;
}

static uint32_t walk(const struct weir_capacity_line *lines, uint32_t at) {
	for (uint32_t i = 0; i < STEPS; i++) {
		at = lines[at].next;
	}
	return at;
}

uint64_t weir_capacity_loop_round(struct weir_capacity_loop *loop) {
	uint64_t number = hash(loop->chain);

	number = branch(number ^ loop->number);
	loop->at = walk(loop->lines, loop->at);
	loop->number = number ^ loop->at;
	return loop->number;
}
