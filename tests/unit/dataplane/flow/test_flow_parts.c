// SPDX-License-Identifier: BSD-3-Clause
//
// The location of flows in shared memory, and the properties that a move preserves.
#include "parts_lab.h"

// --- location of flows ----------------------------------------------------------------------

TEST_GROUP(eal_start);

TEST(flow_buckets_are_in_its_part) {
	for (uint64_t flows = 1024; flows <= 1000000; flows *= 31) {
		struct pair pair = pair_make(flows);

		for (uint32_t n = 0; n < 1000000; n++) {
			uint64_t random[4] = {weir_hash_mix(n + 1, 0x9e3779b97f4a7c15ull),
				weir_hash_mix(n + 1, 0xd1342543de82ef95ull),
				weir_hash_mix(n + 1, 0x8ebc6af09c88c6e3ull), n * 31ull};
			struct weir_flow_key key = {.family = n % 2 == 0 ? 4 : 6, .protocol = 6};
			const struct weir_flow_family *family =
				n % 2 == 0 ? &pair.lab[0]->table->family4
					   : &pair.lab[0]->table->family6;
			struct buckets at;
			uint32_t part;

			memcpy(key.source, random, n % 2 == 0 ? 4 : 16);
			memcpy(key.destination, random + 2, n % 2 == 0 ? 4 : 16);
			key.source_port = (uint16_t)(random[1] >> 40);
			part = part_of(&pair, &key);
			at = buckets_of(pair.lab[0], &key);
			assert_true(part < WEIR_FLOW_PARTS);
			assert_int_equal(at.bucket[0] / family->part_buckets, part);
			assert_int_equal(at.bucket[1] / family->part_buckets, part);
			assert_int_equal((at.bucket[0] ^ 1) / family->part_buckets, part);
		}
		assert_true(pair.lab[0]->table->family6.part_buckets % 8 == 0);
		pair_free(&pair);
	}
}

// The configured number of flows fits, although some parts get more flows than others.
TEST(flow_parts_hold_the_configured_flows) {
	for (uint64_t flows = 2048; flows <= 200000; flows *= 9) {
		struct pair pair = pair_make(flows);
		uint32_t capacity[2] = {
			pair.lab[0]->table->family4.capacity, pair.lab[1]->table->family4.capacity};

		assert_int_equal(capacity[0] + capacity[1], flows);
		for (uint32_t n = 0; capacity[0] + capacity[1] > 0; n++) {
			struct weir_flow_key key = key_of(n, 4, 6);
			struct lab *f = owner_of(&pair, &key);

			if (capacity[f == pair.lab[1]] == 0) {
				continue;
			}
			capacity[f == pair.lab[1]]--;
			assert_true(insert(f, &key, 1, DATA, START) >= 0);
		}
		assert_int_equal(
			weir_flow_count(pair.lab[0]->table) + weir_flow_count(pair.lab[1]->table),
			flows);
		check_counts(&pair);
		pair_free(&pair);
	}
}

// Returns the hash of a key, changed so that n determines the part. Some parts get many more flows
// than others.
static uint64_t hash_in_part(
	const struct weir_flow_table *table, const struct weir_flow_key *key, uint32_t n) {
	uint32_t part = n % 3 == 0 ? n % 7 : n / 3 % WEIR_FLOW_PARTS;

	return weir_flow_hash_in_part(&table->secret, key, hash_of(key), part);
}

