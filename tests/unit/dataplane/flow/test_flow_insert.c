// SPDX-License-Identifier: BSD-3-Clause
//
// Flow insertion: a table that fills up, floods, and keys that are reused (F2, F3, F4).
#include "flow_lab.h"

// F2: the table accepts almost as many flows as configured, and then refuses further flows.
static void check_full_table(uint8_t family) {
	const uint32_t flows = 100000;
	struct lab *f = make(family == 4 ? flows : 4 * flows, 100);
	uint32_t refused_early = 0;

	for (uint32_t i = 0; i < flows; i++) {
		struct weir_flow_key key = key_of(i, family, 6);

		refused_early += insert(f, &key, i % BACKENDS, WEIR_FLOW_EVENT_DATA, START) < 0;
	}
	print_message("IPv%u: refused before full: %u of %u\n", family, refused_early, flows);
	assert_true(refused_early <= flows / 10000);
	for (uint32_t i = 0; i < flows; i++) {
		struct weir_flow_key key = key_of(i, family, 6);
		weir_flow_ref flow = find(f, &key, START);

		if (flow >= 0) {
			assert_int_equal(weir_flow_backend(f->table, flow), i % BACKENDS);
		}
	}
	for (uint32_t i = flows; i < flows + 2 * refused_early + 1000; i++) {
		struct weir_flow_key key = key_of(i, family, 6);
		weir_flow_ref flow = insert(f, &key, 0, WEIR_FLOW_EVENT_DATA, START);

		assert_true(flow >= 0 || flow == -ENOSPC);
	}
	struct weir_flow_key last = key_of(2 * flows, family, 6);

	assert_true(weir_flow_count(f->table) <= flows);
	assert_int_equal(insert(f, &last, 0, WEIR_FLOW_EVENT_DATA, START), -ENOSPC);
	assert_int_equal(active_total(f), weir_flow_count(f->table));
	assert_int_equal(f->ended[WEIR_FLOW_END_EVICTED], 0);
	drop(f);
}

TEST_GROUP(eal_start);

TEST(flow_f2_insert_full_table_returns_enospc) {
	check_full_table(4);
	check_full_table(6);
}

// F3, F4: a flood of SYNs, ten times as many as fit in the table, evicts no established flow.
TEST(flow_f3_f4_syn_flood_evicts_only_half_open) {
	const uint32_t flows = 20000, established = 15000;
	struct lab *f = make(flows, 25);
	uint64_t now = START;

	for (uint32_t i = 0; i < established; i++) {
		struct weir_flow_key key = key_of(i, 4, i % 3 ? 6 : 17);

		weir_flow_ref flow = insert(f, &key, i % BACKENDS, i % 3 ? DATA : DGRAM, now);

		assert_true(flow >= 0);
		weir_flow_advance(f->table, flow, i % 3 ? DATA : DGRAM, now);
	}
	for (uint32_t i = 0; i < 10 * flows; i++) {
		struct weir_flow_key key = key_of(1000000 + i, 4, 6);

		insert(f, &key, 1, WEIR_FLOW_EVENT_SYN, now += 1000);
		assert_true(weir_flow_half_open_count(f->table) <= flows / 4);
	}
	assert_true(weir_flow_half_open_count(f->table) > flows / 8);
	assert_true(weir_flow_evicted_count(f->table) > flows);
	for (uint32_t i = 0; i < established; i++) {
		struct weir_flow_key key = key_of(i, 4, i % 3 ? 6 : 17);

		assert_true(find(f, &key, now) >= 0);
	}
	assert_int_equal(active_total(f), weir_flow_count(f->table));
	assert_int_equal(f->ended[WEIR_FLOW_END_EVICTED], weir_flow_evicted_count(f->table));
	drop(f);
}

#define FLOOD_STEP_NS 1333 // interval at 750,000 packets per second
#define HANDSHAKES 50

