// SPDX-License-Identifier: BSD-3-Clause
#include "reader_lab.h"

#include <errno.h>
#include <stdlib.h>

static int setup(void **state) {
	return lab_create(state, 8u << 20, 0, NULL);
}

static const struct weir_selection_view *publish(
	struct lab *f, uint16_t service, struct weir_selection *selection) {
	assert_int_equal(
		weir_writer_publish(f->writer, fixture_selection_root(service), selection), 0);
	weir_reader_settle(&f->reader);
	return weir_reader_selection(&f->reader, service);
}

TEST(shares_follow_weights_and_ids_are_correct, setup, teardown) {
	const struct weir_selection_member members[] = {
		{.identity = 900, .id = 7, .weight = 300},
		{.identity = 100, .id = 9, .weight = 100},
		{.identity = 500, .id = 8, .weight = 0},
	};
	struct weir_selection *selection = NULL;
	const struct weir_selection_view *view;
	uint32_t counts[16] = {0};
	struct lab *f = *state;

	assert_int_equal(fixture_build(f->writer, 3, members, 3, 4093, &selection), 0);
	assert_int_equal(selection->service, 3);
	assert_int_equal(selection->settings.policy, WEIR_POLICY_MAGLEV);
	view = publish(f, 3, selection);
	assert_int_equal(f->reader.refusals.refused, 0);
	assert_int_equal(view->table.count, 2);
	assert_int_equal(view->table.candidates[0].id, 9); // sorted by identity
	assert_int_equal(view->table.candidates[0].weight, 100);
	assert_int_equal(view->table.candidates[1].id, 7);
	for (uint32_t slot = 0; slot < 4093; slot++) {
		// The middle of the range of hashes that select the slot.
		uint64_t hash = (((uint64_t)slot << 32) + (1ull << 31)) / 4093 << 32;

		assert_int_equal(weir_selection_slot(hash, 4093), slot);
		counts[weir_selection_choose(view, hash)]++;
	}
	assert_in_range(counts[9], 1022, 1025);
	assert_in_range(counts[7], 3068, 3071);
	assert_int_equal(counts[7] + counts[9], 4093);
}

TEST(slot_is_in_range_for_any_hash) {
	uint64_t seed = 1;

	for (unsigned int i = 0; i < 100000; i++) {
		uint32_t slots = 1 + (uint32_t)(fixture_random(&seed) % WEIR_TABLE_SLOTS_MAX);

		assert_true(weir_selection_slot(fixture_random(&seed), slots) < slots);
		assert_int_equal(weir_selection_slot(0, slots), 0);
		assert_int_equal(weir_selection_slot(UINT64_MAX, slots), slots - 1);
	}
}

// Instances can assign different ids to the same backend, but a flow must get the same backend on
// all instances.
TEST(order_and_ids_of_members_do_not_change_the_table, setup, teardown) {
	struct weir_selection_member a[50], b[50];
	struct weir_selection *first = NULL, *second = NULL;
	const uint16_t *x, *y;
	struct lab *f = *state;

	for (uint16_t i = 0; i < 50; i++) {
		a[i] = (struct weir_selection_member){
			.identity = 1000u + i, .id = i, .weight = 1u + i};
		b[49 - i] = a[i];
		b[49 - i].id = (uint16_t)(200 + i);
	}
	assert_int_equal(fixture_build(f->writer, 0, a, 50, 1009, &first), 0);
	assert_int_equal(fixture_build(f->writer, 0, b, 50, 1009, &second), 0);
	x = (const uint16_t *)((const uint8_t *)first + first->first.slots_off);
	y = (const uint16_t *)((const uint8_t *)second + second->first.slots_off);
	assert_memory_equal(x, y, 1009 * sizeof(*x));
}