// The caller determines the part of each key. Flows are found in this part, even after entries were
// displaced from one of their two buckets to the other.
TEST(flow_parts_may_be_given) {
	const uint32_t flows = 9000;
	struct pair pair = pair_make(40000);
	struct weir_flow_table_params params = params_with(pair.memory);
	struct lab *f = pair.lab[0];
	struct weir_flow_listener listener = {
		on_established, on_finished, on_resumed, on_ended, NULL, f};
	uint32_t inserted = 0;

	weir_flow_table_free(f->table);
	params.given_parts = true;
	assert_int_equal(weir_flow_table_create(&params, &listener, &f->table), 0);
	for (uint32_t part = 0; part < WEIR_FLOW_PARTS; part++) {
		weir_flow_own(f->table, part);
	}
	for (uint32_t n = 0; n < 2 * flows; n++) {
		struct weir_flow_key key = key_of(n, n % 5 == 0 ? 6 : 4, 6);
		const struct weir_flow_family *family =
			key.family == 4 ? &f->table->family4 : &f->table->family6;
		struct weir_flow_start start = {
			.now_ns = START, .event = WEIR_FLOW_EVENT_DATA, .backend = 1};
		uint64_t hash = hash_in_part(f->table, &key, n % flows);
		uint64_t bucket_hash = weir_flow_bucket_hash(&f->table->secret, &key, hash);
		uint32_t part = weir_flow_part(&f->table->secret, bucket_hash);
		weir_flow_ref ref = weir_flow_lookup(f->table, &key, hash, START);

		assert_int_equal(
			part, n % flows % 3 == 0 ? n % flows % 7 : n % flows / 3 % WEIR_FLOW_PARTS);
		assert_int_equal(weir_flow_first_bucket(
					 &f->table->secret, family->bucket_count, bucket_hash) /
					 family->part_buckets,
			part);
		assert_int_equal(weir_flow_second_bucket(&f->table->secret, family, bucket_hash) /
					 family->part_buckets,
			part);
		assert_int_equal(hash << WEIR_FLOW_PART_BITS,
			hash_of(&key) << WEIR_FLOW_PART_BITS); // other bits are unchanged
		assert_true(ref < 0);
		ref = weir_flow_insert(f->table, &key, hash, &start);
		inserted += ref >= 0;
		f->active[1] += ref >= 0;
		f->open[1] += ref >= 0;
	}
	assert_true(inserted < 2 * flows); // some parts were full
	for (uint32_t n = 0; n < 2 * flows; n++) {
		struct weir_flow_key key = key_of(n, n % 5 == 0 ? 6 : 4, 6);

		inserted -= weir_flow_lookup(f->table, &key,
				    hash_in_part(f->table, &key, n % flows), START) >= 0;
	}
	assert_int_equal(inserted, 0);
	pair_free(&pair);
}

// --- moves ----------------------------------------------------------------------------------

TEST(flow_move_keeps_every_flow) {
	struct pair pair = pair_make(2 * PAIR_FLOWS);
	struct seen *before = calloc(PAIR_FLOWS, sizeof(*before));
	uint64_t now = START;
	uint32_t found = 0;

	assert_non_null(before);
	for (uint32_t n = 0; n < PAIR_FLOWS; n++) {
		now = START + n * (SECOND / PAIR_FLOWS); // the flows get different idle times
		begin(&pair, n, now);
	}
	now += SECOND;
	check_counts(&pair);
	for (uint32_t n = 0; n < PAIR_FLOWS; n++) {
		before[n] = look(&pair, n, now);
		found += before[n].found;
	}
	assert_true(found > PAIR_FLOWS - PAIR_FLOWS / 100);
	for (uint32_t i = 0; i < 3 * WEIR_FLOW_PARTS; i++) {
		move(&pair, i * 37 % WEIR_FLOW_PARTS, now);
	}
	check_counts(&pair);
	assert_int_equal(
		weir_flow_count(pair.lab[0]->table) + weir_flow_count(pair.lab[1]->table), found);
	assert_int_equal(weir_flow_owned_count(pair.lab[0]->table), WEIR_FLOW_PARTS / 2);
	for (uint32_t n = 0; n < PAIR_FLOWS; n++) {
		struct seen after = look(&pair, n, now);

		assert_memory_equal(&after, &before[n], sizeof(after));
	}
	free(before);
	pair_free(&pair);
}

TEST(flow_move_keeps_the_service_time) {
	struct pair pair = pair_make(PAIR_FLOWS);
	uint64_t now = START + 3 * SECOND;

	for (uint32_t n = 0; n < 1000; n++) {
		struct weir_flow_key key = key_of(n, n % 2 == 0 ? 4 : 6, 6);
		struct lab *f = owner_of(&pair, &key);
		struct weir_flow_start start = {
			.now_ns = START, .event = SYN, .backend = 1, .measured = true};
		weir_flow_ref flow;

		flow = weir_flow_insert(f->table, &key, hash_of(&key), &start);
		assert_true(flow >= 0);
		began(f, 1, SYN);
		move(&pair, part_of(&pair, &key), START + SECOND);
		assert_true(owner_of(&pair, &key) != f);
		f = owner_of(&pair, &key);
		flow = find(f, &key, now);
		assert_true(flow >= 0);
		weir_flow_advance(f->table, flow, FIN, now);
		assert_in_range(f->service_ns, 3 * SECOND - MS, 3 * SECOND + MS);
	}
	pair_free(&pair);
}

