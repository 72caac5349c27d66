// SPDX-License-Identifier: BSD-3-Clause
//
// Flow tables that share memory: limits, sweeps and searches.
#include "flow_waiting.h"
#include "parts_lab.h"

// --- limits ---------------------------------------------------------------------------------

TEST_GROUP(eal_start);

// The capacity of a part moves with its flows, so that no flow is lost. New flows are refused.
TEST(flow_move_into_a_full_table_keeps_all_flows) {
	struct pair pair = pair_make(2048);
	struct weir_flow_table *full = pair.lab[1]->table;
	struct weir_flow_key key;
	uint32_t n = 0, kept, share = full->family4.capacity;
	uint32_t crowded = UINT32_MAX;

	for (; full->family4.count < full->family4.capacity; n++) {
		key = key_of(n, 4, 6);
		if (owner_of(&pair, &key) == pair.lab[1]) {
			assert_true(insert(pair.lab[1], &key, 1, DATA, START) >= 0);
		}
	}
	// more flows than one part's share of the capacity
	for (uint32_t found = 0; found < 6; n++) {
		key = key_of(n, 4, 6);
		if (owner_of(&pair, &key) == pair.lab[0] &&
			(crowded == UINT32_MAX || part_of(&pair, &key) == crowded)) {
			crowded = part_of(&pair, &key);
			assert_true(insert(pair.lab[0], &key, 2, DATA, START) >= 0);
			found++;
		}
	}
	move(&pair, crowded, START);
	assert_int_equal(full->family4.capacity, share + 2);
	assert_int_equal(full->family4.count, share + 6);
	assert_int_equal(pair.lab[1]->ended[WEIR_FLOW_END_EVICTED], 0);
	check_counts(&pair);
	kept = full->family4.count;
	for (uint32_t tries = 0; tries < 100; n++) {
		key = key_of(n, 4, 6);
		if (owner_of(&pair, &key) == pair.lab[1]) {
			// refused: all flows are in use, so no flow can be evicted
			assert_true(insert(pair.lab[1], &key, 3, SYN, START) < 0);
			tries++;
		}
	}
	assert_int_equal(full->family4.count, kept);
	pair_free(&pair);
}

TEST(flow_limits_move_with_the_part) {
	struct pair pair = pair_make(102400);
	const struct weir_flow_table *a = pair.lab[0]->table, *b = pair.lab[1]->table;

	assert_int_equal(a->family4.capacity, 51200);
	assert_int_equal(a->family4.half_open_max, 25600);
	assert_int_equal(a->family6.capacity, 12800);
	for (uint32_t part = 0; part < 20; part += 2) {
		move(&pair, part, START);
	}
	assert_int_equal(a->family4.capacity, 50200);
	assert_int_equal(a->family4.half_open_max, 25100);
	assert_int_equal(b->family4.capacity, 52200);
	assert_int_equal(b->family4.half_open_max, 26100);
	assert_int_equal(b->family6.half_open_max, 6525);
	for (uint32_t part = 20; part < WEIR_FLOW_PARTS; part += 2) {
		move(&pair, part, START);
	}
	assert_int_equal(a->family4.capacity, 0); // the table has no space left
	assert_int_equal(b->family4.capacity, 102400);
	assert_int_equal(weir_flow_owned_count(b), WEIR_FLOW_PARTS);
	sweep_for(pair.lab[0], START, SECOND);
	sweep_for(pair.lab[1], START, SECOND);
	move(&pair, 9, START);
	assert_int_equal(a->family4.capacity, 100);
	sweep_for(pair.lab[0], START + SECOND, SECOND);
	pair_free(&pair);
}

// A table that adopts more half-open flows than its limit keeps them. Each new half-open flow then
// evicts another half-open flow.
TEST(flow_move_keeps_half_open_flows) {
	struct pair pair = pair_make(20480);
	struct weir_flow_table *to = pair.lab[1]->table;
	uint32_t n = 0, before;

	for (; to->family4.half_open < to->family4.half_open_max; n++) {
		struct weir_flow_key key = key_of(n, 4, 6);

		insert(owner_of(&pair, &key), &key, 1, SYN, START);
	}
	before = to->family4.half_open;
	move(&pair, 0, START);
	assert_true(to->family4.half_open > before);
	assert_int_equal(pair.lab[1]->ended[WEIR_FLOW_END_EVICTED], 0);
	before = to->family4.half_open;
	for (uint32_t tries = 0; tries < 500; n++) {
		struct weir_flow_key key = key_of(n, 4, 6);

		if (owner_of(&pair, &key) == pair.lab[1]) {
			insert(pair.lab[1], &key, 1, SYN, START);
			tries++;
		}
	}
	assert_true(to->family4.half_open <= RTE_MAX(before, to->family4.half_open_max));
	assert_true(weir_flow_evicted_count(to) > 100);
	check_counts(&pair);
	pair_free(&pair);
}

