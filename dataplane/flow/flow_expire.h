// SPDX-License-Identifier: BSD-3-Clause
//
// Flow expiry: end the flows whose timeout is over, a piece of the table at a time.
//
// Threads: one table per worker; only that worker calls these.
#pragma once

#include "flow_bucket.h"

#define WEIR_FLOW_SWEEP_SHIFT 20 // sweep_rate is in buckets per 2^20 ns (about a millisecond)

// Expire what is due: a bounded piece of the table per call (F6). Call once per turn of the poll
// loop.
// Returns true when more is due: call again soon, do not sleep.
bool weir_flow_sweep(struct weir_flow_table *table, uint64_t now_ns);

// The table has its first part: sweep from there.
void weir_flow_sweep_from(struct weir_flow_table *table, uint32_t part);
// A part is no longer the table's: go on with the next one.
void weir_flow_sweep_leave(struct weir_flow_table *table, uint32_t part);

// Clear the old starts of a bucket long before their ticks wrap. Such a flow is not measured.
void weir_flow_starts_forget(
	struct weir_flow_table *table, bool ipv6, uint32_t bucket, uint64_t now_ns);

// The services have changed. Until the sweep has come by every bucket, within two seconds, it ends
// the flows of UDP that do not belong to their backend's service any more (`belongs` of the
// listener), and the fast path leaves datagrams to weir_flow_lookup, whose caller must check the
// same. The fast path pays nothing for it afterwards.
void weir_flow_recheck(struct weir_flow_table *table, uint64_t now_ns);

// End the flows of UDP in a bucket that do not belong to their backend's service.
void weir_flow_bucket_recheck(
	struct weir_flow_table *table, bool ipv6, uint32_t bucket, uint64_t now_ns);

// End the flows of a bucket that have expired.
void weir_flow_bucket_expire(
	struct weir_flow_table *table, bool ipv6, uint32_t bucket, uint64_t now_ns);