// Insert SYNs of flows [first, first + count), as the pipeline does. Advances *now by the time that
// this takes.
static void flood(struct lab *f, uint8_t family, uint32_t first, uint32_t count, uint64_t *now) {
	for (uint32_t i = 0; i < count; i++) {
		struct weir_flow_key key = key_of(first + i, family, 6);

		weir_flow_stamp(f->table, *now);
		weir_flow_crowded(f->table, family);
		insert(f, &key, 1, WEIR_FLOW_EVENT_SYN, *now);
		*now += FLOOD_STEP_NS;
	}
}

static uint32_t count_found(struct lab *f, uint8_t family, uint32_t flows, uint64_t now) {
	uint32_t found = 0;

	for (uint32_t i = 0; i < flows; i++) {
		struct weir_flow_key key = key_of(i, family, 6);

		found += find(f, &key, now) >= 0;
	}
	return found;
}

// F3: if a flood starts between a SYN and its ACK, the flow is not evicted within one second. After
// that it may be evicted. Tested in a small table and in a table of default size.
TEST(flow_f3_handshakes_survive_the_start_of_a_flood) {
	static const uint32_t sizes[] = {1024, 1u << 20};
	static const uint8_t families[] = {4, 6};

	for (unsigned int i = 0; i < 4; i++) {
		uint8_t family = families[i / 2];
		struct lab *f = make(sizes[i % 2], 25);
		uint64_t now = START;

		flood(f, family, 0, HANDSHAKES, &now);
		flood(f, family, 1000000, 950 * MS / FLOOD_STEP_NS, &now);
		assert_int_equal(count_found(f, family, HANDSHAKES, now), HANDSHAKES);
		flood(f, family, 3000000, 600 * MS / FLOOD_STEP_NS, &now);
		assert_in_range(count_found(f, family, HANDSHAKES, now), 0, HANDSHAKES / 5);
		assert_int_equal(active_total(f), weir_flow_count(f->table));
		drop(f);
	}
}

// A table that stays crowded until its timestamps have wrapped around no longer protects
// handshakes.
TEST(flow_f3_long_flood_protects_no_handshake) {
	struct lab *f = make(1024, 25);
	uint64_t now = START;

	flood(f, 4, 0, 1000, &now);
	for (unsigned int second = 0; second < 40; second++) {
		uint64_t evicted = weir_flow_evicted_count(f->table);

		now += SECOND;
		weir_flow_stamp(f->table, now);
		assert_true(weir_flow_crowded(f->table, 4) || second > 3);
		flood(f, 4, 10000 + second * 1000, 1000, &now);
		assert_true(weir_flow_evicted_count(f->table) > evicted + 300);
	}
	drop(f);
}

static uint32_t bucket_of(weir_flow_ref flow) {
	return (uint32_t)((uint64_t)flow >> 2);
}

static bool has_free_slot6(const struct lab *f, uint32_t bucket) {
	const uint32_t *words = weir_flow_bucket6_at(f->table, bucket)->word;

	return words[0] == 0 || words[1] == 0;
}

// Returns the half-open flow in two buckets that has been idle longest, or -1. Flows are numbered
// in the order of their arrival.
static int64_t oldest_in(
	struct lab *f, uint8_t family, const uint32_t buckets[2], uint32_t came, uint64_t now) {
	for (uint32_t i = 0; i < came; i++) {
		struct weir_flow_key other = key_of(i, family, 6);
		weir_flow_ref flow = find(f, &other, now);

		if (flow >= 0 && weir_flow_state(f->table, flow) == WEIR_FLOW_SYN_SEEN &&
			(bucket_of(flow) == buckets[0] || bucket_of(flow) == buckets[1])) {
			return i;
		}
	}
	return -1;
}