TEST(selection_without_backends_chooses_none, setup, teardown) {
	const struct weir_selection_member idle = {.identity = 1, .id = 1, .weight = 0};
	const struct weir_selection_view empty = {0};
	struct weir_selection *selection = NULL;
	const struct weir_selection_view *view;
	struct lab *f = *state;

	assert_int_equal(fixture_build(f->writer, 1, NULL, 0, 251, &selection), 0);
	view = publish(f, 1, selection);
	assert_int_equal(view->table.count, 0);
	assert_int_equal(weir_selection_choose(view, 12345), WEIR_BACKEND_NONE);
	assert_int_equal(fixture_build(f->writer, 1, &idle, 1, 251, &selection), 0);
	view = publish(f, 1, selection);
	assert_int_equal(weir_selection_choose(view, 12345), WEIR_BACKEND_NONE);
	assert_int_equal(weir_selection_choose(&empty, 12345), WEIR_BACKEND_NONE);
	assert_int_equal(f->reader.refusals.refused, 0);
}

TEST(wrong_sizes_are_refused, setup, teardown) {
	struct weir_selection_member members[4] = {
		{1, 1, 1, 0}, {2, 2, 1, 0}, {3, 3, 1, 0}, {4, 4, 1, 0}};
	struct weir_selection *selection = NULL;
	struct lab *f = *state;
	struct weir_writer_usage before, after;

	weir_writer_usage(f->writer, &before);
	assert_int_equal(fixture_build(f->writer, 0, members, 4, 0, &selection), -EINVAL);
	assert_int_equal(fixture_build(f->writer, 0, members, 4, 1, &selection), -EINVAL);
	assert_int_equal(fixture_build(f->writer, 0, members, 4, 65536, &selection), -EINVAL);
	assert_int_equal(fixture_build(f->writer, 0, members, 4, 3, &selection), -EINVAL);
	assert_int_equal(fixture_build(f->writer, 0, members, 4, 16777259, &selection), -EINVAL);
	assert_int_equal(fixture_build(f->writer, 0, members, 4, 16777213, &selection), -ENOSPC);
	assert_null(selection);
	weir_writer_usage(f->writer, &after);
	assert_int_equal(before.used_bytes, after.used_bytes);
}

// A malicious control process may write an index beyond the backends.
TEST(index_beyond_the_backends_chooses_none, setup, teardown) {
	struct lab *f = *state;
	struct weir_selection *selection = fixture_selection(f->writer, 0, 4, 251);
	uint16_t *slots = (uint16_t *)((uint8_t *)selection + selection->first.slots_off);
	const struct weir_selection_view *view;

	slots[0] = 4;
	slots[1] = 65535;
	view = publish(f, 0, selection);
	assert_int_equal(weir_selection_choose(view, 0), WEIR_BACKEND_NONE);
	assert_int_equal(weir_selection_choose(view, (1ull << 63) / 251 * 3), WEIR_BACKEND_NONE);
}

// Policies other than Maglev have a small Maglev table for packets without a flow, and the data
// that the policy needs. For the same weights, the small table is equal on all instances.
TEST(other_policies_have_their_data, setup, teardown) {
	struct weir_selection_member members[50];
	uint16_t chosen[WEIR_POLICY_COUNT][200];
	struct lab *f = *state;

	for (uint16_t i = 0; i < 50; i++) {
		members[i] = (struct weir_selection_member){
			.identity = 1000u + i * 7919u % 50, .id = i, .weight = 1u + i % 5};
	}
	for (int policy = 0; policy < WEIR_POLICY_COUNT; policy++) {
		struct weir_selection_params params =
			weir_selection_defaults(1, (enum weir_policy)policy, 4093);
		bool slots = (params.settings.needs & WEIR_NEEDS_SLOTS) != 0;
		struct weir_selection *selection = NULL;
		const struct weir_policy_table *table;
		const struct weir_selection_view *view;

		assert_int_equal(
			weir_selection_build(f->writer, &params, members, 50, &selection), 0);
		view = publish(f, 1, selection);
		assert_int_equal(f->reader.refusals.refused, 0);
		table = &view->table;
		assert_int_equal(table->settings.policy, policy);
		assert_int_equal(table->count, 50);
		// 809 is the smallest prime above 16 * 50.
		assert_int_equal(table->slot_count, slots ? 4093 : 809);
		for (uint32_t i = 0; i < 50; i++) {
			uint32_t weight = table->candidates[i].weight;

			assert_int_equal(
				table->candidates[i].weight, 1 + table->candidates[i].id % 5u);
			assert_int_equal(table->candidates[i].stride,
				policy == WEIR_POLICY_WEIGHTED_ROUND_ROBIN ? 13107 * weight
				: policy == WEIR_POLICY_LEAST_LOADED       ? 60 / weight
									   : 0);
		}
		if (policy == WEIR_POLICY_INTERLEAVED_WEIGHTED_ROUND_ROBIN) {
			assert_int_equal(table->round_count, 5);
			for (uint32_t r = 0; r < 5; r++) {
				assert_int_equal(table->rounds[r].weight, r + 1);
				assert_int_equal(table->rounds[r].first, 10 * r);
			}
		} else {
			assert_int_equal(table->round_count, 0);
		}
		for (uint32_t i = 0; i < 200; i++) {
			chosen[policy][i] = weir_selection_choose(view, i * 0x9e3779b97f4a7c15ull);
			assert_true(chosen[policy][i] < 50);
		}
		if (!slots) {
			assert_memory_equal(chosen[policy], chosen[WEIR_POLICY_ROUND_ROBIN],
				sizeof(chosen[policy]));
		}
	}
}

