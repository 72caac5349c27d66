// SPDX-License-Identifier: BSD-3-Clause
//
// Subsetting: the common part of all algorithms. An algorithm returns all backends in an order of
// preference. The subset consists of the first usable backends in this order, which ensures U2 and
// U3 (subset.h).
#include <errno.h>
#include <string.h>

#include "subset_private.h"

static const char *const algorithm_names[] = {
#define X(name, key) key,
	WEIR_SUBSET_ALGORITHMS(X)
#undef X
};

static const char *const mode_names[] = {
#define X(name, key) key,
	WEIR_SUBSET_MODES(X)
#undef X
};

static const char *const client_names[] = {
#define X(name, key) key,
	WEIR_SUBSET_CLIENTS(X)
#undef X
};

static const char *name_of(const char *const *names, uint32_t count, uint32_t value) {
	return value < count ? names[value] : "unknown";
}

static int parse(const char *const *names, uint32_t count, const char *name) {
	for (uint32_t i = 0; i < count; i++) {
		if (strcmp(name, names[i]) == 0) {
			return (int)i;
		}
	}
	return -EINVAL;
}

const char *weir_subset_name(enum weir_subset_algorithm algorithm) {
	return name_of(algorithm_names, WEIR_SUBSET_ALGORITHM_COUNT, algorithm);
}

const char *weir_subset_mode_name(enum weir_subset_mode mode) {
	return name_of(mode_names, WEIR_SUBSET_MODE_COUNT, mode);
}

const char *weir_subset_client_name(enum weir_subset_client client) {
	return name_of(client_names, WEIR_SUBSET_CLIENT_COUNT, client);
}

int weir_subset_parse(const char *name) {
	return parse(algorithm_names, WEIR_SUBSET_ALGORITHM_COUNT, name);
}

int weir_subset_mode_parse(const char *name) {
	return parse(mode_names, WEIR_SUBSET_MODE_COUNT, name);
}

uint32_t weir_subset_client_index(
	enum weir_subset_client client, const struct weir_subset_place *place) {
	uint32_t index = place->group;

	if (client == WEIR_SUBSET_CLIENT_GROUP) {
		return index;
	}
	index = index * place->members + place->member;
	if (client == WEIR_SUBSET_CLIENT_INSTANCE) {
		return index;
	}
	return index * place->workers + place->worker;
}

// The result is enough for every algorithm: rocksteadier needs the most scratch memory. Each lot
// needs WEIR_ROCKSTEADIER_LOT elements for backends (the last lot is padded), and one element
// for the order of the lots.
size_t weir_subset_scratch_count(uint32_t n) {
	size_t lots = ((size_t)n + WEIR_ROCKSTEADIER_LOT - 1) / WEIR_ROCKSTEADIER_LOT;

	return lots * (WEIR_ROCKSTEADIER_LOT + 1);
}

uint32_t weir_subset_order(const struct weir_subset_params *params, uint32_t n, uint32_t *ret_order,
	uint32_t *scratch) {
	enum weir_subset_algorithm algorithm = params->algorithm;

	if (params->size == 0 || params->size >= n) {
		algorithm = WEIR_SUBSET_NONE;
	}
	switch (algorithm) {
	case WEIR_SUBSET_RANDOM:
		return weir_subset_random_order(params, n, ret_order);
	case WEIR_SUBSET_DETERMINISTIC:
		return weir_subset_deterministic_order(params, n, ret_order, scratch);
	case WEIR_SUBSET_ROCKSTEADIER:
		return weir_subset_rocksteadier_order(params, n, ret_order, scratch);
	case WEIR_SUBSET_NONE:
	default:
		for (uint32_t i = 0; i < n; i++) {
			ret_order[i] = i;
		}
		return n;
	}
}

uint32_t weir_subset_choose(const struct weir_subset_params *params, const uint8_t *usable,
	uint32_t n, uint32_t *ret_subset, uint32_t *scratch) {
	uint32_t size = weir_subset_order(params, n, ret_subset, scratch);
	uint32_t chosen = 0;

	if (usable == NULL) {
		return size;
	}
	for (uint32_t i = 0; i < n && chosen < size; i++) {
		if (usable[ret_subset[i]]) {
			ret_subset[chosen++] = ret_subset[i];
		}
	}
	return chosen;
}

void weir_subset_count(const struct weir_subset_params *params, uint32_t clients,
	const uint8_t *usable, uint32_t n, uint32_t *counts, uint32_t *scratch) {
	struct weir_subset_params each = *params;

	for (each.client = 0; each.client < clients; each.client++) {
		uint32_t chosen = weir_subset_choose(&each, usable, n, scratch, scratch + n);

		for (uint32_t i = 0; i < chosen; i++) {
			counts[scratch[i]]++;
		}
	}
}

static int is_digit(char c) {
	return c >= '0' && c <= '9';
}

// Compares the numbers at *a and *b; leading zeros are ignored. If the numbers are equal, advances
// *a and *b past them.
static int compare_numbers(const char **a, const char **b) {
	size_t a_digits = 0;
	size_t b_digits = 0;
	int order = 0;

	while (**a == '0') {
		++*a;
	}
	while (**b == '0') {
		++*b;
	}
	while (is_digit((*a)[a_digits])) {
		a_digits++;
	}
	while (is_digit((*b)[b_digits])) {
		b_digits++;
	}
	if (a_digits != b_digits) {
		return a_digits < b_digits ? -1 : 1;
	}
	order = memcmp(*a, *b, a_digits);
	*a += a_digits;
	*b += b_digits;
	return order;
}

int weir_subset_compare_names(const char *a, const char *b) {
	const char *whole_a = a;
	const char *whole_b = b;

	while (*a != '\0' && *b != '\0') {
		if (is_digit(*a) && is_digit(*b)) {
			int order = compare_numbers(&a, &b);

			if (order != 0) {
				return order;
			}
		} else if (*a != *b) {
			break;
		} else {
			a++;
			b++;
		}
	}
	if (*a != *b) {
		return (unsigned char)*a < (unsigned char)*b ? -1 : 1;
	}
	// Names that differ only in leading zeros, such as web-01 and web-1, are not equal.
	return strcmp(whole_a, whole_b);
}
