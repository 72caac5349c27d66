// SPDX-License-Identifier: BSD-3-Clause
//
// UDP flows whose service changes: the sweep ends a flow if its backend does not belong to the new
// service.
#include "flow_expire.h"
#include "parts_lab.h"

#define TURN_NS 5000000ull
#define WITHIN_NS 2000000000ull // the limit of weir_flow_recheck

// Flows with odd source ports belong to another service.
static bool is_even(void *context, const struct weir_flow_key *key, uint16_t backend) {
	assert_non_null(context);
	assert_int_equal(key->protocol, 17);
	assert_int_equal(key->destination_port, 0x5000);
	assert_int_equal(backend, 1 + key->source_port % 3);
	return key->source_port % 2 == 0;
}

// Like is_even, for flows of both protocols.
static bool is_even_of_any(void *context, const struct weir_flow_key *key, uint16_t backend) {
	assert_non_null(context);
	assert_true(key->protocol == 17 || key->protocol == 6);
	assert_int_equal(backend, 1 + key->source_port % 3);
	return key->source_port % 2 == 0;
}

static uint64_t sweep_turns(struct lab *f, uint64_t now, uint64_t ns) {
	for (uint64_t end = now + ns; now < end; now += TURN_NS) {
		weir_flow_sweep(f->table, now);
	}
	return now;
}

// Insert n TCP and UDP flows of both address families. UDP flows get one or two datagrams.
static void fill(struct lab *f, uint32_t n) {
	for (uint32_t i = 0; i < n; i++) {
		struct weir_flow_key key = key_of(i, i % 7 < 5 ? 4 : 6, i % 5 == 0 ? 6 : 17);
		weir_flow_ref flow =
			insert(f, &key, (uint16_t)(1 + i % 3), i % 5 == 0 ? DATA : DGRAM, START);

		assert_true(flow >= 0);
		if (key.protocol == 17 && i % 4 < 2) {
			weir_flow_advance(f->table, flow, DGRAM, START);
		}
	}
}

static bool stays(uint32_t i) {
	return i % 5 == 0 || i % 2 == 0;
}

TEST_GROUP(eal_start);

TEST(flow_recheck_ends_the_udp_flows_of_other_services) {
	for (uint32_t flows = 64; flows <= 65536; flows *= 32) {
		struct lab *f = make(2 * flows, 100);
		uint64_t now = START;

		f->table->listener.belongs = is_even;
		fill(f, flows / 2);
		// The services change during a sweep that has visited half of the flows.
		weir_flow_sweep(f->table, now);
		now = sweep_turns(f, now, WITHIN_NS / 4);
		weir_flow_recheck(f->table, false, now);
		now = sweep_turns(f, now, WITHIN_NS);
		for (uint32_t i = 0; i < flows / 2; i++) {
			struct weir_flow_key key =
				key_of(i, i % 7 < 5 ? 4 : 6, i % 5 == 0 ? 6 : 17);

			assert_int_equal(find(f, &key, now) >= 0, stays(i));
		}
		assert_int_equal(weir_flow_count(f->table), active_total(f));
		drop(f);
	}
}

TEST(flow_recheck_of_tcp_ends_the_flows_of_ended_binds) {
	struct lab *f = make(8192, 100);
	uint64_t now = START;

	f->table->listener.belongs = is_even_of_any;
	fill(f, 2048);
	weir_flow_recheck(f->table, true, now);
	now = sweep_turns(f, now, WITHIN_NS);
	for (uint32_t i = 0; i < 2048; i++) {
		struct weir_flow_key key = key_of(i, i % 7 < 5 ? 4 : 6, i % 5 == 0 ? 6 : 17);

		assert_int_equal(find(f, &key, now) >= 0, i % 2 == 0);
	}
	assert_int_equal(weir_flow_count(f->table), active_total(f));
	drop(f);
}

TEST(flow_recheck_disables_the_fast_path_of_datagrams_until_all_are_checked) {
	struct lab *f = make(65536, 100);
	struct weir_flow_key key = key_of(2, 4, 17);
	uint64_t now = START;
	uint16_t backend = 0;

	f->table->listener.belongs = is_even;
	fill(f, 4096);
	assert_true(hit(f, &key, DGRAM, now, &backend) || find(f, &key, now) >= 0);
	weir_flow_advance(f->table, find(f, &key, now), DGRAM, now);
	assert_true(hit(f, &key, DGRAM, now, &backend));
	weir_flow_recheck(f->table, false, now);
	assert_false(hit(f, &key, DGRAM, now, &backend));
	now = sweep_turns(f, now, 100000000);
	assert_false(hit(f, &key, DGRAM, now, &backend));
	now = sweep_turns(f, now, WITHIN_NS);
	assert_true(hit(f, &key, DGRAM, now, &backend));
	assert_int_equal(backend, 1 + 2 % 3);
	drop(f);
}