// Returns the half-open flow that a full table must evict for a new flow, or -1. The flow to evict
// is in one of the new flow's two buckets. For IPv6, if these two buckets have a free slot, but no
// half-open flow, the flow to evict is in an adjacent bucket.
static int64_t victim_of(
	struct lab *f, const struct weir_flow_key *key, uint32_t came, uint64_t now) {
	bool ipv6 = key->family == 6;
	const struct buckets buckets = buckets_of(f, key);
	const uint32_t *own = buckets.bucket;
	// the last bucket may have no adjacent bucket
	uint32_t adjacent[2] = {own[0] ^ 1, own[1] ^ 1};
	int64_t victim = oldest_in(f, key->family, own, came, now);

	if (victim < 0 && ipv6 && (has_free_slot6(f, own[0]) || has_free_slot6(f, own[1]))) {
		victim = oldest_in(f, key->family, adjacent, came, now);
	}
	return victim;
}

TEST(flow_f3_the_oldest_of_both_buckets_is_evicted) {
	unsigned int evictions = 0;

	for (uint8_t family = 4; family <= 6; family += 2) {
		struct lab *f = make(family == 4 ? 64 : 256, 100);
		uint64_t now = START;
		uint32_t came = 0;

		for (; weir_flow_count(f->table) < 60; came++, now += 10 * MS) {
			struct weir_flow_key key = key_of(came, family, 6);

			insert(f, &key, 1, came % 3 ? SYN : DATA, now);
		}
		for (; came < 400; came++, now += 10 * MS) {
			struct weir_flow_key key = key_of(came, family, 6);
			bool full = weir_flow_count(f->table) == 64;
			int64_t victim = full ? victim_of(f, &key, came, now) : -1;
			uint64_t evicted = weir_flow_evicted_count(f->table);
			weir_flow_ref flow = insert(f, &key, 1, SYN, now);

			if (full) {
				assert_int_equal(flow >= 0, victim >= 0);
			}
			if (victim >= 0) {
				struct weir_flow_key gone = key_of((uint32_t)victim, family, 6);

				assert_int_equal(weir_flow_evicted_count(f->table), evicted + 1);
				assert_true(find(f, &gone, now) < 0);
				evictions++;
			}
		}
		drop(f);
	}
	assert_true(evictions > 200);
}

// Flood a table that has reached its limit of half-open flows. Most SYNs evict an older flow.
TEST(flow_f4_most_syns_evict_another_at_the_limit) {
	const uint32_t flows = 20000;

	for (uint8_t family = 4; family <= 6; family = (uint8_t)(family + 2)) {
		struct lab *f = make(family == 4 ? flows : 4 * flows, 25);
		uint64_t now = START;
		uint32_t refused = 0;

		for (uint32_t i = 0; i < flows / 4 * 3; i++) {
			struct weir_flow_key key = key_of(i, family, 6);

			assert_true(insert(f, &key, 1, DATA, now) >= 0);
		}
		for (uint32_t i = 0; i < 4 * flows; i++) {
			struct weir_flow_key key = key_of(1000000 + i, family, 6);

			refused += insert(f, &key, 1, SYN, now += 1000) < 0;
		}
		print_message("IPv%u: %u of %u refused\n", family, refused, 4 * flows);
		// The test sends four SYNs per flow of the table, of which at most one (IPv6: two)
		// is refused.
		assert_true(refused < (family == 4 ? flows : 2 * flows));
		assert_int_equal(active_total(f), weir_flow_count(f->table));
		drop(f);
	}
}