// A table that has no measured flows receives measured flows. The flows keep their start times.
TEST(flow_move_measures_in_a_table_without_measured_flows) {
	struct pair pair = pair_make(PAIR_FLOWS);

	assert_false(pair.lab[1]->table->measuring);
	for (uint32_t n = 0; n < 100; n++) {
		struct weir_flow_key key = key_of(n, 4, 6);
		struct weir_flow_start start = {
			.now_ns = START, .event = SYN, .backend = 1, .measured = true};

		if (owner_of(&pair, &key) == pair.lab[0]) {
			assert_true(weir_flow_insert(
					    pair.lab[0]->table, &key, hash_of(&key), &start) >= 0);
			began(pair.lab[0], 1, SYN);
			move(&pair, part_of(&pair, &key), START);
			assert_true(pair.lab[1]->table->measuring);
		}
	}
	pair_free(&pair);
}

TEST(flow_move_reports_what_it_moves) {
	struct pair pair = pair_make(2 * PAIR_FLOWS);
	int64_t active[BACKENDS], open[BACKENDS], half_open[BACKENDS];

	for (uint32_t n = 0; n < PAIR_FLOWS; n++) {
		begin(&pair, n, START);
	}
	memcpy(active, pair.lab[0]->active, sizeof(active));
	memcpy(open, pair.lab[0]->open, sizeof(open));
	memcpy(half_open, pair.lab[0]->half_open, sizeof(half_open));
	for (uint32_t part = 0; part < WEIR_FLOW_PARTS; part += 2) {
		release(&pair, pair.lab[0], part);
		for (uint32_t i = 0; i < pair.parcel->backend_count; i++) {
			uint16_t backend = pair.parcel->backend[i];

			active[backend] -= pair.parcel->tally[backend].active;
			open[backend] -= pair.parcel->tally[backend].open;
			half_open[backend] -= pair.parcel->tally[backend].half_open;
		}
		adopt(&pair, pair.lab[1], START);
		settle(&pair, pair.lab[0]);
	}
	// each flow was reported in exactly one parcel
	for (unsigned int i = 0; i < BACKENDS; i++) {
		assert_int_equal(active[i], 0);
		assert_int_equal(open[i], 0);
		assert_int_equal(half_open[i], 0);
		assert_int_equal(pair.lab[0]->active[i], 0);
	}
	assert_int_equal(weir_flow_count(pair.lab[0]->table), 0);
	assert_int_equal(weir_flow_half_open_count(pair.lab[0]->table), 0);
	check_counts(&pair);
	pair_free(&pair);
}

TEST(flow_move_is_bounded_per_call) {
	struct pair pair = pair_make(400000);
	const struct weir_flow_table *table = pair.lab[0]->table;
	uint64_t buckets = table->family4.part_buckets + table->family6.part_buckets;
	uint64_t slices = (buckets + WEIR_FLOW_SLICE - 1) / WEIR_FLOW_SLICE, calls = 1, next = 0;

	assert_true(slices > 2);
	for (; !weir_flow_release(pair.lab[0]->table, 4, pair.parcel); calls++) {
		assert_int_equal(pair.parcel->next, next + WEIR_FLOW_SLICE);
		next = pair.parcel->next;
		assert_false(weir_flow_owns(pair.lab[0]->table, 4));
	}
	assert_int_equal(calls, slices);
	next = 0;
	for (calls = 1; !weir_flow_adopt(pair.lab[1]->table, pair.parcel, START); calls++) {
		assert_int_equal(pair.parcel->next, next + WEIR_FLOW_SLICE);
		next = pair.parcel->next;
		assert_false(weir_flow_owns(pair.lab[1]->table, 4));
	}
	assert_int_equal(calls, slices);
	assert_true(weir_flow_owns(pair.lab[1]->table, 4));
	pair_free(&pair);
}

