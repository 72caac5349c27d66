// SPDX-License-Identifier: BSD-3-Clause
//
// Flow destinations: numbers are shared, released, reused, and exhausted.
#include "flow_lab.h"

#include "flow_destinations.h"

#define ADDRESSES 12u

static void address_of(unsigned int n, uint8_t ret[16]) {
	memset(ret, 0, 16);
	ret[0] = 0x20;
	ret[15] = (uint8_t)n;
	ret[7] = (uint8_t)(n >> 8);
}

static struct weir_flow_destinations make_destinations(uint32_t addresses) {
	struct weir_flow_destinations d;

	assert_int_equal(weir_flow_destinations_create(addresses, SOCKET_ID_ANY, &d), 0);
	return d;
}

TEST_GROUP(eal_start);

TEST(destinations_have_a_number_each) {
	struct weir_flow_destinations d = make_destinations(ADDRESSES);
	int numbers[ADDRESSES];
	uint8_t address[16];

	for (unsigned int i = 0; i < ADDRESSES; i++) {
		address_of(i, address);
		numbers[i] = weir_flow_destinations_take(&d, address);
		assert_in_range(numbers[i], 0, ADDRESSES - 1);
		assert_memory_equal(d.address[numbers[i]], address, 16);
		for (unsigned int j = 0; j < i; j++) {
			assert_int_not_equal(numbers[i], numbers[j]);
		}
	}
	for (unsigned int i = 0; i < ADDRESSES; i++) {
		address_of(i, address);
		assert_int_equal(weir_flow_destinations_take(&d, address), numbers[i]);
	}
	weir_flow_destinations_free(&d);
}

TEST(destinations_run_out_until_a_number_is_released) {
	struct weir_flow_destinations d = make_destinations(1);
	uint8_t one[16], two[16];

	address_of(1, one);
	address_of(2, two);
	assert_int_equal(weir_flow_destinations_take(&d, one), 0);
	assert_int_equal(weir_flow_destinations_take(&d, one), 0);
	assert_int_equal(weir_flow_destinations_take(&d, two), -ENOSPC);
	weir_flow_destinations_release(&d, 0);
	// a flow still uses the number
	assert_int_equal(weir_flow_destinations_take(&d, two), -ENOSPC);
	weir_flow_destinations_release(&d, 0);
	assert_int_equal(weir_flow_destinations_take(&d, two), 0);
	assert_memory_equal(d.address[0], two, 16);
	assert_int_equal(weir_flow_destinations_take(&d, one), -ENOSPC);
	weir_flow_destinations_free(&d);
}

// Hash chains: numbers are allocated and released in any order, with many more addresses than
// chains.
TEST(destinations_random_walk_agrees_with_a_model) {
	struct weir_flow_destinations d = make_destinations(ADDRESSES);
	uint32_t flows[3 * ADDRESSES] = {0};
	int numbers[3 * ADDRESSES];
	uint32_t used = 0, refused = 0;
	uint64_t random = 1;

	for (unsigned int step = 0; step < 1000000; step++) {
		unsigned int n, address_number;
		uint8_t address[16];

		random = weir_hash_mix(random + step, 0x9e3779b97f4a7c15ull);
		n = (unsigned int)(random >> 8) % (3 * ADDRESSES);
		address_of(n, address);
		if (flows[n] > 0 && random % 5 < 3) {
			address_number = (unsigned int)numbers[n];
			assert_memory_equal(d.address[address_number], address, 16);
			weir_flow_destinations_release(&d, (uint16_t)address_number);
			used -= --flows[n] == 0;
			continue;
		}
		int number = weir_flow_destinations_take(&d, address);

		if (flows[n] > 0) {
			assert_int_equal(number, numbers[n]);
		} else if (used == ADDRESSES) {
			assert_int_equal(number, -ENOSPC);
			refused++;
			continue;
		} else {
			assert_in_range(number, 0, ADDRESSES - 1);
			used++;
		}
		numbers[n] = number;
		flows[n]++;
	}
	assert_true(refused > 1000);
	weir_flow_destinations_free(&d);
}

static void assert_no_destinations(const struct lab *f, uint32_t flows) {
	for (uint32_t number = 0; number < flows; number++) {
		assert_int_equal(f->table->destinations.flows[number], 0);
	}
}

// A flow that is not inserted holds no destination number, whether its address has a number or not.
TEST(refused_flow_holds_no_number) {
	const uint32_t flows = 64;
	struct lab *f = make(4 * flows, 100);
	uint32_t refused = 0;
	uint64_t now = START;

	for (uint32_t i = 0; i < 4 * flows; i++) {
		struct weir_flow_key key = key_of(i, 6, 6);

		if (i >= 2 * flows) {
			key.destination[14] = (uint8_t)i;
		}
		refused += insert(f, &key, 1, DATA, now) < 0;
	}
	assert_int_equal(refused, 4 * flows - weir_flow_count(f->table));
	assert_int_equal(weir_flow_count(f->table), flows);
	sweep_for(f, now + 901 * SECOND, 2 * SECOND);
	assert_int_equal(weir_flow_count(f->table), 0);
	assert_no_destinations(f, flows);
	drop(f);
}

// Start and end flows in all possible ways. The flows have more destination addresses than the
// table has numbers.
TEST(flow_table_counts_its_destinations) {
	struct lab *f = make(32, 100); // room for 8 IPv6 flows
	uint64_t now = START;
	unsigned int entered = 0;

	for (uint32_t round = 0; round < 100; round++) {
		for (uint32_t i = 0; i < 20; i++) {
			struct weir_flow_key key = key_of(100 * round + i, 6, 6);

			key.destination[14] = (uint8_t)i;
			entered += insert(f, &key, 1, i % 2 ? SYN : DATA, now) >= 0;
			if (i % 3 == 0 && find(f, &key, now) >= 0) {
				weir_flow_remove(
					f->table, find(f, &key, now), WEIR_FLOW_END_COMPLETED, now);
			}
		}
		now = sweep_for(f, now + 901 * SECOND, 2 * SECOND);
		assert_int_equal(weir_flow_count(f->table), 0);
		assert_no_destinations(f, 8);
	}
	assert_true(entered > 600);
	drop(f);
}