// Candidates are sorted by all 32 bits of their weights, also if there are many candidates.
TEST(candidates_of_rounds_are_in_the_order_of_weights, setup, teardown) {
	struct weir_selection_params params =
		weir_selection_defaults(1, WEIR_POLICY_INTERLEAVED_WEIGHTED_ROUND_ROBIN, 4093);
	struct weir_selection_member members[200];
	struct weir_selection *selection = NULL;
	const struct weir_selection_view *view;
	struct lab *f = *state;
	uint64_t seed = 5;

	for (uint16_t i = 0; i < 200; i++) {
		members[i] = (struct weir_selection_member){.identity = fixture_random(&seed),
			.id = i,
			.weight = 1 + (uint32_t)(fixture_random(&seed) >> (32 + i % 32))};
	}
	assert_int_equal(weir_selection_build(f->writer, &params, members, 200, &selection), 0);
	view = publish(f, 1, selection);
	assert_int_equal(view->table.count, 200);
	for (uint32_t i = 1; i < 200; i++) {
		const struct weir_candidate *a = &view->table.candidates[i - 1], *b = a + 1;

		assert_true(a->weight <= b->weight);
		if (a->weight == b->weight) {
			assert_true(members[a->id].identity < members[b->id].identity);
		}
	}
}

// The table of a subset equals the table of a selection that has only the members of the subset.
TEST(subset_equals_a_selection_of_its_members, setup, teardown) {
	static const enum weir_policy policies[] = {WEIR_POLICY_MAGLEV,
		WEIR_POLICY_INTERLEAVED_WEIGHTED_ROUND_ROBIN, WEIR_POLICY_WEIGHTED_ROUND_ROBIN};
	struct lab *f = *state;

	for (size_t p = 0; p < sizeof(policies) / sizeof(policies[0]); p++) {
		struct weir_selection_params params = weir_selection_defaults(0, policies[p], 251);
		struct weir_selection_member members[30], alone[30];

		for (uint32_t i = 0; i < 30; i++) {
			members[i] = (struct weir_selection_member){.identity = 900 - i,
				.id = (uint16_t)i,
				.weight = i % 4,
				.subsets = 1ull << i % FIXTURE_WORKERS | (i % 5 == 0 ? 2 : 0)};
		}
		for (uint32_t worker = 0; worker < FIXTURE_WORKERS; worker++) {
			struct weir_selection *selection = NULL;
			struct weir_policy_table all, one;
			struct weir_reader reader;
			uint32_t n = 0;

			for (uint32_t i = 0; i < 30; i++) {
				if ((members[i].subsets >> worker & 1) != 0) {
					alone[n++] = members[i];
				}
			}
			assert_int_equal(
				weir_reader_init(&reader, f->segment, worker, NULL, NULL), 0);
			params.subsets = FIXTURE_WORKERS;
			params.service = 0;
			assert_int_equal(
				weir_selection_build(f->writer, &params, members, 30, &selection),
				0);
			weir_writer_publish(f->writer, fixture_selection_root(0), selection);
			params.subsets = 1;
			params.service = 1;
			assert_int_equal(
				weir_selection_build(f->writer, &params, alone, n, &selection), 0);
			weir_writer_publish(f->writer, fixture_selection_root(1), selection);
			weir_reader_settle(&reader);
			all = weir_reader_selection(&reader, 0)->table;
			one = weir_reader_selection(&reader, 1)->table;
			assert_int_equal(reader.refusals.refused, 0);
			assert_true(all.count > 0);
			assert_int_equal(all.count, one.count);
			assert_int_equal(all.slot_count, one.slot_count);
			assert_int_equal(all.round_count, one.round_count);
			assert_memory_equal(all.candidates, one.candidates,
				one.count * sizeof(one.candidates[0]));
			assert_memory_equal(
				all.slots, one.slots, one.slot_count * sizeof(one.slots[0]));
			if (one.round_count > 0) {
				assert_memory_equal(all.rounds, one.rounds,
					one.round_count * sizeof(one.rounds[0]));
			}
			weir_reader_fini(&reader);
		}
	}
}

