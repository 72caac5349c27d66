// SPDX-License-Identifier: BSD-3-Clause
//
// Maglev: the choice of a backend by slot, the limit of active flows, invalid slots, and loading a
// table without reading its candidates.
#include <sys/mman.h>

#include "policy_lab.h"

#define MAGLEV WEIR_POLICY_MAGLEV

// Returns a hash that selects the slot.
static uint64_t hash_of(const struct world *w, uint32_t slot) {
	uint64_t hash = (((uint64_t)slot << 32) / w->table.slot_count + 1) << 32;

	assert_int_equal(weir_policy_slot(hash, w->table.slot_count), slot);
	return hash;
}

TEST(slot_gives_the_backend) {
	struct world *w = world_create(20);

	world_publish(w, MAGLEV, (const uint16_t[]){7, 3, 19}, NULL, 3);
	assert_int_equal(w->table.slot_count, 21);
	for (uint32_t slot = 0; slot < 21; slot++) {
		for (uint32_t i = 0; i < 3; i++) {
			assert_int_equal(world_choose_hash(w, hash_of(w, slot)).id,
				w->candidates[w->slots[slot]].id);
		}
	}
	assert_int_equal(weir_policy_slot(UINT64_MAX, 65537), 65536);
	assert_int_equal(weir_policy_slot(0, 65537), 0);
	world_free(w);
}

TEST(workers_agree) {
	struct world *w[2];
	uint64_t seed = 3;

	for (uint32_t rank = 0; rank < 2; rank++) {
		w[rank] = world_create(20);
		w[rank]->worker.rank = rank;
		w[rank]->worker.ranks = 2;
		world_publish(w[rank], MAGLEV, NULL, NULL, 20);
	}
	for (uint32_t i = 0; i < 1000; i++) {
		uint64_t hash = fixture_random(&seed);

		assert_int_equal(
			world_choose_hash(w[0], hash).id, world_choose_hash(w[1], hash).id);
	}
	world_free(w[0]);
	world_free(w[1]);
}

TEST(full_backend_is_replaced_by_those_of_the_following_slots) {
	struct world *w = world_create(3);

	w->table.settings.max_active_flows = 1;
	world_publish(w, MAGLEV, NULL, NULL, 3);
	world_start(w, 0);
	assert_int_equal(world_choose_hash(w, hash_of(w, 0)).id, 1);
	world_start(w, 1);
	assert_int_equal(world_choose_hash(w, hash_of(w, 0)).id, 2);
	assert_int_equal(world_choose_hash(w, hash_of(w, 20)).id, 2);
	world_end(w, 0, WEIR_OUTCOME_COMPLETED);
	assert_int_equal(world_choose_hash(w, hash_of(w, 0)).id, 0);
	// The search wraps at the end of the table.
	world_start(w, 2);
	assert_int_equal(world_choose_hash(w, hash_of(w, 20)).id, 0);
	world_free(w);
}

// If only one backend is below the limit, it is found, even if no searched slot belongs to it.
TEST(last_one_below_the_limit_is_found) {
	struct world *w = world_create(100);

	w->table.settings.max_active_flows = 1;
	world_publish(w, MAGLEV, NULL, NULL, 100);
	for (uint32_t i = 0; i < w->table.slot_count; i++) {
		w->slots[i] = (uint16_t)(i * 99 / w->table.slot_count);
	}
	for (uint16_t i = 0; i < 99; i++) {
		world_start(w, i);
	}
	assert_int_equal(world_choose(w), 99);
	world_free(w);
}

// The policy has no cursor, so loading a table must not read its candidates.
TEST(adoption_reads_no_candidate) {
	struct world *w = world_create(4);
	struct weir_policy_table table;
	void *nowhere = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(nowhere, MAP_FAILED);
	world_publish(w, MAGLEV, NULL, NULL, 4);
	world_choose(w);
	table = w->table;
	table.candidates = nowhere;
	table.slots = nowhere;
	table.count = 500;
	weir_policy_adopt(&w->worker, w->client, &table, 0);
	assert_int_equal(w->client->count, 500);
	munmap(nowhere, 4096);
	world_free(w);
}

TEST(hostile_slots) {
	struct world *w = world_create(4);

	world_publish(w, MAGLEV, (const uint16_t[]){9, 1, 65535, 3}, NULL, 4);
	for (uint32_t slot = 0; slot < w->table.slot_count; slot++) {
		uint16_t id = world_choose_hash(w, hash_of(w, slot)).id;

		assert_true(id == 1 || id == 3);
	}
	memset(w->slots, 0xff, w->table.slot_count * sizeof(w->slots[0]));
	for (uint32_t slot = 0; slot < w->table.slot_count; slot++) {
		struct weir_chosen chosen = world_choose_hash(w, hash_of(w, slot));

		assert_int_equal(chosen.how, WEIR_CHOSEN);
		assert_true(chosen.id == 1 || chosen.id == 3);
	}
	w->table.slots = NULL;
	assert_true((world_choose(w) & 1) != 0);
	world_free(w);
}
