// SPDX-License-Identifier: BSD-3-Clause
//
// Subsetting: chooses which of a service's backends a client uses. Called by control when the
// backends, their states or the configuration change, by weirctl's preview and by the simulator;
// never on the packet path.
//
// Sources: "Site Reliability Engineering" (2016), chapter 20, for random and deterministic
// subsetting; Ward, Wankadia and Guliani, "Reinventing Backend Subsetting at Google" (ACM
// Queue 20.5, 2022), for rocksteadier.
//
// Backends are given as indexes 0 .. n - 1 into a list that all clients have in the same order (the
// canonical order; weir_subset_compare_names). Clients are numbered 0, 1, 2 ... without gaps.
//
// Guarantees
//   U1 The same list, client and parameters give the same subset on every machine. The result does
//      not depend on earlier calls or on the number of clients.
//   U2 A subset has as many usable backends as weir_subset_order returns (the requested number, or
//      more in mode spread), unless fewer backends are usable.
//   U3 When a backend becomes unusable, only the subsets that contain it change, and in each of
//      them only this backend is replaced. When the backend is usable again, the old subsets are
//      restored.
//   U4 Only for the deterministic algorithm in mode spread: if the clients are 0 .. m - 1, and
//      all backends are usable, the numbers of clients of any two backends differ by at most one.
//
// A backend that was removed permanently may stay in the list as unusable, so that the other
// backends keep their indexes.
//
// Threads: any; no shared state. The caller provides all memory.
#pragma once

#include <stddef.h>
#include <stdint.h>

// X(NAME, "name")
#define WEIR_SUBSET_ALGORITHMS(X) \
	X(NONE, "none") \
	X(RANDOM, "random") \
	X(DETERMINISTIC, "deterministic") \
	X(ROCKSTEADIER, "rocksteadier")

enum weir_subset_algorithm {
#define X(name, key) WEIR_SUBSET_##name,
	WEIR_SUBSET_ALGORITHMS(X)
#undef X
		WEIR_SUBSET_ALGORITHM_COUNT,
};

// The behaviour of the deterministic algorithm if the number of backends is not a multiple of the
// subset size.
// X(NAME, "name")
#define WEIR_SUBSET_MODES(X) \
	X(SPREAD, "spread") /*some subsets are larger; no backend is left out*/ \
	X(EXACT, "exact") /*every subset has the requested size; some backends are left out*/

enum weir_subset_mode {
#define X(name, key) WEIR_SUBSET_MODE_##name,
	WEIR_SUBSET_MODES(X)
#undef X
		WEIR_SUBSET_MODE_COUNT,
};

// The unit that counts as one client. All workers of a client use the same subset. X(NAME, "name")
#define WEIR_SUBSET_CLIENTS(X) \
	X(GROUP, "group") /*all instances that can receive each other's flows*/ \
	X(INSTANCE, "instance") \
	X(WORKER, "worker")

enum weir_subset_client {
#define X(name, key) WEIR_SUBSET_CLIENT_##name,
	WEIR_SUBSET_CLIENTS(X)
#undef X
		WEIR_SUBSET_CLIENT_COUNT,
};

struct weir_subset_params {
	enum weir_subset_algorithm algorithm;
	enum weir_subset_mode mode;
	uint32_t size; // requested number of backends per subset; 0 = all
	uint32_t client; // index of the client
	// Must be the same for all clients; a different salt gives different shuffles
	uint32_t salt;
};

// Position of a client in the fleet (all groups of instances). member < members, worker < workers.
struct weir_subset_place {
	uint32_t group; // index of the client's group
	uint32_t member; // index of the instance in its group
	uint32_t members; // number of instances of every group, > 0
	uint32_t worker; // index of the worker in its instance
	uint32_t workers; // number of workers of every instance, > 0
};

// One client's slice of a shuffle, for deterministic subsetting.
struct weir_subset_slice {
	uint32_t round; // index of the shuffle
	uint32_t first; // index of the first element in the shuffle
	uint32_t length;
};

// Returns the index of the client at a position. In the whole fleet, the indexes are 0, 1, 2 ...
// without gaps.
uint32_t weir_subset_client_index(
	enum weir_subset_client client, const struct weir_subset_place *place);

// Returns the number of scratch elements needed to choose among n backends.
size_t weir_subset_scratch_count(uint32_t n);

// Compute the client's order of preference of all n backends.
//
// ret_order  [n]
// scratch    [weir_subset_scratch_count(n)]
// Returns the number of backends that the client uses if all are usable: the size, or n if that
// is less or the size is 0. With the deterministic algorithm in mode spread, the number can be
// higher than the size if n is not a multiple of the size. Cost: O(n).
uint32_t weir_subset_order(const struct weir_subset_params *params, uint32_t n, uint32_t *ret_order,
	uint32_t *scratch);

// Compute the client's subset. The subset consists of the first usable backends in the client's
// order of preference, as many as weir_subset_order returns.
//
// usable      [n], 0 = unusable now; NULL = all are usable
// ret_subset  [n], in order of preference
// scratch     [weir_subset_scratch_count(n)]
// Returns the number of backends in the subset.
// Cost: O(n).
uint32_t weir_subset_choose(const struct weir_subset_params *params, const uint8_t *usable,
	uint32_t n, uint32_t *ret_subset, uint32_t *scratch);

// For each backend b, add to counts[b] the number of clients that use the backend, among the
// clients 0 .. clients - 1. params->client is ignored.
//
// counts      [n]
// scratch     [n + weir_subset_scratch_count(n)]
// Cost: O(clients * n).
void weir_subset_count(const struct weir_subset_params *params, uint32_t clients,
	const uint8_t *usable, uint32_t n, uint32_t *counts, uint32_t *scratch);

// Returns the slice of a client in deterministic subsetting. 0 < size < n.
struct weir_subset_slice weir_subset_slice(
	enum weir_subset_mode mode, uint32_t client, uint32_t n, uint32_t size);

// Compares names in the canonical order: like strcmp, but sequences of digits are compared as
// numbers. Therefore web-10 comes after web-9, and a new backend whose name has the next number
// comes last. Returns < 0, 0 (only for equal names) or > 0, as for qsort.
int weir_subset_compare_names(const char *a, const char *b);

const char *weir_subset_name(enum weir_subset_algorithm algorithm); // "unknown" when out of range
const char *weir_subset_mode_name(enum weir_subset_mode mode);
const char *weir_subset_client_name(enum weir_subset_client client);
int weir_subset_parse(const char *name); // enum weir_subset_algorithm or -EINVAL
int weir_subset_mode_parse(const char *name); // enum weir_subset_mode or -EINVAL