// Checks which subsets were copied. The published tables contain a value that a new table would not
// have.
static void expect_copied(struct lab *f, struct weir_policy_table *published, uint16_t *slots[],
	const struct weir_selection_params *params, const struct weir_selection_member *members,
	uint32_t n, uint32_t rebuilt) {
	struct weir_selection_params anew = *params, with = *params;
	struct weir_selection *selection = NULL;

	with.service = 1;
	with.published = published;
	assert_int_equal(weir_selection_build(f->writer, &anew, members, n, &selection), 0);
	weir_writer_publish(f->writer, fixture_selection_root(0), selection);
	assert_int_equal(weir_selection_build(f->writer, &with, members, n, &selection), 0);
	weir_writer_publish(f->writer, fixture_selection_root(1), selection);
	for (uint32_t worker = 0; worker < FIXTURE_WORKERS; worker++) {
		struct weir_policy_table a, b;
		struct weir_reader reader;

		assert_int_equal(weir_reader_init(&reader, f->segment, worker, NULL, NULL), 0);
		weir_reader_settle(&reader);
		a = weir_reader_selection(&reader, 0)->table;
		b = weir_reader_selection(&reader, 1)->table;
		assert_int_equal(reader.refusals.refused, 0);
		assert_int_equal(a.count, b.count);
		assert_int_equal(a.slot_count, b.slot_count);
		assert_int_equal(a.round_count, b.round_count);
		assert_memory_equal(a.candidates, b.candidates, a.count * sizeof(a.candidates[0]));
		assert_memory_equal(b.slots, (rebuilt >> worker & 1) ? a.slots : slots[worker],
			a.slot_count * sizeof(a.slots[0]));
		if (a.round_count > 0) {
			assert_memory_equal(
				a.rounds, b.rounds, a.round_count * sizeof(a.rounds[0]));
		}
		weir_reader_fini(&reader);
	}
}