// A client reuses its port after the old flow has expired and before the sweep has removed that
// flow. All packets must find the new flow, on the fast path too.
TEST(flow_that_expired_does_not_hide_its_successor) {
	unsigned int hits = 0;

	for (unsigned int n = 0; n < 400; n++) {
		struct lab *f = make(1024, 100);
		struct weir_flow_key key = key_of(n, n % 2 ? 6 : 4, 6);
		uint64_t now = START;
		uint16_t backend = 0;

		// With these flows, the tested flow can be in any slot of its buckets.
		for (uint32_t i = 0; i < 700; i++) {
			struct weir_flow_key other = key_of(1000 + i, n % 2 ? 6 : 4, 6);

			insert(f, &other, 1, DATA, now);
		}
		weir_flow_ref flow = insert(f, &key, 2, DATA, now);

		if (flow < 0) { // the IPv6 table has room for fewer flows
			drop(f);
			continue;
		}
		weir_flow_advance(f->table, flow, FIN, now);
		now += 10100 * MS;
		assert_true(find(f, &key, now) < 0);
		assert_true(insert(f, &key, 3, SYN, now) >= 0);
		assert_int_equal(weir_flow_backend(f->table, find(f, &key, now)), 3);
		// otherwise the flow is in its secondary bucket
		if (hit(f, &key, SYN, now, &backend)) {
			assert_int_equal(backend, 3);
			hits++;
		}
		weir_flow_advance(f->table, find(f, &key, now), DATA, now);
		if (hit(f, &key, DATA, now, &backend)) {
			assert_int_equal(backend, 3);
			hits++;
		}
		assert_int_equal(f->active[2], 0);
		drop(f);
	}
	assert_true(hits > 300);
}

// A flow ends and starts again in a lower slot. The fast path must find it, although its old entry
// is still in the higher slot.
TEST(flow_that_starts_again_is_hit) {
	for (uint8_t family = 4; family <= 6; family += 2) {
		struct lab *f = make(family == 4 ? 2 : 8, 100); // a table of one bucket
		struct weir_flow_key first = key_of(1, family, 6), second = key_of(2, family, 6);
		uint16_t backend = 0;

		insert(f, &first, 1, DATA, START);
		insert(f, &second, 2, DATA, START);
		weir_flow_remove(f->table, find(f, &first, START), WEIR_FLOW_END_COMPLETED, START);
		weir_flow_remove(f->table, find(f, &second, START), WEIR_FLOW_END_COMPLETED, START);
		insert(f, &second, 3, DATA, START);
		assert_true(hit(f, &second, DATA, START, &backend));
		assert_int_equal(backend, 3);
		drop(f);
	}
}

// F3: a full table evicts the flows of one class before the flows of the next class, however long
// the flows have been idle. Flows whose client got a challenge ACK count as established.
TEST(flow_f3_full_table_evicts_idle_flows_in_order) {
	static const struct {
		const char *name;
		enum weir_flow_event event[2];
		uint8_t protocol;
	} kinds[] = {
		// classes in the order of eviction, with the first two packets of a flow
		{"SYN seen", {SYN, SYN}, 6},
		{"closing", {DATA, FIN}, 6},
		{"young", {SYN, ACK}, 6},
		{"UDP", {DGRAM, DGRAM}, 17},
		{"established", {DATA, DATA}, 6},
	};
	const unsigned int count = sizeof(kinds) / sizeof(kinds[0]);

	for (unsigned int i = 0; i < count * count * 4; i++) {
		const unsigned int kind[2] = {i / 2 % count, i / 2 / count % count};
		const unsigned int first = i % 2; // index of the flow that is inserted first
		struct lab *f = make(2, 100); // one bucket with two flows
		struct weir_flow_key keys[3];
		unsigned int goes = kind[0] < kind[1] ? 0 : kind[0] > kind[1] ? 1 : first;
		uint64_t now = START;

		for (unsigned int k = 0; k < 2; k++) {
			const unsigned int n = k ^ first;

			keys[n] = key_of(n, 4, kinds[kind[n]].protocol);
			now += 200 * MS;
			weir_flow_ref flow = insert(f, &keys[n], 1, kinds[kind[n]].event[0], now);

			assert_true(flow >= 0);
			weir_flow_advance(f->table, flow, kinds[kind[n]].event[1], now);
			if (kind[n] == 4 && i >= count * count * 2) {
				weir_flow_challenge(f->table, flow, now);
			}
		}
		keys[2] = key_of(2, 4, 6);
		now += (WEIR_FLOW_IN_USE_MS - 1000) * MS;
		if (kind[0] > 2 && kind[1] > 2) { // both flows are in use
			assert_int_equal(insert(f, &keys[2], 1, SYN, now), -ENOSPC);
		}
		now += 2000 * MS;
		if (kind[goes] == 0) {
			now -= 2000 * MS; // otherwise the flow would have expired
		}
		assert_true(insert(f, &keys[2], 1, SYN, now) >= 0);
		if (find(f, &keys[goes], now) >= 0 || find(f, &keys[1 - goes], now) < 0) {
			fail_msg("%s and %s: the %s flow was not evicted", kinds[kind[0]].name,
				kinds[kind[1]].name, kinds[kind[goes]].name);
		}
		assert_int_equal(weir_flow_evicted_count(f->table), kind[goes] == 0);
		assert_int_equal(weir_flow_idle_evicted_count(f->table), kind[goes] != 0);
		assert_int_equal(f->ended[WEIR_FLOW_END_EVICTED], 1);
		assert_int_equal(active_total(f), weir_flow_count(f->table));
		drop(f);
	}
}

