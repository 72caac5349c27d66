// SPDX-License-Identifier: BSD-3-Clause
#include "selection.h"

#include <errno.h>
#include <stdlib.h>

#include "maglev.h"

static int compare_members(const void *left, const void *right) {
	const struct weir_selection_member *a = left;
	const struct weir_selection_member *b = right;

	if (a->identity != b->identity) {
		return a->identity < b->identity ? -1 : 1;
	}
	return (a->id > b->id) - (a->id < b->id);
}

// The members that take anything, sorted. Returns how many.
static uint32_t pick_members(const struct weir_selection_member *members, uint32_t n,
	struct weir_selection_member *picked) {
	uint32_t count = 0;

	for (uint32_t i = 0; i < n; i++) {
		if (members[i].weight > 0) {
			picked[count++] = members[i];
		}
	}
	if (count > 0) {
		qsort(picked, count, sizeof(picked[0]), compare_members);
	}
	return count;
}

static void fill(struct weir_selection *selection, const struct weir_selection_member *members,
	struct weir_maglev_backend *backends, void *scratch) {
	uint8_t *base = (uint8_t *)selection;
	struct weir_selection_backend *out =
		(struct weir_selection_backend *)(void *)(base + selection->backends_off);
	uint16_t *slots = (uint16_t *)(void *)(base + selection->slots_off);

	for (uint32_t i = 0; i < selection->backends; i++) {
		out[i].id = members[i].id;
		out[i].weight = members[i].weight;
		backends[i].weight = members[i].weight;
		weir_maglev_permutation(members[i].identity, selection->slots, &backends[i].offset,
			&backends[i].skip);
	}
	weir_maglev_build(backends, selection->backends, slots, selection->slots, scratch);
}

static struct weir_selection *alloc_selection(
	struct weir_writer *writer, uint16_t service, uint32_t backends, uint32_t slots) {
	uint64_t backends_bytes = (uint64_t)backends * sizeof(struct weir_selection_backend);
	struct weir_selection *selection = weir_writer_alloc(writer, WEIR_BLOB_SELECTION,
		sizeof(*selection) + backends_bytes + (uint64_t)slots * sizeof(uint16_t));

	if (selection != NULL) {
		selection->service = service;
		selection->policy = WEIR_POLICY_MAGLEV;
		selection->backends = backends;
		selection->slots = slots;
		selection->backends_off = sizeof(*selection);
		selection->slots_off = sizeof(*selection) + backends_bytes;
	}
	return selection;
}

int weir_selection_build(struct weir_writer *writer, uint16_t service,
	const struct weir_selection_member *members, uint32_t n, uint32_t slots,
	struct weir_selection **ret) {
	struct weir_selection_member *picked;
	struct weir_maglev_backend *backends;
	struct weir_selection *selection;
	int error = -ENOMEM;
	uint32_t count;
	void *scratch;

	if (slots > WEIR_TABLE_SLOTS_MAX || !weir_is_prime(slots) || n > slots ||
		n >= WEIR_BACKENDS_MAX) {
		return -EINVAL;
	}
	picked = calloc((size_t)n + 1, sizeof(*picked));
	backends = calloc((size_t)n + 1, sizeof(*backends));
	scratch = malloc(weir_maglev_scratch_bytes(n + 1));
	if (picked == NULL || backends == NULL || scratch == NULL) {
		goto free_memory;
	}
	count = pick_members(members, n, picked);
	selection = alloc_selection(writer, service, count, count > 0 ? slots : 0);
	if (selection == NULL) {
		error = -ENOSPC;
		goto free_memory;
	}
	if (count > 0) {
		fill(selection, picked, backends, scratch);
	}
	*ret = selection;
	error = 0;

free_memory:
	free(scratch);
	free(backends);
	free(picked);
	return error;
}
