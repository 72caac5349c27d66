// SPDX-License-Identifier: BSD-3-Clause
//
// Flow expiry: ends flows after their timeout, a part of the table at a time.
//
// Threads: one table per worker; only that worker calls these.
#pragma once

#include "flow_bucket.h"

#define WEIR_FLOW_SWEEP_SHIFT 20 // sweep_rate is in buckets per 2^20 ns (about a millisecond)

// Expire flows in a bounded part of the table (F6). Call once per turn of the poll loop. Returns
// true if more is due: call again soon, do not sleep.
bool weir_flow_sweep(struct weir_flow_table *table, uint64_t now_ns);

// Start to sweep from the table's first part.
void weir_flow_sweep_from(struct weir_flow_table *table, uint32_t part);
// Continue the sweep with the next part, if it is in this one, which the table has released.
void weir_flow_sweep_leave(struct weir_flow_table *table, uint32_t part);

// Clear the old starts of a bucket long before their ticks wrap. These flows are not measured.
void weir_flow_starts_clear(
	struct weir_flow_table *table, bool ipv6, uint32_t bucket, uint64_t now_ns);

// Call when the services have changed. Until the sweep has passed every bucket, within two seconds,
// it ends UDP flows that no longer belong to their backend's service (`belongs` of the listener),
// and the fast path leaves datagrams to weir_flow_lookup, whose caller must make the same check.
// Afterwards the fast path has no extra cost. tcp: the sweep ends such flows of TCP, too, which
// continue until then.
void weir_flow_recheck(struct weir_flow_table *table, bool tcp, uint64_t now_ns);

// End the flows of a bucket that do not belong to their backend's service: those of UDP, and with
// `tcp` of the last recheck all.
void weir_flow_bucket_recheck(
	struct weir_flow_table *table, bool ipv6, uint32_t bucket, uint64_t now_ns);

// End the flows of a bucket that have expired.
void weir_flow_bucket_expire(
	struct weir_flow_table *table, bool ipv6, uint32_t bucket, uint64_t now_ns);
