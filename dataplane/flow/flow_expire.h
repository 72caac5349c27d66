// SPDX-License-Identifier: BSD-3-Clause
//
// Flow expiry: ends flows after their timeout, a limited number of buckets at a time.
//
// Threads: one table per worker; only that worker calls these functions.
#pragma once

#include "flow_bucket.h"

#define WEIR_FLOW_SWEEP_SHIFT 20 // sweep_rate is in buckets per 2^20 ns (about a millisecond)

// Expire flows in a limited number of buckets, and check flows during a recheck (F6 of
// flow_table.h). Call once per iteration of the poll loop. Returns true if more flows must be
// checked: call again soon, do not sleep.
bool weir_flow_sweep(struct weir_flow_table *table, uint64_t now_ns);

// Make the sweep start at the first bucket of this part. Call when the table, which owns no other
// part, gets this part.
void weir_flow_sweep_from(struct weir_flow_table *table, uint32_t part);
// Call when the table has released this part. If the sweep is in this part, the sweep continues
// with the next part.
void weir_flow_sweep_leave(struct weir_flow_table *table, uint32_t part);

// Clear the old start times of a bucket, long before their ticks wrap. The service times of these
// flows are not measured. ipv6: the family of the bucket.
void weir_flow_starts_clear(
	struct weir_flow_table *table, bool ipv6, uint32_t bucket, uint64_t now_ns);

// Starts a recheck. Call when the services have changed. The sweep then ends UDP flows that no
// longer belong to their backend's service (`belongs` of the listener). tcp: the sweep also ends
// TCP flows that no longer belong to their backend's service; these flows continue until the sweep
// reaches them.
//
// The recheck ends when the sweep has passed every bucket, usually within two seconds. Until then,
// the fast path does not handle datagrams: they take weir_flow_lookup, whose caller must call
// `belongs`.
void weir_flow_recheck(struct weir_flow_table *table, bool tcp, uint64_t now_ns);

// End the flows of a bucket that do not belong to their backend's service: UDP flows, and TCP flows
// if the last recheck had `tcp` set.
void weir_flow_bucket_recheck(
	struct weir_flow_table *table, bool ipv6, uint32_t bucket, uint64_t now_ns);

// End the flows of a bucket that have expired.
void weir_flow_bucket_expire(
	struct weir_flow_table *table, bool ipv6, uint32_t bucket, uint64_t now_ns);
