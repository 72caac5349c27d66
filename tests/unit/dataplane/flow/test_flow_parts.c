// SPDX-License-Identifier: BSD-3-Clause
#include "flow_parts.h"

#include "flow_lab.h"

#define PAIR_FLOWS 40000

// Two tables that share a memory. Table 0 has the even parts at first, table 1 the odd ones.
struct pair {
	struct weir_flow_memory *memory;
	struct weir_flow_parcel *parcel;
	struct lab *lab[2];
};

static struct weir_flow_table_params params_with(struct weir_flow_memory *memory) {
	return (struct weir_flow_table_params){.flows = 1,
		.ipv6_percent = 25,
		.half_open_percent = 50,
		.timeout_ms = {5000, 900000, 10000, 30000, 8000, 4000},
		.socket = SOCKET_ID_ANY,
		.hash_seed = SEED,
		.secret = 77,
		.memory = memory};
}

static struct pair pair_make(uint64_t flows) {
	struct pair pair;
	struct weir_flow_table_params params;

	assert_int_equal(weir_flow_memory_create(flows, 25, true, SOCKET_ID_ANY, &pair.memory), 0);
	assert_int_equal(
		weir_flow_parcel_create(pair.memory, BACKENDS, SOCKET_ID_ANY, &pair.parcel), 0);
	params = params_with(pair.memory);
	for (unsigned int i = 0; i < 2; i++) {
		struct lab *f = calloc(1, sizeof(*f));
		struct weir_flow_listener listener = {
			on_established, on_finished, on_resumed, on_ended, f};

		assert_non_null(f);
		assert_int_equal(weir_flow_table_create(&params, &listener, &f->table), 0);
		pair.lab[i] = f;
	}
	for (uint32_t part = 0; part < WEIR_FLOW_PARTS; part++) {
		weir_flow_own(pair.lab[part % 2]->table, part);
	}
	return pair;
}

static void pair_free(struct pair *pair) {
	drop(pair->lab[0]);
	drop(pair->lab[1]);
	weir_flow_parcel_free(pair->parcel);
	weir_flow_memory_free(pair->memory);
}

static uint32_t part_of(const struct pair *pair, const struct weir_flow_key *key) {
	const struct weir_flow_secret *secret = &pair->lab[0]->table->secret;

	return weir_flow_part(secret, weir_flow_bucket_hash(secret, key, hash_of(key)));
}

static struct lab *owner_of(const struct pair *pair, const struct weir_flow_key *key) {
	uint32_t part = part_of(pair, key);

	assert_true(weir_flow_owns(pair->lab[0]->table, part) !=
		    weir_flow_owns(pair->lab[1]->table, part));
	return pair->lab[weir_flow_owns(pair->lab[1]->table, part)];
}

// Count what a parcel says, as the user of the tables does.
static void count_parcel(const struct weir_flow_parcel *parcel, struct lab *f, int64_t sign) {
	for (uint32_t i = 0; i < parcel->backend_count; i++) {
		uint16_t backend = parcel->backend[i];
		const struct weir_flow_tally *tally = &parcel->tally[backend];

		f->active[backend] += sign * tally->active;
		f->open[backend] += sign * tally->open;
		f->half_open[backend] += sign * tally->half_open;
	}
}

static void release(struct pair *pair, struct lab *from, uint32_t part) {
	while (!weir_flow_release(from->table, part, pair->parcel)) {
	}
}

static void adopt(struct pair *pair, struct lab *to, uint64_t now) {
	count_parcel(pair->parcel, to, 1);
	while (!weir_flow_adopt(to->table, pair->parcel, now)) {
	}
}

static void settle(struct pair *pair, struct lab *from) {
	count_parcel(pair->parcel, from, -1);
	do {
		weir_flow_parcel_forget(pair->parcel);
	} while (pair->parcel->state != WEIR_FLOW_PARCEL_EMPTY);
}

static void move(struct pair *pair, uint32_t part, uint64_t now) {
	bool second = weir_flow_owns(pair->lab[1]->table, part);

	release(pair, pair->lab[second], part);
	adopt(pair, pair->lab[!second], now);
	settle(pair, pair->lab[second]);
}

