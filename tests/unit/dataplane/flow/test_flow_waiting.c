// SPDX-License-Identifier: BSD-3-Clause
//
// Waiting flows: which flows are listed. A search in several steps must find each flow that exists
// during the whole search.
#include "flow_lab.h"
#include "flow_waiting.h"

#define FLOWS 4096u
#define NOBODY 0xffffu

static const struct weir_flow_waiting_search of_3 = {
	.backend = {NOBODY, 3, NOBODY, NOBODY}, .idle_ms = 500};

// Search the lines [first, last). For each flow of key_of(0 .. n - 1, family), count in times[] how
// often it is found. Returns the number of flows found.
static uint32_t list(struct lab *f, const struct weir_flow_waiting_search *search, uint64_t now,
	uint32_t first, uint32_t last, uint32_t *times, uint32_t n) {
	struct weir_flow_waiting found[WEIR_FLOW_WALK_LINE];
	uint32_t total = 0;

	for (uint32_t line = first; line < last; line++) {
		uint32_t count = weir_flow_waiting_in(f->table, line, search, now, found);

		for (uint32_t i = 0; i < count; i++) {
			uint32_t number = found[i].key.source_port;
			struct weir_flow_key key = key_of(number, found[i].key.family, 6);

			assert_int_equal(
				found[i].key.family, weir_flow_walk_family(f->table, line));
			assert_memory_equal(&found[i].key, &key, sizeof(key));
			assert_true(number < n);
			assert_int_equal(found[i].stamp,
				weir_flow_waiting_stamp(f->table, find(f, &key, now)));
			times[number]++;
		}
		total += count;
	}
	return total;
}

static uint32_t list_all(struct lab *f, uint64_t now, uint32_t *times, uint32_t n) {
	return list(f, &of_3, now, 0, weir_flow_walk_lines(f->table), times, n);
}

TEST_GROUP(eal_start);

TEST(flow_waiting_is_a_syn_of_that_backend) {
	for (uint8_t family = 4; family <= 6; family += 2) {
		struct lab *f = make(1024, 50);
		const enum weir_flow_event events[] = {SYN, DATA, FIN, RST};
		uint32_t times[16] = {0};
		struct weir_flow_key key;

		for (uint32_t n = 0; n < 4; n++) {
			key = key_of(n, family, 6);
			assert_true(insert(f, &key, 3, events[n], START) >= 0);
		}
		key = key_of(4, family, 6); // a flow of another backend
		assert_true(insert(f, &key, 4, SYN, START) >= 0);
		key = key_of(5, family, 17);
		assert_true(insert(f, &key, 3, DGRAM, START) >= 0);
		key = key_of(6, family, 6); // the client has also sent an ACK
		assert_true(insert(f, &key, 3, SYN, START) >= 0);
		assert_false(weir_flow_advance(f->table, find(f, &key, START), ACK, START));
		key = key_of(7, family, 6); // a flow first seen in mid-connection
		assert_true(weir_flow_insert(f->table, &key, hash_of(&key),
				    &(struct weir_flow_start){.now_ns = START,
					    .event = SYN,
					    .backend = 3,
					    .joined = true}) >= 0);
		began(f, 3, SYN);
		assert_int_equal(list_all(f, START + 600 * MS, times, 16), 1);
		assert_int_equal(times[0], 1);
		drop(f);
	}
}

TEST(flow_waiting_is_idle_for_the_requested_time) {
	struct weir_flow_waiting_search at_once = {.backend = {3, 3, 3, 3}};
	struct lab *f = make(1024, 50);
	struct weir_flow_key key = key_of(0, 4, 6);
	uint32_t lines = weir_flow_walk_lines(f->table), times[1] = {0};
	uint64_t now = START;

	assert_true(insert(f, &key, 3, SYN, START) >= 0);
	// A flow is not listed in the same tick as its packet, because a second packet in this tick
	// could not be detected.
	assert_int_equal(list(f, &at_once, START, 0, lines, times, 1), 0);
	assert_int_equal(list(f, &at_once, START + 10 * MS, 0, lines, times, 1), 1);
	while (list_all(f, now, times, 1) == 0) {
		now += MS;
	}
	assert_in_range(now - START, 500 * MS, 510 * MS);
	// the SYN is retransmitted
	assert_false(weir_flow_advance(f->table, find(f, &key, now), SYN, now));
	assert_int_equal(list_all(f, now + 490 * MS, times, 1), 0);
	assert_int_equal(list_all(f, now + 510 * MS, times, 1), 1);
	assert_int_equal(list_all(f, now + 5100 * MS, times, 1), 0); // the flow has timed out
	drop(f);
}

