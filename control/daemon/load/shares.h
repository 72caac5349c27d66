// SPDX-License-Identifier: BSD-3-Clause
//
// Shares: what each backend of a service is meant to get of its new flows, by policy, and what it
// got. For the API; computed for a whole answer at once.
//
// Threads: one.
#pragma once

#include <stdbool.h>

#include "recent.h"
#include "segment.h"
#include "tables.h"

struct weir_shares; // of all services, or of one

struct weir_shares_of { // what they are computed from; borrowed until weir_shares_free
	const struct weir_tables *tables;
	const struct weir_segment *segment; // NULL while there is no dataplane
	const struct weir_recent *recent;
};

#define WEIR_SHARES_ALL 0xffffffffu

// service: an id, or WEIR_SHARES_ALL. Returns 0 or -ENOMEM.
int weir_shares_create(const struct weir_shares_of *of, uint32_t service, struct weir_shares **ret);
void weir_shares_free(struct weir_shares *shares); // NULL is fine

// What the policy aims at, percent of the service's new flows:
//   maglev: slots; weighted-round-robin: strides; time-weighted, interleaved: weight / cost;
//   fair-share: 1 / cost; others: the same for each. 0 = it takes no new flows.
// Where each worker has a subset of its own: the mean over the subsets.
double weir_shares_effective(const struct weir_shares *shares, const struct weir_backend_state *of);
// Of all new flows that were ever counted. 0 when there were none.
double weir_shares_achieved(const struct weir_shares *shares, const struct weir_backend_state *of);
// Of those of the last minute. Negative when there were none.
double weir_shares_recent(const struct weir_shares *shares, const struct weir_backend_state *of);