// F3, F4: a flood of SYNs on a full table evicts idle flows, until half-open flows have reached
// their maximum share of the table. It evicts no flows in use.
TEST(flow_f3_f4_syn_flood_on_a_full_table) {
	const uint32_t flows = 20000;

	for (uint32_t idle = 0; idle < 2; idle++) {
		struct lab *f = make(flows, 25);
		uint64_t now = START;
		uint32_t lost = 0;

		for (uint32_t i = 0; weir_flow_count(f->table) < flows; i++) {
			struct weir_flow_key key = key_of(i, 4, 6);

			insert(f, &key, i % BACKENDS, DATA, now);
		}
		now += idle ? 60 * SECOND : SECOND;
		for (uint32_t i = 0; i < 10 * flows; i++) {
			struct weir_flow_key key = key_of(1000000 + i, 4, 6);

			insert(f, &key, 1, SYN, now += 1000);
		}
		for (uint32_t i = 0; i < flows; i++) {
			struct weir_flow_key key = key_of(i, 4, 6);

			lost += find(f, &key, now) < 0;
		}
		print_message("%s: %u of %u lost\n", idle ? "idle" : "in use", lost, flows);
		// Some flows were never inserted, because their buckets were full.
		assert_true(lost <= (idle ? flows / 4 : flows / 1000));
		assert_int_equal(weir_flow_idle_evicted_count(f->table) > 0, idle);
		assert_int_equal(active_total(f), weir_flow_count(f->table));
		drop(f);
	}
}

// F3: when the table fills up, flows that a genuine RST has ended are removed before the timeout of
// established flows.
TEST(flow_reset_flows_end_earlier_when_the_table_fills_up) {
	// around three quarters of the capacity
	for (uint32_t flows = 700; flows <= 800; flows += 100) {
		struct lab *f = make(1000, 25);
		uint64_t now = START;

		for (uint32_t i = 0; i < flows; i++) {
			struct weir_flow_key key = key_of(i, 4, 6);
			weir_flow_ref flow = insert(f, &key, 1, DATA, now);

			weir_flow_advance(f->table, flow, RST, now);
		}
		for (uint64_t end = now + 30 * SECOND; now < end; now += 20 * MS) {
			weir_flow_stamp(f->table, now);
			weir_flow_sweep(f->table, now);
		}
		if (flows == 700) {
			assert_int_equal(weir_flow_count(f->table), 700);
		} else {
			assert_in_range(weir_flow_count(f->table), 700, 750);
		}
		drop(f);
	}
}