// If the minimum idle time is 0, a flow is listed from the first tick after the tick of its last
// packet.
TEST(flow_waiting_at_once_is_in_the_next_tick) {
	struct weir_flow_waiting_search at_once = {.backend = {3, 3, 3, 3}};
	struct lab *f = make(1024, 50);
	struct weir_flow_key key = key_of(0, 4, 6);
	unsigned int shift = f->table->shift[WEIR_PHASE_SYN_SEEN];
	uint32_t lines = weir_flow_walk_lines(f->table), times[1] = {0};
	uint64_t next = ((START >> shift) + 1) << shift;

	assert_true(insert(f, &key, 3, SYN, START) >= 0);
	assert_int_equal(list(f, &at_once, next - 1, 0, lines, times, 1), 0);
	assert_int_equal(list(f, &at_once, next, 0, lines, times, 1), 1);
	drop(f);
}

// The stamp of a listed flow changes with every packet, even if the packets arrive close together.
TEST(flow_waiting_stamp_changes_with_every_packet) {
	struct weir_flow_waiting_search at_once = {.backend = {3, 3, 3, 3}};

	for (uint64_t wait = 0; wait < 20 * MS; wait += 100000) {
		struct lab *f = make(64, 50);
		struct weir_flow_key key = key_of(0, 4, 6);
		struct weir_flow_waiting found[WEIR_FLOW_WALK_LINE];
		uint32_t lines = weir_flow_walk_lines(f->table), n = 0;
		uint64_t now = START + wait;

		assert_true(insert(f, &key, 3, SYN, START) >= 0);
		for (uint32_t line = 0; n == 0 && line < lines; line++) {
			n = weir_flow_waiting_in(f->table, line, &at_once, now, found);
		}
		if (n > 0) {
			weir_flow_advance(f->table, find(f, &key, now), SYN, now);
			assert_int_not_equal(found[0].stamp,
				weir_flow_waiting_stamp(f->table, find(f, &key, now)));
		}
		drop(f);
	}
}

// Flows start and end between the steps of a search. A flow that exists during the whole search is
// found exactly once.
TEST(flow_waiting_search_finds_remaining_flows_once) {
	for (uint8_t family = 4; family <= 6; family += 2) {
		struct lab *f = make(FLOWS * 4, 100);
		uint32_t *times = calloc(FLOWS, sizeof(*times));
		uint32_t lines = weir_flow_walk_lines(f->table), next = FLOWS, first = 0;
		uint64_t now = START + 600 * MS;

		assert_non_null(times);
		for (uint32_t n = 0; n < FLOWS / 2; n++) {
			struct weir_flow_key key = key_of(n, family, 6);

			assert_true(insert(f, &key, 3, SYN, START) >= 0);
		}
		while (first < lines) {
			uint32_t last = first + 64 < lines ? first + 64 : lines;

			list(f, &of_3, now, first, last, times, FLOWS);
			first = last;
			for (uint32_t i = 0; i < 4 && next < 60000; i++, next++) {
				struct weir_flow_key key = key_of(next, family, 6);

				insert(f, &key, 3, SYN, now); // this flow is too new to be listed
			}
			for (uint32_t n = 1; n < FLOWS / 2; n += 2) { // every odd flow ends
				struct weir_flow_key key = key_of(n, family, 6);
				weir_flow_ref flow = find(f, &key, now);

				if (flow >= 0 && n * (uint64_t)lines / FLOWS * 2 < first) {
					weir_flow_remove(
						f->table, flow, WEIR_FLOW_END_EVICTED, now);
				}
			}
		}
		for (uint32_t n = 0; n < FLOWS / 2; n++) {
			assert_true(times[n] == 1 || (n % 2 == 1 && times[n] == 0));
		}
		free(times);
		drop(f);
	}
}
