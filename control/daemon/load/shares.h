// SPDX-License-Identifier: BSD-3-Clause
//
// Shares: computes the target share and the actual share of new flows for each backend of a
// service. The target share depends on the policy. The API computes the shares once per reply.
//
// Threads: one.
#pragma once

#include <stdbool.h>

#include "recent.h"
#include "segment.h"
#include "tables.h"

struct weir_shares; // shares of one service or of all services

struct weir_shares_of { // input; borrowed until weir_shares_free
	const struct weir_tables *tables;
	const struct weir_segment *segment; // NULL if no dataplane is attached
	const struct weir_recent *recent; // NULL: weir_shares_recent returns a negative number
};

#define WEIR_SHARES_ALL 0xffffffffu

// Compute shares. service: an id, or WEIR_SHARES_ALL. Returns 0 or -ENOMEM.
int weir_shares_create(const struct weir_shares_of *of, uint32_t service, struct weir_shares **ret);
void weir_shares_free(struct weir_shares *shares); // NULL is allowed

// Returns the target share of a backend, in percent of the service's new flows; 0 = no new flows,
// or the shares of its service were not computed. By policy:
//   maglev: slots; weighted-round-robin: strides; time-weighted, interleaved: weight / cost;
//   fair-share: 1 / cost; least-loaded: weight, which is the share of active flows; others: equal
//   shares.
// If each worker has its own subset, returns the mean over the subsets.
double weir_shares_effective(const struct weir_shares *shares, const struct weir_backend_state *of);
// Returns the actual share of a backend since its id was assigned, in percent of the new flows of
// all backends of the service; a negative number if there were none, or no dataplane is attached.
double weir_shares_achieved(const struct weir_shares *shares, const struct weir_backend_state *of);
// Returns the actual share of a backend in the last minute, in percent of the service's new flows;
// a negative number if there were no new flows.
double weir_shares_recent(const struct weir_shares *shares, const struct weir_backend_state *of);