// What the users of the tables have counted is what the tables contain.
static void check_counts(const struct pair *pair) {
	for (unsigned int i = 0; i < 2; i++) {
		const struct weir_flow_table *table = pair->lab[i]->table;
		uint32_t flows[2] = {0}, half_open[2] = {0};

		for (uint64_t b = 0; b < table->family4.bucket_count; b++) {
			uint32_t part = (uint32_t)(b / table->family4.part_buckets);

			for (unsigned int s = 0; s < 4 && weir_flow_owns(table, part); s++) {
				uint32_t word = weir_flow_bucket4_at(table, (uint32_t)b)->word[s];

				flows[0] += word != 0;
				half_open[0] += word != 0 && weir_flow_is_half_open(word);
			}
		}
		for (uint64_t b = 0; b < table->family6.bucket_count; b++) {
			uint32_t part = (uint32_t)(b / table->family6.part_buckets);

			for (unsigned int s = 0; s < 2 && weir_flow_owns(table, part); s++) {
				uint32_t word = weir_flow_bucket6_at(table, (uint32_t)b)->word[s];

				flows[1] += word != 0;
				half_open[1] += word != 0 && weir_flow_is_half_open(word);
			}
		}
		assert_int_equal(table->family4.count, flows[0]);
		assert_int_equal(table->family6.count, flows[1]);
		assert_int_equal(table->family4.half_open, half_open[0]);
		assert_int_equal(table->family6.half_open, half_open[1]);
		assert_int_equal(active_total(pair->lab[i]), flows[0] + flows[1]);
	}
}

// Flow n, in one of all the states that there are.
static struct weir_flow_key flow_key(uint32_t n) {
	return key_of(n, n % 5 == 0 ? 6 : 4, n % 7 == 0 ? 17 : 6);
}

static bool begin(struct pair *pair, uint32_t n, uint64_t now) {
	static const enum weir_flow_event later[] = {SYN, DATA, FIN, RST, ACK};
	struct weir_flow_key key = flow_key(n);
	struct lab *f = owner_of(pair, &key);
	struct weir_flow_start start = {.now_ns = now,
		.event = key.protocol == 17 ? DGRAM : SYN,
		.backend = (uint16_t)(n % BACKENDS),
		.measured = n % 3 == 0};
	weir_flow_ref flow = weir_flow_insert(f->table, &key, hash_of(&key), &start);

	if (flow < 0) {
		return false;
	}
	began(f, start.backend, start.event);
	if (key.protocol == 17) {
		if (n % 2 == 0) {
			weir_flow_advance(f->table, flow, DGRAM, now);
		}
		return true;
	}
	weir_flow_advance(f->table, flow, later[n % 5], now);
	if (n % 11 == 0) {
		weir_flow_advance(f->table, flow, RST, now);
	}
	return true;
}

// --- where flows live -----------------------------------------------------------------------