// F2, F3: a table is full of forged flows with two packets each. New flows can still be inserted.
TEST(flow_f3_young_flows_are_evicted) {
	const uint32_t flows = 20000;

	for (uint8_t family = 4; family <= 6; family = (uint8_t)(family + 2)) {
		struct lab *f = make(family == 4 ? flows : 4 * flows, 25);
		uint64_t now = START;
		uint32_t refused = 0;

		for (uint32_t i = 0; i < 4 * flows; i++) {
			struct weir_flow_key key = key_of(i, family, 6);
			weir_flow_ref flow = insert(f, &key, 1, SYN, now += 1000);

			if (flow >= 0) {
				weir_flow_advance(f->table, flow, ACK, now);
			}
			refused += i >= 2 * flows && flow < 0;
		}
		print_message("IPv%u: %u of %u refused\n", family, refused, 2 * flows);
		assert_true(refused < flows / 20);
		assert_int_equal(active_total(f), weir_flow_count(f->table));
		drop(f);
	}
}

// F7: an attacker who knows the hash seed chooses keys that would have the same two buckets if the
// table used no secret. The index of the first bucket would be the high bits of the lower half of
// the hash, and the index of the second bucket the high bits of a product.
TEST(flow_f7_keys_chosen_by_their_hash_share_no_bucket) {
	struct lab *f = make(192, 100); // a table of 65 buckets
	const uint32_t count = f->table->family4.bucket_count;
	uint32_t chosen = 0;

	for (uint32_t n = 0; chosen < 40; n++) {
		struct weir_flow_key key = key_of(n, 4, 6);
		uint64_t hash = hash_of(&key);
		uint32_t mixed = (uint32_t)(hash ^ hash >> 32) * 0x9e3779b1u;

		if ((hash & 0xffffffffu) * count >> 32 == 0 && (uint64_t)mixed * count >> 32 == 1) {
			assert_true(insert(f, &key, 1, DATA, START) >= 0);
			chosen++;
		}
	}
	drop(f);
}

// F7: for IPv6, an attacker who chooses 128 bits can find any number of keys with the same hash.
TEST(flow_f7_keys_with_the_same_hash_share_no_bucket) {
	const struct weir_hash_keys keys = weir_hash_keys_of(SEED);
	struct lab *f = make(4000, 100);
	struct weir_flow_key key = key_of(1, 6, 6);
	uint64_t hash = 0;

	memcpy(key.source + 8, &keys.source[1], 8); // makes one factor of the hash 0
	for (uint32_t n = 0; n < 500; n++) {
		uint64_t half = weir_hash_mix(n + 1, 0x9e3779b97f4a7c15ull);

		memcpy(key.source, &half, sizeof(half));
		assert_true(n == 0 || hash_of(&key) == hash);
		hash = hash_of(&key);
		assert_true(insert(f, &key, 1, DATA, START) >= 0);
	}
	drop(f);
}

// Returns one of the four square roots, modulo 2^64, of a number that is 1 modulo 8.
static uint64_t square_root(uint64_t number) {
	uint64_t root = 1;

	for (unsigned int bit = 3; bit < 64; bit++) {
		if (((root * root ^ number) >> bit & 1) != 0) {
			root += 1ull << (bit - 1);
		}
	}
	return root;
}

// F7: another way to find IPv6 keys with the same hash. The two factors of the source address are
// equal, and their product cancels the product of the destination address. The sum of the two
// halves of the source address is also the same for all keys.
TEST(flow_f7_keys_with_the_same_hash_and_halves_share_no_bucket) {
	const struct weir_hash_keys keys = weir_hash_keys_of(SEED);
	struct weir_flow_key key = key_of(1, 6, 6);
	struct lab *f = make(4000, 100);
	uint32_t chosen = 0;
	uint64_t to[2];

	memcpy(to, key.destination, sizeof(to));
	for (uint16_t port = 1; chosen < 500; port++) {
		uint64_t rest = port | (uint64_t)key.destination_port << 16 | 6ull << 32;
		uint64_t cancelled = (uint64_t)((unsigned __int128)(to[0] ^ keys.destination[0]) *
							(to[1] ^ keys.destination[1] ^ rest) >>
						64);
		uint64_t halves[2] = {square_root(cancelled), square_root(cancelled)};

		if (cancelled % 8 != 1) {
			continue;
		}
		key.source_port = port;
		halves[0] ^= keys.source[0];
		halves[1] ^= keys.source[1];
		memcpy(key.source, halves, sizeof(halves));
		assert_int_equal(hash_of(&key), 0);
		assert_true(insert(f, &key, 1, DATA, START) >= 0);
		chosen++;
	}
	drop(f);
}