// The table of an unchanged subset is copied bit by bit. The table of a changed subset is built.
TEST(unchanged_subsets_are_copied, setup, teardown) {
	static const enum weir_policy policies[] = {WEIR_POLICY_MAGLEV, WEIR_POLICY_ROUND_ROBIN,
		WEIR_POLICY_INTERLEAVED_WEIGHTED_ROUND_ROBIN, WEIR_POLICY_WEIGHTED_ROUND_ROBIN};
	const uint32_t all = (1u << FIXTURE_WORKERS) - 1;
	struct lab *f = *state;

	for (size_t p = 0; p < sizeof(policies) / sizeof(policies[0]); p++) {
		struct weir_selection_params params = weir_selection_defaults(0, policies[p], 251);
		// Strides are recomputed for every table.
		uint32_t always = policies[p] == WEIR_POLICY_WEIGHTED_ROUND_ROBIN ? all : 0;
		struct weir_policy_table published[FIXTURE_WORKERS];
		struct weir_candidate *candidates[FIXTURE_WORKERS];
		struct weir_round *rounds[FIXTURE_WORKERS];
		uint16_t *slots[FIXTURE_WORKERS];
		struct weir_selection_member members[30];
		struct weir_selection *selection = NULL;

		params.subsets = FIXTURE_WORKERS;
		for (uint32_t i = 0; i < 30; i++) {
			members[i] = (struct weir_selection_member){.identity = 900 - i,
				.id = (uint16_t)i,
				.weight = 1 + i % 4,
				.subsets = 1ull << i % FIXTURE_WORKERS};
		}
		assert_int_equal(
			weir_selection_build(f->writer, &params, members, 30, &selection), 0);
		weir_writer_publish(f->writer, fixture_selection_root(0), selection);
		for (uint32_t worker = 0; worker < FIXTURE_WORKERS; worker++) {
			struct weir_policy_table *table = &published[worker];
			struct weir_reader reader;

			assert_int_equal(
				weir_reader_init(&reader, f->segment, worker, NULL, NULL), 0);
			weir_reader_settle(&reader);
			*table = weir_reader_selection(&reader, 0)->table;
			weir_reader_fini(&reader);
			candidates[worker] = calloc(table->count, sizeof(*candidates[0]));
			memcpy(candidates[worker], table->candidates,
				table->count * sizeof(*candidates[0]));
			rounds[worker] = calloc(table->round_count + 1, sizeof(*rounds[0]));
			memcpy(rounds[worker], table->rounds,
				table->round_count * sizeof(*rounds[0]));
			slots[worker] = calloc(table->slot_count, sizeof(*slots[0]));
			// A newly built table never has these values: all slots except the last
			// have the same backend.
			slots[worker][table->slot_count - 1] = 1;
			table->candidates = candidates[worker];
			table->rounds = rounds[worker];
			table->slots = slots[worker];
		}
		expect_copied(f, published, slots, &params, members, 30, always);
		members[1].weight++; // a member of worker 1's subset
		expect_copied(f, published, slots, &params, members, 30, always | 1u << 1);
		members[1].weight--;
		members[2].id = 99; // a member of worker 2's subset becomes another backend
		expect_copied(f, published, slots, &params, members, 30, always | 1u << 2);
		members[2].id = 2;
		members[0].subsets = 0; // no longer a member of any subset
		expect_copied(f, published, slots, &params, members, 30, always | 1u);
		members[0].subsets = 1;
		params.settings.max_active_flows++; // a setting of all subsets
		expect_copied(f, published, slots, &params, members, 30, all);
		params.settings.max_active_flows--;
		for (uint32_t worker = 0; worker < FIXTURE_WORKERS; worker++) {
			free(candidates[worker]);
			free(rounds[worker]);
			free(slots[worker]);
		}
	}
}

// A worker with an empty subset chooses no backend; the others are not affected.
TEST(one_subset_may_be_empty, setup, teardown) {
	struct weir_selection_params params = weir_selection_defaults(0, WEIR_POLICY_MAGLEV, 251);
	const struct weir_selection_member member = {1, 7, 1, 2};
	struct weir_selection *selection = NULL;
	struct lab *f = *state;
	struct weir_reader second;

	params.subsets = 2;
	assert_int_equal(weir_selection_build(f->writer, &params, &member, 1, &selection), 0);
	assert_int_equal(weir_selection_choose(publish(f, 0, selection), 12345), WEIR_BACKEND_NONE);
	assert_int_equal(weir_reader_init(&second, f->segment, 1, NULL, NULL), 0);
	weir_reader_settle(&second);
	assert_int_equal(weir_selection_choose(weir_reader_selection(&second, 0), 12345), 7);
	assert_int_equal(f->reader.refusals.refused + second.refusals.refused, 0);
	weir_reader_fini(&second);
}

TEST(wrong_settings_are_refused, setup, teardown) {
	struct weir_selection_member member = {1, 1, 1, 0};
	struct weir_selection *selection = NULL;
	struct lab *f = *state;

	for (unsigned int i = 0; i < 5; i++) {
		struct weir_selection_params params =
			weir_selection_defaults(0, WEIR_POLICY_FAIR_SHARE, 0);

		if (i == 0) {
			params.settings.policy = WEIR_POLICY_COUNT;
		} else if (i == 1) {
			params.settings.needs = 0;
		} else if (i == 2) {
			params.settings.error_window_ms = 0;
		} else if (i == 3) {
			params.settings.when_exhausted = 2;
		} else {
			params.subsets = WEIR_WORKERS_MAX + 1;
		}
		assert_int_equal(
			weir_selection_build(f->writer, &params, &member, 1, &selection), -EINVAL);
		assert_null(selection);
	}
}