TEST(flow_recheck_of_an_empty_table_ends_at_once) {
	struct lab *f = make(1024, 100);
	struct weir_flow_key key = key_of(0, 4, 17);

	f->table->listener.belongs = is_even;
	weir_flow_recheck(f->table, false, START);
	assert_false(f->table->rechecking);
	assert_true(insert(f, &key, 1, DGRAM, START) >= 0);
	weir_flow_recheck(f->table, false, START);
	assert_true(f->table->rechecking);
	weir_flow_remove(f->table, find(f, &key, START), WEIR_FLOW_END_COMPLETED, START);
	weir_flow_sweep(f->table, START + TURN_NS);
	assert_false(f->table->rechecking);
	drop(f);
}

// Call the sweep once. Returns the number of buckets that the call has visited.
static uint32_t swept(
	struct lab *f, struct weir_flow_family *family, uint64_t now, bool *ret_more) {
	uint64_t count = family->bucket_count, before = family->sweep_next;

	*ret_more = weir_flow_sweep(f->table, now);
	return (uint32_t)((family->sweep_next + count - before) % count);
}

// A call after a pause visits no more buckets than other calls. The next calls sweep the remaining
// buckets.
TEST(flow_sweep_of_a_call_is_bounded) {
	struct lab *f = make(300000, 100);
	struct weir_flow_family *family = &f->table->family4;
	struct weir_flow_key key = key_of(0, 4, 6);
	uint64_t now = START;
	uint32_t full = 0;
	bool more = true;

	assert_true(insert(f, &key, 1, DATA, now) >= 0);
	for (uint32_t pause = 0; pause < 20; pause++) {
		for (now += pause * MS; more; full++) {
			assert_in_range(swept(f, family, now, &more), 0, 256);
		}
		more = true;
	}
	assert_true(full > 100);
	drop(f);
}

// The table that releases a part may use other services than the table that adopts the part. The
// adoption ends the UDP flows whose backends do not belong to the services of the adopting table.
TEST(flow_adoption_ends_the_udp_flows_of_other_services) {
	struct pair pair = pair_make(4096);

	pair.lab[1]->table->listener.belongs = is_even;
	for (uint32_t i = 0; i < 64; i++) {
		struct weir_flow_key key = key_of(i, i % 2 == 0 ? 4 : 6, 17);
		struct lab *f = owner_of(&pair, &key);
		uint32_t part = part_of(&pair, &key);

		key.source_port = (uint16_t)i;
		if (f == pair.lab[1]) {
			move(&pair, part, START);
		}
		f = pair.lab[0];
		assert_true(insert(f, &key, (uint16_t)(1 + i % 3), DGRAM, START) >= 0);
		move(&pair, part, START);
		assert_int_equal(find(pair.lab[1], &key, START) >= 0, i % 2 == 0);
	}
	check_counts(&pair);
	pair_free(&pair);
}

static bool is_any(void *context, const struct weir_flow_key *key, uint16_t backend) {
	(void)context;
	(void)key;
	return backend < BACKENDS;
}

// The services change while a part moves. Flows that have already been adopted were checked against
// the former services, and no sweep visits them before the whole part has been adopted. The recheck
// must still end the flows of other services.
TEST(flow_recheck_during_an_adoption_ends_all_flows_of_other_services) {
	for (uint32_t parts = 0; parts < 2; parts++) { // number of parts that `taker` already owns
		struct pair pair = pair_make(400000);
		struct lab *taker = pair.lab[1];
		uint32_t part = 2, before = 0, after = 0, strays = 0;
		uint64_t now = START;

		for (uint32_t p = 1 + 2 * parts; p < WEIR_FLOW_PARTS; p += 2) {
			move(&pair, p, now);
		}
		for (uint32_t i = 0; i < 60000; i++) {
			struct weir_flow_key key = key_of(i, 4, 17);

			if (part_of(&pair, &key) == part) {
				weir_flow_ref flow = insert(
					pair.lab[0], &key, (uint16_t)(1 + i % 3), DGRAM, now);

				assert_true(flow >= 0);
				weir_flow_advance(pair.lab[0]->table, flow, DGRAM, now);
				before++;
			}
		}
		assert_true(before > 30);
		taker->table->listener.belongs = is_any;
		release(&pair, pair.lab[0], part);
		count_parcel(pair.parcel, taker, 1);
		assert_false(weir_flow_adopt(taker->table, pair.parcel, now));
		taker->table->listener.belongs = is_even;
		weir_flow_recheck(taker->table, false, now);
		now = sweep_turns(taker, now, parts == 0 ? TURN_NS : WITHIN_NS);
		while (!weir_flow_adopt(taker->table, pair.parcel, now)) {
		}
		settle(&pair, pair.lab[0]);
		now = sweep_turns(taker, now, WITHIN_NS);
		for (uint32_t i = 0; i < 60000; i++) {
			struct weir_flow_key key = key_of(i, 4, 17);

			if (part_of(&pair, &key) == part) {
				strays += i % 2 != 0 && find(taker, &key, now) >= 0;
				after += i % 2 == 0;
			}
		}
		assert_int_equal(strays, 0);
		assert_int_equal(weir_flow_count(taker->table), after);
		assert_false(taker->table->rechecking);
		pair_free(&pair);
	}
}
