// SPDX-License-Identifier: BSD-3-Clause
//
// Subsetting algorithms of other projects. Tests measure them for the comparison in
// docs/design/policy-measurements.md. Services cannot be configured to use them.
//
// Threads: pure functions; the caller provides the memory.
#pragma once

#include <stdint.h>

struct weir_rendezvous_score {
	uint64_t score;
	uint32_t backend;
};

// Rendezvous subsetting (gRPC A68): the `size` backends with the lowest scores for this client. The
// algorithm needs no numbering of clients and has minimal churn, but spreads load as unevenly as
// random subsetting.
//
// size        at most n
// ret_subset  [size], best first
// scratch     [n]
// Cost: O(n log n).
void weir_subset_rendezvous(uint32_t client, uint32_t salt, uint32_t n, uint32_t size,
	uint32_t *ret_subset, struct weir_rendezvous_score *scratch);

// Deterministic aperture (Twitter's Finagle): backends are on a circle, and each client covers an
// arc of equal length, long enough for `size` backends. A client sends traffic to a backend in
// proportion to the part of the backend that its arc covers. All backends have the same total
// coverage, for any numbers of clients and backends. But only a policy with weights can use
// aperture, and the arcs move when clients or backends are added or removed.
//
// client     below clients; n must be above 0
// ret_cover  [n], the covered part of each backend, in units of 1 / clients
//
// Returns the number of backends that the client's arc covers at least partly. Cost: O(n).
uint32_t weir_subset_aperture(
	uint32_t client, uint32_t clients, uint32_t n, uint32_t size, uint64_t *ret_cover);
