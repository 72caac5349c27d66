// SPDX-License-Identifier: BSD-3-Clause
//
// View: pointers and counts of a published table, in private memory. Created by the functions of
// blob.h after they have checked the bounds of the table against the segment; kept by a reader
// (reader.h).
#pragma once

#include "layout.h"

struct weir_services_view {
	uint64_t generation; // generation of the blob; 0 = nothing published
	const struct weir_bind *buckets; // NULL = nothing published
	const struct weir_bind_range *ranges;
	uint32_t bucket_mask;
	uint32_t range_count;
	uint64_t hash_seed;
	bool ended; // the table has binds whose TCP flows workers must end
};

struct weir_selection_view { // the subset of one worker
	uint64_t generation; // generation of the blob; 0 = nothing published
	struct weir_policy_table table; // count == 0: nothing published, or no eligible backend
};
