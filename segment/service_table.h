// SPDX-License-Identifier: BSD-3-Clause
//
// Service table: maps (address, protocol, port) to a service id. Built by control, read by
// workers. The builder and the lookup are in one file, because both must use the same hash.
#pragma once

#include "reader.h"
#include "writer.h"

// One bind of a service, from control. An IPv4 address is in the first 4 bytes of address; the
// remaining bytes are 0.
struct weir_service_bind {
	uint8_t address[16];
	uint8_t family; // 4 or 6
	uint8_t protocol; // IPPROTO_TCP or IPPROTO_UDP
	uint16_t port_first; // host order; 0 with port_last 65535 = every port
	uint16_t port_last; // inclusive
	uint16_t service; // service id with the flags WEIR_BIND_FLAGS
	uint8_t closed; // enum weir_closed_ports; the highest value of all binds of an address
			// applies
};

// Build a table from n binds in any order. hash_seed: seed of the hash that maps keys to buckets.
// If binds overlap, an exact port takes precedence over a range, and a narrower range over a wider
// range. Two binds with the same address, protocol and ports cause -EEXIST (config check reports
// them first). If overlapping ranges have equal widths, the range with the lower first port takes
// precedence. Returns 0 and the blob in *ret (owned by the caller, see writer.h), -EEXIST, -ENOSPC,
// -EBUSY, -ENOMEM, -EINVAL (an unknown family, protocol or value of closed, an IPv4 address that is
// not zero padded, a bind without a service, or port_last below port_first).
int weir_service_table_build(struct weir_writer *writer, const struct weir_service_bind *binds,
	uint32_t n, uint64_t hash_seed, struct weir_service_table **ret);

// Returns the service of (address, protocol, port) with the flags of the bind, or
// WEIR_SERVICE_NONE. Searches for one or two keys in the hash table. [worker] address: 16 bytes,
// IPv4 zero padded; port in host order. If the bind accepts no new flows, the result has flags and
// is not a valid id. In a table from another process, the id can have any value.
uint16_t weir_service_lookup(const struct weir_services_view *view, const uint8_t address[16],
	uint8_t family, uint8_t protocol, uint16_t port);

// Returns whether exactly this port has a bind, not only a range that includes it. family: 4 or 6.
bool weir_service_is_port(const struct weir_services_view *view, const uint8_t address[16],
	uint8_t family, uint8_t protocol, uint16_t port);

static inline bool weir_bind_is_drained(uint16_t bind) {
	return bind != WEIR_SERVICE_NONE && (bind & WEIR_BIND_DRAINED) != 0;
}

// Returns the service of the bind's existing flows, or WEIR_SERVICE_NONE.
static inline uint16_t weir_bind_existing(uint16_t bind) {
	return (bind & WEIR_BIND_ENDED) != 0 ? WEIR_SERVICE_NONE
					     : (uint16_t)(bind & ~WEIR_BIND_FLAGS);
}

// Returns whether workers must end the service's flows to this bind, because the bind was removed
// and its drain is over.
static inline bool weir_bind_is_over(uint16_t bind, uint16_t service) {
	const uint16_t over = WEIR_BIND_REMOVED | WEIR_BIND_ENDED;

	return bind != WEIR_SERVICE_NONE && (bind & over) == over &&
	       (bind & ~WEIR_BIND_FLAGS) == service;
}

// Returns whether the address is a VIP, for any port. [worker]
bool weir_service_is_vip(
	const struct weir_services_view *view, const uint8_t address[16], uint8_t family);
// Returns the action for packets to this address whose destination port has no bind;
// WEIR_CLOSED_PORTS_KERNEL if the address is not a VIP. [worker]
enum weir_closed_ports weir_service_closed_ports(
	const struct weir_services_view *view, const uint8_t address[16], uint8_t family);

// Enumerates the binds in no particular order: exact ports, and disjoint parts of ranges. A table
// from another process may contain duplicates and arbitrary values, but at most as many ranges are
// enumerated as the table has.
struct weir_service_cursor { // zero at the start
	uint64_t bucket;
	uint32_t range; // index of the range in a bucket with ranges
	uint32_t ranges; // number of ranges in earlier buckets
};
bool weir_service_next(const struct weir_services_view *view, struct weir_service_cursor *cursor,
	struct weir_service_bind *ret);

// Reduces first..last to its first sequence of consecutive ports that are in no range. Binds of
// exact ports are ignored. Returns false if all ports are in ranges.
bool weir_service_gap(const struct weir_services_view *view, const uint8_t address[16],
	uint8_t family, uint8_t protocol, uint16_t *first, uint16_t *last);
