// SPDX-License-Identifier: BSD-3-Clause
#include "policy_client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "interleaved.h"
#include "replay.h"
#include "stride.h"

#define ALIGNMENT 64u

static void *alloc_aligned(size_t bytes) {
	size_t rounded = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
	void *memory = aligned_alloc(ALIGNMENT, rounded);

	if (memory == NULL) {
		fprintf(stderr, "out of memory\n");
		exit(EXIT_FAILURE);
	}
	memset(memory, 0, rounded);
	return memory;
}

struct policy_client *policy_client_create(enum weir_policy policy, uint32_t n) {
	struct policy_client *with = alloc_aligned(sizeof(*with));

	with->candidates = replay_alloc(n * sizeof(with->candidates[0]));
	with->rounds = replay_alloc(n * sizeof(with->rounds[0]));
	with->cost_ns = replay_alloc(n * sizeof(with->cost_ns[0]));
	with->worker.backends = alloc_aligned(n * sizeof(with->worker.backends[0]));
	with->worker.cost_ns = with->cost_ns;
	with->worker.backend_count = n;
	with->worker.ranks = 1;
	with->worker.random = 1;
	if (weir_policy_windows_alloc(&with->worker) < 0) {
		fprintf(stderr, "out of memory\n");
		exit(EXIT_FAILURE);
	}
	with->table.candidates = with->candidates;
	with->table.rounds = with->rounds;
	with->table.settings.policy = (uint8_t)policy;
	with->table.settings.needs = weir_policy_needs(policy);
	with->table.settings.error_window_ms = 1000;
	return with;
}

void policy_client_free(struct policy_client *with) {
	if (with == NULL) {
		return;
	}
	free(with->worker.windows.key);
	free(with->worker.backends);
	free(with->cost_ns);
	free(with->rounds);
	free(with->candidates);
	free(with);
}

void policy_client_add(struct policy_client *with, uint32_t id, uint32_t weight) {
	with->candidates[with->table.count++] =
		(struct weir_candidate){.id = (uint16_t)id, .weight = weight};
}

void policy_client_clear(struct policy_client *with) {
	with->table.count = 0;
}

void policy_client_adopt(struct policy_client *with, bool reported, uint64_t now_ns) {
	enum weir_policy policy = with->table.settings.policy;

	with->table.round_count = 0;
	if (policy == WEIR_POLICY_WEIGHTED_ROUND_ROBIN) {
		weir_stride_scale(with->candidates, with->table.count, reported);
	} else if (policy == WEIR_POLICY_INTERLEAVED_WEIGHTED_ROUND_ROBIN) {
		with->table.round_count =
			weir_interleaved_rounds(with->candidates, with->table.count, with->rounds);
	}
	weir_policy_adopt(&with->worker, &with->client, &with->table, now_ns);
}

void policy_client_restart(struct policy_client *with, uint64_t now_ns) {
	memset(&with->client, 0, sizeof(with->client));
	policy_client_adopt(with, false, now_ns);
}

long policy_client_choose(struct policy_client *with, uint64_t now_ns) {
	struct weir_chosen chosen =
		weir_policy_choose(&with->worker, &with->client, &with->table, 0, now_ns);

	return chosen.how == WEIR_CHOSEN || chosen.how == WEIR_CHOSEN_SPILLED ? chosen.id
									      : REPLAY_NONE;
}
