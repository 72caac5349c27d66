// SPDX-License-Identifier: BSD-3-Clause
//
// Flow destinations: the IPv6 destination addresses of a table's flows. These are the few addresses
// of services, so each is stored once, and a flow has its number instead. So two IPv6 flows fit
// into a cache line, and their keys are still compared in full.
//
// A number keeps its address while flows use it. Then it may be reused for another address.
//
// Threads: part of a flow table; its worker only. No allocation after create.
#pragma once

#include <stdint.h>

#define WEIR_FLOW_DESTINATIONS_MAX 65535u

struct weir_flow_destinations {
	uint8_t (*address)[16]; // by number
	uint32_t *flows; // by number: count of its flows; 0 = the number is free
	uint16_t *next; // by number: the next in its chain, or in the free list
	uint16_t *chains; // by hash of the address: the first number
	uint32_t mask; // of hashes
	uint16_t free; // the first free number
	uint16_t last; // the most recently assigned number
};

// For up to WEIR_FLOW_DESTINATIONS_MAX addresses. Returns 0, -ENOMEM: nothing to free. [set-up]
int weir_flow_destinations_create(
	uint32_t addresses, int socket, struct weir_flow_destinations *ret);
void weir_flow_destinations_free(struct weir_flow_destinations *destinations);
uint64_t weir_flow_destinations_bytes(uint32_t addresses);

// The number of an address of 16 bytes, for one more flow. -ENOSPC: too many addresses.
int weir_flow_destinations_take(
	struct weir_flow_destinations *destinations, const uint8_t *address);

// Call when a flow with this number was removed.
void weir_flow_destinations_release(struct weir_flow_destinations *destinations, uint16_t number);