// While the number of half-open flows is between the two thresholds, a table keeps its state,
// crowded or not crowded, whichever parts it adopts or releases.
TEST(flow_crowded_state_is_kept_when_parts_move) {
	struct pair pair = pair_make(20480);
	struct weir_flow_table *table = pair.lab[0]->table;
	uint32_t n = 0, between = table->family4.half_open_max * 13 / 16;

	for (; table->family4.half_open < between; n++) {
		struct weir_flow_key key = key_of(n, 4, 6);

		if (owner_of(&pair, &key) == pair.lab[0]) {
			insert(pair.lab[0], &key, 1, SYN, START);
		}
	}
	assert_false(weir_flow_crowded(table, 4));
	for (uint32_t part = 0; part < 8; part++) {
		move(&pair, part, START);
		assert_false(weir_flow_crowded(table, 4));
	}
	table->family4.half_open = table->family4.half_open_max; // simulate a flood
	assert_true(weir_flow_crowded(table, 4));
	table->family4.half_open = between;
	assert_true(weir_flow_crowded(table, 4));
	for (uint32_t part = 0; part < 8; part++) {
		move(&pair, part, START);
		assert_true(weir_flow_crowded(table, 4));
	}
	table->family4.half_open = 0;
	assert_false(weir_flow_crowded(table, 4));
	pair_free(&pair);
}

// --- time -----------------------------------------------------------------------------------

// With the maximum number of IPv6 flows, all 2^31 buckets are swept within a second, as in a small
// table.
TEST(flow_sweep_of_the_largest_table_is_in_time) {
	struct weir_flow_table_params params = {.flows = 4096,
		.ipv6_percent = 100,
		.half_open_percent = 50,
		.timeout_ms = {5000, 900000, 10000, 30000, 8000, 4000},
		.socket = SOCKET_ID_ANY,
		.hash_seed = SEED,
		.secret = 77};
	struct lab *f = calloc(1, sizeof(*f));
	struct weir_flow_listener listener = {
		on_established, on_finished, on_resumed, on_ended, NULL, f};
	struct weir_flow_key key = key_of(1, 6, 6);
	struct weir_flow_family *family;

	assert_non_null(f);
	assert_int_equal(weir_flow_table_create(&params, &listener, &f->table), 0);
	insert(f, &key, 1, DATA, START);
	family = &f->table->family6;
	for (uint64_t buckets = 1 << 20; buckets <= WEIR_FLOW_MEMORY_FLOWS_MAX; buckets *= 2) {
		uint64_t due = 0;

		family->part_buckets = buckets;
		f->table->owned.count = 0;
		weir_flow_own(f->table, 0);
		assert_int_equal(family->owned_buckets, buckets);
		weir_flow_sweep(f->table, START);
		family->sweep_debt = 0;
		// Count the due buckets without visiting them.
		for (uint32_t ms = 1; ms <= 850; ms++) {
			weir_flow_sweep(f->table, START + ms * MS);
			due += (family->sweep_debt >> 16) + 256;
			family->sweep_debt = 0;
			weir_flow_sweep_from(f->table, 0);
		}
		assert_in_range(due, buckets, buckets * 5 / 4);
		weir_flow_sweep(f->table, START + 5 * SECOND); // after a long iteration
		assert_in_range(family->sweep_debt >> 16, buckets / 2, buckets);
	}
	family->part_buckets = family->bucket_count;
	drop(f);
}

static uint64_t ended(const struct pair *pair) {
	uint64_t flows = 0;

	for (unsigned int i = 0; i < 2; i++) {
		flows += pair->lab[i]->ended[WEIR_FLOW_END_TIMED_OUT] +
			 pair->lab[i]->ended[WEIR_FLOW_END_EVICTED];
	}
	return flows;
}

