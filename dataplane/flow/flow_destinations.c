// SPDX-License-Identifier: BSD-3-Clause
#include "flow_destinations.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include <rte_branch_prediction.h>
#include <rte_common.h>
#include <rte_malloc.h>

#include "hash.h"

#define NONE UINT16_MAX // end of a chain

static uint32_t chains_for(uint32_t addresses) {
	return rte_align32pow2(addresses);
}

uint64_t weir_flow_destinations_bytes(uint32_t addresses) {
	return (uint64_t)addresses * (16 + sizeof(uint32_t) + sizeof(uint16_t)) +
	       (uint64_t)chains_for(addresses) * sizeof(uint16_t);
}

int weir_flow_destinations_create(
	uint32_t addresses, int socket, struct weir_flow_destinations *ret) {
	struct weir_flow_destinations d = {.mask = chains_for(addresses) - 1};

	d.address = rte_zmalloc_socket("flow_table", (size_t)addresses * 16, 64, socket);
	d.flows =
		rte_zmalloc_socket("flow_table", (size_t)addresses * sizeof(*d.flows), 64, socket);
	d.next = rte_zmalloc_socket("flow_table", (size_t)addresses * sizeof(*d.next), 64, socket);
	d.chains = rte_zmalloc_socket(
		"flow_table", ((size_t)d.mask + 1) * sizeof(*d.chains), 64, socket);
	if (d.address == NULL || d.flows == NULL || d.next == NULL || d.chains == NULL) {
		weir_flow_destinations_free(&d);
		return -ENOMEM;
	}
	for (uint32_t number = 0; number < addresses; number++) {
		d.next[number] = number + 1 < addresses ? (uint16_t)(number + 1) : NONE;
	}
	memset(d.chains, 0xff, ((size_t)d.mask + 1) * sizeof(*d.chains)); // NONE
	*ret = d;
	return 0;
}

void weir_flow_destinations_free(struct weir_flow_destinations *destinations) {
	rte_free(destinations->chains);
	rte_free(destinations->next);
	rte_free(destinations->flows);
	rte_free(destinations->address);
	*destinations = (struct weir_flow_destinations){0};
}

static uint16_t *chain_of(const struct weir_flow_destinations *d, const uint8_t *address) {
	uint64_t words[2];

	memcpy(words, address, sizeof(words));
	return &d->chains[weir_hash_mix(words[0] ^ 0x9e3779b97f4a7c15ull,
				  words[1] ^ 0xd1342543de82ef95ull) &
			  d->mask];
}

static bool is_address(
	const struct weir_flow_destinations *d, uint16_t number, const uint8_t *address) {
	return memcmp(d->address[number], address, 16) == 0;
}

int weir_flow_destinations_take(struct weir_flow_destinations *d, const uint8_t *address) {
	uint16_t number = d->last;
	uint16_t *chain;

	if (likely(d->flows[number] > 0 && is_address(d, number, address))) {
		d->flows[number]++;
		return number;
	}
	chain = chain_of(d, address);
	number = *chain;
	while (number != NONE && !is_address(d, number, address)) {
		number = d->next[number];
	}
	if (number == NONE) {
		number = d->free;
		if (number == NONE) {
			return -ENOSPC;
		}
		d->free = d->next[number];
		memcpy(d->address[number], address, 16);
		d->next[number] = *chain;
		*chain = number;
	}
	d->flows[number]++;
	d->last = number;
	return number;
}

void weir_flow_destinations_release(struct weir_flow_destinations *d, uint16_t number) {
	uint16_t *link;

	if (likely(--d->flows[number] > 0)) {
		return;
	}
	link = chain_of(d, d->address[number]);
	while (*link != number) {
		link = &d->next[*link];
	}
	*link = d->next[number];
	d->next[number] = d->free;
	d->free = number;
}