// The two tables use different destination numbers for the same address.
TEST(flow_move_renumbers_ipv6_destinations) {
	struct pair pair = pair_make(PAIR_FLOWS);
	uint32_t differing = 0, inserted = 0;

	for (uint32_t n = 0; n < 2000; n++) {
		struct weir_flow_key key = key_of(n, 6, 6);

		key.destination[14] = (uint8_t)(n % 200);
		inserted += insert(owner_of(&pair, &key), &key, 1, DATA, START) >= 0;
	}
	assert_int_equal(inserted, 2000);
	for (uint32_t part = 0; part < WEIR_FLOW_PARTS; part += 2) {
		move(&pair, part, START);
	}
	for (uint32_t n = 0; n < 2000; n++) {
		struct weir_flow_key key = key_of(n, 6, 6);
		const struct weir_flow_table *table = pair.lab[1]->table;
		weir_flow_ref flow;
		uint16_t number;

		key.destination[14] = (uint8_t)(n % 200);
		flow = find(pair.lab[1], &key, START);
		assert_true(flow >= 0);
		number = weir_flow_bucket6_at(table, (uint32_t)((uint64_t)flow >> 2))
				 ->destination[flow & 3];
		assert_memory_equal(table->destinations.address[number], key.destination, 16);
		differing += number != n % 200;
	}
	assert_true(differing > 1000);
	// No entry of the moved flows remains in the old table or in the parcel.
	for (uint32_t i = 0; i < 600; i++) {
		assert_int_equal(pair.lab[0]->table->destinations.flows[i], 0);
	}
	for (uint32_t i = 0; i < pair.memory->ipv6.part_buckets * 2; i++) {
		assert_int_equal(pair.parcel->destinations.flows[i], 0);
	}
	sweep_for(pair.lab[1], START + 901 * SECOND, 2 * SECOND);
	assert_int_equal(weir_flow_count(pair.lab[1]->table), 0);
	for (uint32_t i = 0; i < 600; i++) {
		assert_int_equal(pair.lab[1]->table->destinations.flows[i], 0);
	}
	pair_free(&pair);
}

TEST(flow_move_evicts_flows_without_a_destination) {
	struct pair pair = pair_make(PAIR_FLOWS);
	struct weir_flow_key established, half_open;
	uint32_t n = 0;

	do {
		established = key_of(n++, 6, 6);
	} while (owner_of(&pair, &established) != pair.lab[0]);
	half_open = established; // another flow in the same part, with another source port
	do {
		half_open.source_port = (uint16_t)n++;
	} while (part_of(&pair, &half_open) != part_of(&pair, &established));
	assert_true(insert(pair.lab[0], &established, 1, DATA, START) >= 0);
	assert_true(insert(pair.lab[0], &half_open, 2, SYN, START) >= 0);
	pair.lab[1]->table->destinations.free = UINT16_MAX; // all destination numbers are in use
	move(&pair, part_of(&pair, &established), START);
	assert_int_equal(weir_flow_count(pair.lab[1]->table), 0);
	assert_int_equal(weir_flow_evicted_count(pair.lab[1]->table), 1);
	assert_int_equal(weir_flow_idle_evicted_count(pair.lab[1]->table), 1);
	assert_int_equal(pair.lab[1]->ended[WEIR_FLOW_END_EVICTED], 2);
	assert_int_equal(active_total(pair.lab[0]) + active_total(pair.lab[1]), 0);
	check_counts(&pair);
	pair_free(&pair);
}

// --- creation -------------------------------------------------------------------------------

TEST(flow_memory_refuses_bad_parameters) {
	struct weir_flow_memory *memory = NULL;

	assert_int_equal(weir_flow_memory_create(0, 25, true, SOCKET_ID_ANY, &memory), -EINVAL);
	assert_int_equal(weir_flow_memory_create(
				 WEIR_FLOW_MEMORY_FLOWS_MAX + 1, 25, true, SOCKET_ID_ANY, &memory),
		-EINVAL);
	assert_int_equal(weir_flow_memory_create(1024, 0, true, SOCKET_ID_ANY, &memory), -EINVAL);
	assert_int_equal(weir_flow_memory_create(1024, 101, true, SOCKET_ID_ANY, &memory), -EINVAL);
	assert_int_equal(weir_flow_memory_create(
				 WEIR_FLOW_MEMORY_FLOWS_MAX, 25, true, SOCKET_ID_ANY, &memory),
		-ENOMEM);
	assert_null(memory);
	weir_flow_memory_free(NULL);
	weir_flow_parcel_free(NULL);
}

// Memory for many flows that is divided into parts is only slightly larger than undivided memory.
TEST(flow_memory_in_parts_has_the_announced_size) {
	uint64_t own = weir_flow_memory_bytes(4u << 20, 25, false);
	uint64_t shared = weir_flow_memory_bytes(4u << 20, 25, true);

	print_message("in parts: %.2f %% more\n", 100.0 * ((double)shared / (double)own - 1));
	assert_true(shared >= own && shared - own < own / 50);
}