static void flow_buckets_lie_in_its_part(void **state) {
	(void)state;
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

// Parts differ in how many flows they get: all fit nevertheless.
static void flow_parts_hold_the_configured_flows(void **state) {
	(void)state;
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

// --- moves ----------------------------------------------------------------------------------

struct seen {
	uint16_t backend;
	uint8_t state;
	bool found;
	uint32_t idle_ms;
};

static struct seen look(const struct pair *pair, uint32_t n, uint64_t now) {
	struct weir_flow_key key = flow_key(n);
	struct lab *f = owner_of(pair, &key);
	weir_flow_ref flow = find(f, &key, now);

	if (flow < 0) {
		return (struct seen){0};
	}
	return (struct seen){.found = true,
		.backend = weir_flow_backend(f->table, flow),
		.state = (uint8_t)weir_flow_state(f->table, flow),
		.idle_ms = weir_flow_idle_ms(f->table, flow, now)};
}

static void flow_move_keeps_every_flow(void **state) {
	struct pair pair = pair_make(2 * PAIR_FLOWS);
	struct seen *before = calloc(PAIR_FLOWS, sizeof(*before));
	uint64_t now = START;
	uint32_t found = 0;

	(void)state;
	assert_non_null(before);
	for (uint32_t n = 0; n < PAIR_FLOWS; n++) {
		now = START + n * (SECOND / PAIR_FLOWS); // their idle times differ
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

static void flow_move_keeps_the_service_time(void **state) {
	struct pair pair = pair_make(PAIR_FLOWS);
	uint64_t now = START + 3 * SECOND;

	(void)state;
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

// A table that had no flows to measure takes over some, with the times when they began.
static void flow_move_measures_where_nothing_was_measured(void **state) {
	struct pair pair = pair_make(PAIR_FLOWS);

	(void)state;
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

static void flow_move_tells_what_it_moves(void **state) {
	struct pair pair = pair_make(2 * PAIR_FLOWS);
	int64_t active[BACKENDS], open[BACKENDS], half_open[BACKENDS];

	(void)state;
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
	for (unsigned int i = 0; i < BACKENDS; i++) { // all were told of, once
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

static void flow_move_is_bounded_per_call(void **state) {
	struct pair pair = pair_make(400000);
	const struct weir_flow_table *table = pair.lab[0]->table;
	uint64_t buckets = table->family4.part_buckets + table->family6.part_buckets;
	uint64_t slices = (buckets + WEIR_FLOW_SLICE - 1) / WEIR_FLOW_SLICE, calls = 1, next = 0;

	(void)state;
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

// The same address has another number in each table.
static void flow_move_renumbers_ipv6_destinations(void **state) {
	struct pair pair = pair_make(PAIR_FLOWS);
	uint32_t differing = 0, inserted = 0;

	(void)state;
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
	// Nothing is left of them where they were, nor in the parcel.
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

static void flow_move_evicts_what_has_no_destination(void **state) {
	struct pair pair = pair_make(PAIR_FLOWS);
	struct weir_flow_key established, half_open;
	uint32_t n = 0;

	(void)state;
	do {
		established = key_of(n++, 6, 6);
	} while (owner_of(&pair, &established) != pair.lab[0]);
	half_open = established; // the same part: only the destination differs
	do {
		half_open.source_port = (uint16_t)n++;
	} while (part_of(&pair, &half_open) != part_of(&pair, &established));
	assert_true(insert(pair.lab[0], &established, 1, DATA, START) >= 0);
	assert_true(insert(pair.lab[0], &half_open, 2, SYN, START) >= 0);
	pair.lab[1]->table->destinations.free = UINT16_MAX; // all numbers are given
	move(&pair, part_of(&pair, &established), START);
	assert_int_equal(weir_flow_count(pair.lab[1]->table), 0);
	assert_int_equal(weir_flow_evicted_count(pair.lab[1]->table), 1);
	assert_int_equal(weir_flow_idle_evicted_count(pair.lab[1]->table), 1);
	assert_int_equal(pair.lab[1]->ended[WEIR_FLOW_END_EVICTED], 2);
	assert_int_equal(active_total(pair.lab[0]) + active_total(pair.lab[1]), 0);
	check_counts(&pair);
	pair_free(&pair);
}

// --- limits ---------------------------------------------------------------------------------

// The flows come with the room that they take: none is lost. New ones have to wait.
static void flow_move_into_a_full_table_keeps_all_flows(void **state) {
	struct pair pair = pair_make(2048);
	struct weir_flow_table *full = pair.lab[1]->table;
	struct weir_flow_key key;
	uint32_t n = 0, kept, share = full->family4.capacity;
	uint32_t crowded = UINT32_MAX;

	(void)state;
	for (; full->family4.count < full->family4.capacity; n++) {
		key = key_of(n, 4, 6);
		if (owner_of(&pair, &key) == pair.lab[1]) {
			assert_true(insert(pair.lab[1], &key, 1, DATA, START) >= 0);
		}
	}
	for (uint32_t found = 0; found < 6; n++) { // more than the share of one part
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
			assert_true(insert(pair.lab[1], &key, 3, SYN, START) < 0); // all in use
			tries++;
		}
	}
	assert_int_equal(full->family4.count, kept);
	pair_free(&pair);
}

static void flow_limits_go_with_the_part(void **state) {
	struct pair pair = pair_make(102400);
	const struct weir_flow_table *a = pair.lab[0]->table, *b = pair.lab[1]->table;

	(void)state;
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
	assert_int_equal(a->family4.capacity, 0); // nothing is left to it
	assert_int_equal(b->family4.capacity, 102400);
	assert_int_equal(weir_flow_owned_count(b), WEIR_FLOW_PARTS);
	sweep_for(pair.lab[0], START, SECOND);
	sweep_for(pair.lab[1], START, SECOND);
	move(&pair, 9, START);
	assert_int_equal(a->family4.capacity, 100);
	sweep_for(pair.lab[0], START + SECOND, SECOND);
	pair_free(&pair);
}

// Half-open flows beyond the limit of the table that takes them stay. Each new one then takes the
// place of another.
static void flow_move_keeps_half_open_flows(void **state) {
	struct pair pair = pair_make(20480);
	struct weir_flow_table *to = pair.lab[1]->table;
	uint32_t n = 0, before;

	(void)state;
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

// --- time -----------------------------------------------------------------------------------

static uint64_t ended(const struct pair *pair) {
	uint64_t flows = 0;

	for (unsigned int i = 0; i < 2; i++) {
		flows += pair->lab[i]->ended[WEIR_FLOW_END_TIMED_OUT] +
			 pair->lab[i]->ended[WEIR_FLOW_END_EVICTED];
	}
	return flows;
}

static void flow_sweep_skips_parts_of_others(void **state) {
	struct pair pair = pair_make(PAIR_FLOWS);
	uint64_t later = START + 8 * SECOND;
	uint32_t inserted = 0, in_part;

	(void)state;
	for (uint32_t n = 0; n < 10000; n++) {
		struct weir_flow_key key = key_of(n, n % 2 == 0 ? 4 : 6, 6);

		inserted += insert(owner_of(&pair, &key), &key, 1, SYN, START) >= 0;
	}
	release(&pair, pair.lab[0], 6);
	in_part = pair.parcel->flows;
	assert_true(in_part > 0);
	sweep_for(pair.lab[0], later, SECOND); // F6
	assert_int_equal(weir_flow_count(pair.lab[0]->table), 0);
	assert_int_equal(active_total(pair.lab[0]), in_part);
	assert_true(weir_flow_count(pair.lab[1]->table) > 4000); // its own sweep has not come by
	sweep_for(pair.lab[1], later, SECOND);
	assert_int_equal(weir_flow_count(pair.lab[1]->table), 0);
	assert_int_equal(ended(&pair) + in_part, inserted);
	// Who adopts a part ends what has expired on the way.
	adopt(&pair, pair.lab[1], later);
	settle(&pair, pair.lab[0]);
	assert_int_equal(weir_flow_count(pair.lab[1]->table), 0);
	assert_int_equal(ended(&pair), inserted);
	assert_int_equal(active_total(pair.lab[0]) + active_total(pair.lab[1]), 0);
	pair_free(&pair);
}

// The clock of the worker that takes a part may be behind: a flow must not look as if it had been
// idle for the whole range of its ticks.
static void flow_move_from_a_clock_that_is_ahead(void **state) {
	struct pair pair = pair_make(PAIR_FLOWS);

	(void)state;
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

// --- creation -------------------------------------------------------------------------------

static void flow_memory_refuses_bad_parameters(void **state) {
	struct weir_flow_memory *memory = NULL;

	(void)state;
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

// In parts, the memory of many flows is hardly larger.
static void flow_memory_in_parts_is_as_announced(void **state) {
	uint64_t own = weir_flow_memory_bytes(4u << 20, 25, false);
	uint64_t shared = weir_flow_memory_bytes(4u << 20, 25, true);

	(void)state;
	print_message("in parts: %.2f %% more\n", 100.0 * ((double)shared / (double)own - 1));
	assert_true(shared >= own && shared - own < own / 50);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(flow_buckets_lie_in_its_part),
		cmocka_unit_test(flow_parts_hold_the_configured_flows),
		cmocka_unit_test(flow_move_keeps_every_flow),
		cmocka_unit_test(flow_move_keeps_the_service_time),
		cmocka_unit_test(flow_move_measures_where_nothing_was_measured),
		cmocka_unit_test(flow_move_tells_what_it_moves),
		cmocka_unit_test(flow_move_is_bounded_per_call),
		cmocka_unit_test(flow_move_renumbers_ipv6_destinations),
		cmocka_unit_test(flow_move_evicts_what_has_no_destination),
		cmocka_unit_test(flow_move_into_a_full_table_keeps_all_flows),
		cmocka_unit_test(flow_limits_go_with_the_part),
		cmocka_unit_test(flow_move_keeps_half_open_flows),
		cmocka_unit_test(flow_sweep_skips_parts_of_others),
		cmocka_unit_test(flow_move_from_a_clock_that_is_ahead),
		cmocka_unit_test(flow_memory_refuses_bad_parameters),
		cmocka_unit_test(flow_memory_in_parts_is_as_announced),
	};

	return cmocka_run_group_tests(tests, eal_start, NULL);
}
