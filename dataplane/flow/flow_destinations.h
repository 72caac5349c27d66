// SPDX-License-Identifier: BSD-3-Clause
//
// Flow destinations: the IPv6 destination addresses of a table's flows. Services have few
// addresses: each address is stored once, and the slot of a flow contains the number (index) of the
// address. Therefore two IPv6 flows fit into a cache line, and keys are still compared in full.
//
// A number keeps its address while flows use the number. Afterwards the number may be reused for
// another address.
//
// Threads: part of a flow table; used only by the worker of the table. No allocation after create.
#pragma once

#include <stdint.h>

#define WEIR_FLOW_DESTINATIONS_MAX 65535u

struct weir_flow_destinations {
	uint8_t (*address)[16]; // the addresses, indexed by number
	// number of flows with each address, indexed by number; 0 = the number is free
	uint32_t *flows;
	uint16_t *next; // indexed by number: next number in the same chain, or in the free list
	uint16_t *chains; // indexed by the hash of an address: first number of the chain
	uint32_t mask; // mask that reduces a hash to an index of chains[]
	uint16_t free; // the first free number
	uint16_t last; // the number that the last `take` returned
};

// Initialize the destinations of a table. addresses: maximum number of addresses, at most
// WEIR_FLOW_DESTINATIONS_MAX. socket: NUMA node of the memory. Returns 0, or -ENOMEM (nothing to
// free). [set-up]
int weir_flow_destinations_create(
	uint32_t addresses, int socket, struct weir_flow_destinations *ret);
void weir_flow_destinations_free(struct weir_flow_destinations *destinations);
uint64_t weir_flow_destinations_bytes(uint32_t addresses);

// Returns the number of an address of 16 bytes, and counts one more flow for the address. A new
// address gets a free number. Returns -ENOSPC if no number is free.
int weir_flow_destinations_take(
	struct weir_flow_destinations *destinations, const uint8_t *address);

// Record that a flow whose destination has this number was removed. The number becomes free when no
// flow uses it.
void weir_flow_destinations_release(struct weir_flow_destinations *destinations, uint16_t number);