TEST(flow_sweep_skips_parts_of_others) {
	struct pair pair = pair_make(PAIR_FLOWS);
	uint64_t later = START + 8 * SECOND;
	uint32_t inserted = 0, in_part;

	for (uint32_t n = 0; n < 10000; n++) {
		struct weir_flow_key key = key_of(n, n % 2 == 0 ? 4 : 6, 6);

		inserted += insert(owner_of(&pair, &key), &key, 1, SYN, START) >= 0;
	}
	release(&pair, pair.lab[0], 6);
	in_part = pair.parcel->flows;
	assert_true(in_part > 0);
	sweep_for(pair.lab[0], later, SECOND); // guarantee F6
	assert_int_equal(weir_flow_count(pair.lab[0]->table), 0);
	assert_int_equal(active_total(pair.lab[0]), in_part);
	// the table's own sweep has not visited the flow
	assert_true(weir_flow_count(pair.lab[1]->table) > 4000);
	sweep_for(pair.lab[1], later, SECOND);
	assert_int_equal(weir_flow_count(pair.lab[1]->table), 0);
	assert_int_equal(ended(&pair) + in_part, inserted);
	// The table that adopts a part ends the flows that expired during the move.
	adopt(&pair, pair.lab[1], later);
	settle(&pair, pair.lab[0]);
	assert_int_equal(weir_flow_count(pair.lab[1]->table), 0);
	assert_int_equal(ended(&pair), inserted);
	assert_int_equal(active_total(pair.lab[0]) + active_total(pair.lab[1]), 0);
	pair_free(&pair);
}

// The clock of the worker that adopts a part may be behind. The timestamps of the flows are then in
// the future, and must not be taken for a very long idle time.
TEST(flow_move_from_a_clock_that_is_ahead) {
	struct pair pair = pair_make(PAIR_FLOWS);

	for (uint32_t n = 0; n < 2000; n++) {
		assert_true(begin(&pair, n, START + 40 * MS));
	}
	for (uint32_t part = 0; part < WEIR_FLOW_PARTS; part++) {
		move(&pair, part, START);
	}
	sweep_for(pair.lab[0], START, SECOND);
	sweep_for(pair.lab[1], START, SECOND);
	for (uint32_t n = 0; n < 2000; n++) {
		assert_true(look(&pair, n, START + SECOND).found);
		assert_true(look(&pair, n, START + SECOND).idle_ms < 2000); // ticks of 0.5 s
	}
	pair_free(&pair);
}

// --- searches -------------------------------------------------------------------------------

static uint32_t waiting(const struct lab *f, uint64_t now) {
	const struct weir_flow_waiting_search search = {
		.backend = {1, 0xffff, 0xffff, 0xffff}, .idle_ms = 100};
	struct weir_flow_waiting found[WEIR_FLOW_WALK_LINE];
	uint32_t count = 0;

	for (uint32_t line = 0; line < weir_flow_walk_lines(f->table); line++) {
		count += weir_flow_waiting_in(f->table, line, &search, now, found);
	}
	return count;
}

// Both tables can access the whole memory, but each finds only its own flows.
TEST(flow_search_skips_parts_of_others) {
	struct pair pair = pair_make(PAIR_FLOWS);
	uint64_t later = START + 200 * MS;

	for (uint32_t n = 0; n < 2000; n++) {
		struct weir_flow_key key = key_of(n, n % 2 == 0 ? 4 : 6, 6);
		struct lab *f = owner_of(&pair, &key);
		struct lab *other = pair.lab[f == pair.lab[0]];

		assert_true(insert(f, &key, 1, SYN, START) >= 0);
		assert_true(weir_flow_lookup_owned(f->table, &key, hash_of(&key), START) >= 0);
		assert_true(weir_flow_lookup_owned(other->table, &key, hash_of(&key), START) < 0);
	}
	assert_int_equal(waiting(pair.lab[0], later), weir_flow_count(pair.lab[0]->table));
	assert_int_equal(waiting(pair.lab[1], later), weir_flow_count(pair.lab[1]->table));
	release(&pair, pair.lab[0], 8); // during the move no table owns the part
	assert_int_equal(waiting(pair.lab[0], later), weir_flow_count(pair.lab[0]->table));
	adopt(&pair, pair.lab[1], later);
	settle(&pair, pair.lab[0]);
	assert_int_equal(waiting(pair.lab[1], later), weir_flow_count(pair.lab[1]->table));
	pair_free(&pair);
}
