// SPDX-License-Identifier: BSD-3-Clause
//
// Subsetting of others, to compare with: measured by tests and shown in
// docs/design/policy-measurements.md. Not offered by the configuration.
//
// Threads: pure functions; memory is the caller's.
#pragma once

#include <stdint.h>

struct weir_rendezvous_score {
	uint64_t score;
	uint32_t backend;
};

// Rendezvous subsetting (gRPC A68): the `size` backends with the lowest scores for this client.
// No numbering needed and no more churn than must be; as uneven as random subsetting.
//
// size        at most n
// ret_subset  [size], best first
// scratch     [n]
// Cost: O(n log n).
void weir_subset_rendezvous(uint32_t client, uint32_t salt, uint32_t n, uint32_t size,
	uint32_t *ret_subset, struct weir_rendezvous_score *scratch);

// Deterministic aperture (Twitter's Finagle): backends stand around a circle, and each client
// covers an arc of it, as long as all others' and long enough for `size` backends. A client sends
// a backend what it covers of it. Every backend is covered the same in sum, whatever the numbers;
// but only a policy that takes weights can make use of it, and the arcs move with every change of
// clients or backends.
//
// client     < clients
// n          > 0
// ret_cover  [n], what the client covers of each backend, in units of 1 / clients
// Returns the backends that it covers at least a part of.
// Cost: O(n).
uint32_t weir_subset_aperture(
	uint32_t client, uint32_t clients, uint32_t n, uint32_t size, uint64_t *ret_cover);
