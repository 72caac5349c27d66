// SPDX-License-Identifier: BSD-3-Clause
#include "member_order.h"

#include <stdlib.h>
#include <string.h>

#define DIGIT_BITS 11u
#define DIGITS (1u << DIGIT_BITS)
#define IDENTITY_PASSES 3u // passes of the radix sort over the upper 33 bits of identities
#define WEIGHT_PASSES 3u // passes of the radix sort over the 32 bits of weights
#define FEW 64u // up to this number, members are sorted by comparison
#define MISPLACED_FEW 64u

struct place {
	uint64_t identity;
	uint32_t weight;
	uint32_t at; // index in members[]
};

struct weir_member_order {
	const struct weir_selection_member *members;
	uint32_t n;
	uint32_t pass;
	bool by_weight;
	struct place *places; // [n] in the order of the last pass
	struct place *spare; // [n]
	struct place memory[]; // memory of places and spare
};

static int compare_members(const void *left, const void *right) {
	const struct weir_selection_member *a = left;
	const struct weir_selection_member *b = right;

	if (a->identity != b->identity) {
		return a->identity < b->identity ? -1 : 1;
	}
	return (a->id > b->id) - (a->id < b->id);
}

// Orders members by weight, the heaviest last, and members of equal weight by identity. A round of
// the policy interleaved-weighted-round-robin contains the candidates whose weight is at least a
// certain value. In this order, the candidates of each round are at the end of the list.
static int compare_weights(const void *left, const void *right) {
	const struct weir_selection_member *a = left;
	const struct weir_selection_member *b = right;

	if (a->weight != b->weight) {
		return a->weight < b->weight ? -1 : 1;
	}
	return compare_members(left, right);
}

struct weir_member_order *weir_member_order_begin(
	const struct weir_selection_member *members, uint32_t n, bool by_weight) {
	struct weir_member_order *order =
		malloc(sizeof(*order) + 2 * (size_t)n * sizeof(order->memory[0]));

	if (order == NULL) {
		return NULL;
	}
	*order = (struct weir_member_order){.members = members, .n = n, .by_weight = by_weight};
	order->places = order->memory;
	order->spare = order->memory + n;
	for (uint32_t i = 0; i < n; i++) {
		order->places[i] = (struct place){members[i].identity, members[i].weight, i};
	}
	return order;
}

static uint32_t digit_of(const struct place *place, uint32_t pass) {
	uint64_t key = pass < IDENTITY_PASSES
			       ? place->identity >> (64 - (IDENTITY_PASSES - pass) * DIGIT_BITS)
			       : (uint64_t)place->weight >> (pass - IDENTITY_PASSES) * DIGIT_BITS;

	return (uint32_t)key % DIGITS;
}

static void radix_pass(struct weir_member_order *order, uint32_t pass) {
	uint32_t start[DIGITS] = {0}, sum = 0;
	struct place *from = order->places;

	for (uint32_t i = 0; i < order->n; i++) {
		start[digit_of(&from[i], pass)]++;
	}
	if (order->n == 0 || start[digit_of(&from[0], pass)] == order->n) {
		return; // all keys are equal, which is common for weights
	}
	for (uint32_t i = 0; i < DIGITS; i++) {
		uint32_t count = start[i];

		start[i] = sum;
		sum += count;
	}
	for (uint32_t i = 0; i < order->n; i++) {
		order->spare[start[digit_of(&from[i], pass)]++] = from[i];
	}
	order->places = order->spare;
	order->spare = from;
}

static bool is_after(
	const struct weir_member_order *order, const struct place *a, const struct place *b) {
	return compare_members(&order->members[a->at], &order->members[b->at]) > 0;
}

static int compare_places(const void *left, const void *right) {
	const struct place *a = left;
	const struct place *b = right;

	if (a->identity != b->identity) {
		return a->identity < b->identity ? -1 : 1;
	}
	return (a->at > b->at) - (a->at < b->at);
}

// Sorts the members by all bits of their identities. The members are already sorted by the upper
// bits, so usually only few members must move.
static void compare_pass(struct weir_member_order *order) {
	struct place *places = order->places;
	uint32_t misplaced = 0;

	for (uint32_t i = 1; i < order->n; i++) {
		misplaced += is_after(order, &places[i - 1], &places[i]);
	}
	if (misplaced > MISPLACED_FEW) {
		qsort(places, order->n, sizeof(places[0]), compare_places);
	}
	for (uint32_t i = 1; i < order->n && misplaced > 0; i++) {
		struct place place = places[i];
		uint32_t to = i;

		for (; to > 0 && is_after(order, &places[to - 1], &place); to--) {
			places[to] = places[to - 1];
		}
		places[to] = place;
	}
}

bool weir_member_order_pass(struct weir_member_order *order) {
	uint32_t pass = order->pass++;

	if (pass < IDENTITY_PASSES) {
		radix_pass(order, pass);
	} else if (pass == IDENTITY_PASSES) {
		compare_pass(order);
		return order->by_weight;
	} else {
		radix_pass(order, pass - 1);
	}
	return pass < IDENTITY_PASSES + WEIGHT_PASSES;
}

void weir_member_order_end(struct weir_member_order *order, struct weir_selection_member *ret) {
	for (uint32_t i = 0; i < order->n; i++) {
		ret[i] = order->members[order->places[i].at];
	}
	free(order);
}

void weir_member_order_free(struct weir_member_order *order) {
	free(order);
}

void weir_member_order_sort(struct weir_selection_member *members, uint32_t n, bool by_weight) {
	struct weir_selection_member *sorted = NULL;
	struct weir_member_order *order = NULL;

	if (n > FEW) {
		order = weir_member_order_begin(members, n, by_weight);
		sorted = malloc(n * sizeof(sorted[0]));
	}
	if (order == NULL || sorted == NULL) {
		weir_member_order_free(order);
		free(sorted);
		if (n > 0) {
			qsort(members, n, sizeof(members[0]),
				by_weight ? compare_weights : compare_members);
		}
		return;
	}
	while (weir_member_order_pass(order)) {
	}
	weir_member_order_end(order, sorted);
	memcpy(members, sorted, n * sizeof(members[0]));
	free(sorted);
}