// F7: an insertion into full buckets tries to displace at most 16 flows. In a table with one free
// slot, it finds the slot if the slot is in one of 18 buckets: the two buckets of the new flow, the
// other buckets of the 8 flows in these two, and the other buckets of 8 more flows.
TEST(flow_f7_search_for_room_is_bounded) {
	const uint32_t trials = 20000;
	struct lab *f = make(4096, 100);
	struct weir_flow_family *family = &f->table->family4;
	uint32_t n = 0, slots, found = 0, *flow_in;

	slots = family->bucket_count * WEIR_FLOW_SLOTS4;
	family->capacity = slots; // every slot may be used
	flow_in = calloc(slots, sizeof(*flow_in));
	assert_non_null(flow_in);
	while (family->count < slots) {
		struct weir_flow_key key = key_of(n, 4, 6);

		if (insert(f, &key, 1, DATA, START) >= 0) {
			flow_in[family->count - 1] = n;
		}
		n++;
	}
	for (uint32_t i = 0; i < trials; i++, n++) {
		uint32_t at = n % slots;
		struct weir_flow_key gone = key_of(flow_in[at], 4, 6), key = key_of(n, 4, 6);
		bool fits;

		weir_flow_remove(f->table, find(f, &gone, START), WEIR_FLOW_END_COMPLETED, START);
		fits = insert(f, &key, 1, DATA, START) >= 0;
		if (fits) {
			flow_in[at] = n;
		} else {
			assert_true(insert(f, &gone, 1, DATA, START) >= 0);
		}
		found += fits;
	}
	print_message("room found %.1f times in %u buckets\n",
		(double)found / trials * family->bucket_count, (uint32_t)family->bucket_count);
	assert_in_range((uint64_t)found * family->bucket_count, 12ull * trials, 23ull * trials);
	free(flow_in);
	drop(f);
}

// The table reports that it is crowded before it evicts half-open flows, and for some time after
// the evictions.
TEST(flow_crowded_begins_before_the_limit_and_lasts) {
	struct lab *f = make(4096, 25); // at most 1024 half-open flows
	uint64_t now = START;

	for (uint32_t i = 0; i < 1024; i++) {
		struct weir_flow_key key = key_of(i, 4, i % 2 ? 6 : 17);

		assert_int_equal(weir_flow_crowded(f->table, 4), i >= 896);
		assert_true(insert(f, &key, 1, i % 2 ? SYN : DGRAM, now) >= 0);
	}
	assert_false(weir_flow_crowded(f->table, 6));
	for (uint32_t i = 0; i < 1024; i++) {
		struct weir_flow_key key = key_of(i, 4, i % 2 ? 6 : 17);

		assert_int_equal(weir_flow_crowded(f->table, 4), i <= 256);
		weir_flow_advance(f->table, find(f, &key, now), i % 2 ? ACK : DGRAM, now);
	}
	drop(f);
	f = make(1024, 25);
	for (uint32_t i = 0; weir_flow_count(f->table) < 1024; i++) {
		struct weir_flow_key key = key_of(i, 4, 6);

		assert_false(weir_flow_crowded(f->table, 4));
		insert(f, &key, 1, DATA, now);
	}
	assert_true(weir_flow_crowded(f->table, 4)); // half-open flows have their maximum share
	drop(f);
}
