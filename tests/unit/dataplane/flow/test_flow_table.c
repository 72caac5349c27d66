// SPDX-License-Identifier: BSD-3-Clause
//
// Flow table: guarantees F1 to F6 of flow_table.h, and random operations that are compared with a
// simple model.
#include "flow_lab.h"

#include <arpa/inet.h>

TEST_GROUP(eal_start);

TEST(flow_insert_then_lookup_finds_backend_and_state) {
	struct lab *f = make(1024, 50);

	for (uint8_t family = 4; family <= 6; family += 2) {
		struct weir_flow_key tcp = key_of(1, family, 6);
		struct weir_flow_key udp = key_of(1, family, 17);

		assert_true(find(f, &tcp, START) < 0);
		assert_true(insert(f, &tcp, 3, WEIR_FLOW_EVENT_SYN, START) >= 0);
		assert_true(insert(f, &udp, 4, WEIR_FLOW_EVENT_DATAGRAM, START) >= 0);
		assert_int_equal(weir_flow_backend(f->table, find(f, &tcp, START)), 3);
		assert_int_equal(weir_flow_backend(f->table, find(f, &udp, START)), 4);
		assert_int_equal(
			weir_flow_state(f->table, find(f, &tcp, START)), WEIR_FLOW_SYN_SEEN);
		assert_int_equal(
			weir_flow_state(f->table, find(f, &udp, START)), WEIR_FLOW_UDP_SEEN);
	}
	assert_int_equal(weir_flow_count(f->table), 4);
	assert_int_equal(weir_flow_half_open_count(f->table), 4);
	drop(f);
}

// F1: keys that have the same hash and differ in only one field are distinguished.
TEST(flow_f1_full_keys_are_compared) {
	struct lab *f = make(1024, 100);

	for (uint8_t family = 4; family <= 6; family += 2) {
		struct weir_flow_key base = key_of(5, family, 6);
		uint64_t hash = hash_of(&base);
		unsigned int bytes = family == 4 ? 4 : 16;

		assert_true(insert(f, &base, 1, WEIR_FLOW_EVENT_DATA, START) >= 0);
		for (unsigned int i = 0; i < bytes; i++) {
			struct weir_flow_key other = base;

			other.source[i] ^= 1;
			assert_true(weir_flow_lookup(f->table, &other, hash, START) < 0);
			other = base;
			other.destination[i] ^= 0x80;
			assert_true(weir_flow_lookup(f->table, &other, hash, START) < 0);
		}
		for (unsigned int bit = 0; bit < 16; bit++) {
			struct weir_flow_key other = base;

			other.source_port ^= (uint16_t)(1u << bit);
			assert_true(weir_flow_lookup(f->table, &other, hash, START) < 0);
			other = base;
			other.destination_port ^= (uint16_t)(1u << bit);
			assert_true(weir_flow_lookup(f->table, &other, hash, START) < 0);
		}
		struct weir_flow_key other = base;

		other.protocol = 17;
		assert_true(weir_flow_lookup(f->table, &other, hash, START) < 0);
		assert_true(weir_flow_lookup(f->table, &base, hash, START) >= 0);
	}
	drop(f);
}

struct transition {
	const char *name;
	enum weir_flow_event first;
	enum weir_flow_event next[4];
	unsigned int steps;
	enum weir_flow_state expected;
	bool new_flow; // whether the last step created a new flow
};

// Flows may have the same ports and differ only in their addresses. NTP, for example, uses port 123
// on both sides.
TEST(flow_fast_lookup_finds_flows_with_the_same_ports) {
	const uint32_t flows = 1000;
	uint32_t first = 0;

	for (uint8_t family = 4; family <= 6; family = (uint8_t)(family + 2)) {
		struct lab *f = make(flows * 4, 100);

		for (uint32_t i = 0; i < flows; i++) {
			struct weir_flow_key key = key_of(i, family, 17);

			key.source_port = key.destination_port = htons(123);
			weir_flow_ref flow =
				insert(f, &key, (uint16_t)(i % BACKENDS), DGRAM, START);

			assert_true(flow >= 0);
			weir_flow_advance(f->table, flow, DGRAM, START);
		}
		for (uint32_t i = 0; i < 2 * flows; i++) {
			struct weir_flow_key key = key_of(i, family, 17);
			uint16_t backend;

			key.source_port = key.destination_port = htons(123);
			if (hit(f, &key, DGRAM, START, &backend)) {
				assert_true(i < flows);
				assert_int_equal(backend, i % BACKENDS);
				first++;
			} else {
				assert_int_equal(find(f, &key, START) >= 0, i < flows);
			}
		}
		drop(f);
	}
	print_message("%u of %u in their first bucket\n", first, 2 * flows);
	assert_true(first > flows / 10 * 18);
}

TEST(flow_states_follow_the_clients_half) {
	static const struct transition table[] = {
		{"syn", SYN, {0}, 0, WEIR_FLOW_SYN_SEEN, false},
		{"syn retransmit", SYN, {SYN}, 1, WEIR_FLOW_SYN_SEEN, false},
		{"handshake", SYN, {ACK}, 1, WEIR_FLOW_YOUNG, false},
		{"handshake with data", SYN, {DATA}, 1, WEIR_FLOW_ESTABLISHED, false},
		{"handshake, then data", SYN, {ACK, DATA}, 2, WEIR_FLOW_ESTABLISHED, false},
		{"handshake, then its answer", SYN, {ACK, ACK}, 2, WEIR_FLOW_ESTABLISHED, false},
		{"syn on young", SYN, {ACK, SYN}, 2, WEIR_FLOW_YOUNG, false},
		{"fin on young", SYN, {ACK, FIN}, 2, WEIR_FLOW_CLOSING, false},
		{"rst on young", SYN, {ACK, RST}, 2, WEIR_FLOW_CLOSING, false},
		{"rst to syn was forged", SYN, {RST, ACK}, 2, WEIR_FLOW_YOUNG, false},
		{"rst twice", SYN, {DATA, RST, RST}, 3, WEIR_FLOW_CLOSING, false},
		{"mid-flow", DATA, {DATA}, 1, WEIR_FLOW_ESTABLISHED, false},
		{"syn on established", SYN, {DATA, SYN}, 2, WEIR_FLOW_ESTABLISHED, false},
		{"fin", SYN, {DATA, FIN}, 2, WEIR_FLOW_CLOSING, false},
		{"half-closed download", SYN, {DATA, FIN, DATA}, 3, WEIR_FLOW_CLOSING, false},
		{"fin without handshake", SYN, {FIN}, 1, WEIR_FLOW_CLOSING, false},
		{"rst", SYN, {DATA, RST}, 2, WEIR_FLOW_CLOSING, false},
		{"rst was forged", SYN, {DATA, RST, DATA}, 3, WEIR_FLOW_ESTABLISHED, false},
		{"rst to syn", SYN, {RST}, 1, WEIR_FLOW_CLOSING, false},
		{"ack after fin and rst", SYN, {DATA, FIN, RST, DATA}, 4, WEIR_FLOW_CLOSING, false},
		{"fin then rst", SYN, {DATA, FIN, RST}, 3, WEIR_FLOW_CLOSING, false},
		{"port reuse after fin", SYN, {DATA, FIN, SYN}, 3, WEIR_FLOW_CLOSING, true},
		{"port reuse after rst", SYN, {DATA, RST, SYN}, 3, WEIR_FLOW_CLOSING, true},
		{"datagram", DGRAM, {0}, 0, WEIR_FLOW_UDP_SEEN, false},
		{"second datagram", DGRAM, {DGRAM}, 1, WEIR_FLOW_UDP, false},
		{"udp", DGRAM, {DGRAM, DGRAM}, 2, WEIR_FLOW_UDP, false},
	};

	for (unsigned int i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		const struct transition *t = &table[i];
		struct lab *f = make(1024, 50);
		struct weir_flow_key key = key_of(i, i % 2 ? 6 : 4, t->first == DGRAM ? 17 : 6);
		weir_flow_ref flow = insert(f, &key, 2, t->first, START);
		bool is_new = false;

		for (unsigned int s = 0; s < t->steps; s++) {
			is_new = weir_flow_advance(f->table, flow, t->next[s], START + s * MS);
		}
		if (weir_flow_state(f->table, flow) != t->expected || is_new != t->new_flow) {
			fail_msg("%s: state %d, new flow %d", t->name,
				weir_flow_state(f->table, flow), is_new);
		}
		assert_int_equal(weir_flow_half_open_count(f->table),
			t->expected == WEIR_FLOW_SYN_SEEN || t->expected == WEIR_FLOW_UDP_SEEN ? 1
											       : 0);
		assert_int_equal(f->half_open[2], weir_flow_half_open_count(f->table));
		drop(f);
	}
}

TEST(flow_restart_reports_the_old_flow_once) {
	struct lab *f = make(1024, 50);
	struct weir_flow_key key = key_of(1, 4, 6);
	weir_flow_ref flow = insert(f, &key, 2, WEIR_FLOW_EVENT_DATA, START);

	weir_flow_advance(f->table, flow, WEIR_FLOW_EVENT_FIN, START);
	restart(f, flow, 5, WEIR_FLOW_EVENT_SYN, START);
	assert_int_equal(f->ended[WEIR_FLOW_END_COMPLETED], 1);
	assert_int_equal(f->active[2], 0);
	assert_int_equal(weir_flow_backend(f->table, flow), 5);
	assert_int_equal(weir_flow_state(f->table, flow), WEIR_FLOW_SYN_SEEN);
	assert_int_equal(weir_flow_half_open_count(f->table), 1);
	assert_int_equal(weir_flow_count(f->table), 1);
	drop(f);
}

// F4: neither a restart nor a removal lets half-open flows exceed their share.
TEST(flow_f4_restart_keeps_the_half_open_limit) {
	struct lab *f = make(4096, 10);

	for (uint32_t i = 0; i < 3000; i++) {
		struct weir_flow_key key = key_of(i, 4, 6);
		weir_flow_ref flow = insert(f, &key, 2, WEIR_FLOW_EVENT_DATA, START);

		weir_flow_advance(f->table, flow, WEIR_FLOW_EVENT_RST, START);
		assert_true(weir_flow_advance(f->table, flow, WEIR_FLOW_EVENT_SYN, START));
		restart(f, flow, 3, WEIR_FLOW_EVENT_SYN, START);
		assert_true(weir_flow_half_open_count(f->table) <= 409);
		// A complete handshake makes the flow established, even at the limit.
		if (i % 2 == 0) {
			weir_flow_advance(f->table, flow, WEIR_FLOW_EVENT_DATA, START);
			assert_int_equal(weir_flow_state(f->table, flow), WEIR_FLOW_ESTABLISHED);
		}
	}
	assert_int_equal(active_total(f), weir_flow_count(f->table));
	drop(f);
}

// F5: a flow finishes once. Its service time is the time since its first packet. Data after a
// forged RST show that the flow has not ended.
TEST(flow_f5_finishes_once_with_its_service_time) {
	static const struct {
		const char *name;
		enum weir_flow_event event[4];
		unsigned int events;
		enum weir_outcome outcome;
		unsigned int finished; // finished flows in total
		uint64_t service_ms; // service time, with 100 ms between events
	} table[] = {
		{"fin", {SYN, DATA, FIN}, 3, WEIR_OUTCOME_COMPLETED, 1, 200},
		{"fin, data, rst", {SYN, FIN, DATA, RST}, 4, WEIR_OUTCOME_COMPLETED, 1, 100},
		{"rst to syn", {SYN, RST}, 2, WEIR_OUTCOME_ABANDONED, 1, 0},
		{"abort", {SYN, DATA, RST}, 3, WEIR_OUTCOME_COMPLETED, 1, 200},
		{"forged rst", {SYN, RST, DATA, FIN}, 4, WEIR_OUTCOME_COMPLETED, 2, 0},
		{"unanswered", {SYN, SYN}, 2, WEIR_OUTCOME_UNANSWERED, 1, 100},
		{"idle", {SYN, DATA}, 2, WEIR_OUTCOME_ABANDONED, 1, 100},
		{"udp", {DGRAM, DGRAM, DGRAM}, 3, WEIR_OUTCOME_COMPLETED, 1, 200},
	};

	for (unsigned int i = 0; i < 2 * sizeof(table) / sizeof(table[0]); i++) {
		const uint8_t family = i % 2 ? 6 : 4;
		struct lab *f = make(1024, 50);
		struct weir_flow_key key =
			key_of(i, family, table[i / 2].event[0] == DGRAM ? 17 : 6);
		struct weir_flow_start start = {.now_ns = START,
			.event = table[i / 2].event[0],
			.backend = 2,
			.measured = true};
		weir_flow_ref flow = weir_flow_insert(f->table, &key, hash_of(&key), &start);
		uint64_t total = 0;

		began(f, 2, start.event);
		for (unsigned int k = 1; k < table[i / 2].events; k++) {
			weir_flow_advance(
				f->table, flow, table[i / 2].event[k], START + k * 100 * MS);
		}
		for (uint64_t now = START + SECOND; now < START + 1000 * SECOND; now += 20 * MS) {
			weir_flow_sweep(f->table, now);
		}
		for (unsigned int k = 0; k < 4; k++) {
			total += f->finished[k];
		}
		if (total != table[i / 2].finished || f->finished[table[i / 2].outcome] == 0) {
			fail_msg("%s: finished %llu times", table[i / 2].name,
				(unsigned long long)total);
		}
		// Start times have a resolution of 2^14 ns. The time of the last packet of a flow
		// that timed out has the resolution of a tick.
		if (table[i / 2].service_ms == 0) { // measured when the flow first finished
			assert_int_equal(f->service_ns, 0);
			drop(f);
			continue;
		}
		assert_in_range(f->service_ns / MS,
			table[i / 2].service_ms - (table[i / 2].events == 2 ? 100 : 20),
			table[i / 2].service_ms + (table[i / 2].events == 2 ? 270 : 10));
		assert_int_equal(f->open[2], 0);
		assert_int_equal(f->active[2], 0);
		drop(f);
	}
}

// The time of the last packet of a UDP flow is stored in ticks, whose length depends on the timeout
// of the flow: here 2^22 ns for a half-open flow. A single datagram has service time 0, but may be
// measured as one tick.
TEST(udp_service_time_has_the_resolution_of_a_tick) {
	const uint64_t tick = UINT64_C(1) << 22;
	uint64_t most = 0;

	for (uint32_t i = 0; i < 40; i++) {
		struct lab *f = make(64, 50);
		struct weir_flow_key key = key_of(i, 4, 17); // each key has another sweep time
		struct weir_flow_start start = {.now_ns = START + i * 37 * MS,
			.event = WEIR_FLOW_EVENT_DATAGRAM,
			.backend = 2,
			.measured = true};

		assert_true(weir_flow_insert(f->table, &key, hash_of(&key), &start) >= 0);
		began(f, 2, start.event);
		for (uint64_t now = start.now_ns; f->finished[WEIR_OUTCOME_COMPLETED] == 0;
			now += MS) {
			assert_true(now < START + 60 * SECOND);
			weir_flow_sweep(f->table, now);
		}
		assert_true(f->service_ns < tick);
		most = f->service_ns > most ? f->service_ns : most;
		drop(f);
	}
	assert_in_range(most, tick / 2, tick);
}

// Start times wrap, because they have 32 bits. A flow that lasts a day must not be measured as a
// flow that lasts minutes.
TEST(flow_of_a_day_is_not_measured) {
	for (unsigned int i = 0; i < 2; i++) {
		struct lab *f = make(64, 50);
		struct weir_flow_key key = key_of(1, i ? 6 : 4, 6);
		struct weir_flow_start start = {
			.now_ns = START, .event = SYN, .backend = 2, .measured = true};
		weir_flow_ref flow = weir_flow_insert(f->table, &key, hash_of(&key), &start);
		uint64_t now = START;

		began(f, 2, SYN);
		for (; now < START + 71000 * SECOND; now += SECOND / 2) {
			weir_flow_sweep(f->table, now);
			weir_flow_advance(f->table, flow, DATA, now);
		}
		weir_flow_advance(f->table, flow, FIN, now);
		assert_int_equal(f->finished[WEIR_OUTCOME_COMPLETED], 1);
		assert_int_equal(f->service_ns, 0);
		drop(f);
	}
}

// A client resets a flow and connects again from the same port. The old flow counts as reset.
TEST(flow_restart_reports_a_reset_as_such) {
	struct lab *f = make(1024, 50);
	struct weir_flow_key key = key_of(1, 4, 6);
	weir_flow_ref flow = insert(f, &key, 2, SYN, START);

	weir_flow_advance(f->table, flow, RST, START);
	assert_true(weir_flow_advance(f->table, flow, SYN, START));
	restart(f, flow, 3, SYN, START);
	assert_int_equal(f->ended[WEIR_FLOW_END_REFUSED], 1);
	assert_int_equal(f->ended[WEIR_FLOW_END_COMPLETED], 0);
	assert_int_equal(f->finished[WEIR_OUTCOME_REFUSED], 0);
	assert_int_equal(f->finished[WEIR_OUTCOME_ABANDONED], 1);
	drop(f);
}

// Forged RSTs and data alternate. The flow is measured at most once.
TEST(flow_that_resumes_is_measured_once) {
	struct lab *f = make(1024, 50);
	struct weir_flow_key key = key_of(1, 4, 6);
	struct weir_flow_start start = {
		.now_ns = START, .event = SYN, .backend = 2, .measured = true};
	weir_flow_ref flow = weir_flow_insert(f->table, &key, hash_of(&key), &start);
	unsigned int measured = 0;

	began(f, 2, SYN);
	weir_flow_advance(f->table, flow, DATA, START + MS);
	for (unsigned int i = 0; i < 100; i++) {
		weir_flow_advance(f->table, flow, RST, START + (2 + i) * MS);
		measured += f->service_ns != 0;
		assert_int_equal(f->open[2], 0);
		weir_flow_advance(f->table, flow, DATA, START + (2 + i) * MS);
		assert_int_equal(f->open[2], 1);
	}
	assert_int_equal(measured, 1);
	drop(f);
}

TEST(flow_without_measuring_has_no_service_time) {
	struct lab *f = make(1024, 50);
	struct weir_flow_key key = key_of(1, 4, 6);
	weir_flow_ref flow = insert(f, &key, 2, SYN, START);

	weir_flow_advance(f->table, flow, FIN, START + SECOND);
	assert_int_equal(f->finished[WEIR_OUTCOME_COMPLETED], 1);
	assert_int_equal(f->service_ns, 0);
	drop(f);
}

TEST(flow_remove_reports_the_flow_once) {
	struct lab *f = make(1024, 50);
	struct weir_flow_key key = key_of(1, 6, 6);
	weir_flow_ref flow = insert(f, &key, 2, WEIR_FLOW_EVENT_SYN, START);

	weir_flow_remove(f->table, flow, WEIR_FLOW_END_EVICTED, START);
	assert_true(find(f, &key, START) < 0);
	assert_int_equal(f->ended[WEIR_FLOW_END_EVICTED], 1);
	assert_int_equal(weir_flow_count(f->table), 0);
	assert_int_equal(weir_flow_half_open_count(f->table), 0);
	drop(f);
}

// F6: in a large table, more buckets may be due than one call sweeps. The call then returns true,
// so that the caller does not sleep.
TEST(flow_f6_sweep_reports_when_more_is_due) {
	struct lab *f = make(3000000, 50);
	struct weir_flow_key key = key_of(1, 4, 6);
	uint64_t now = START;
	unsigned int turns = 0;

	insert(f, &key, 2, WEIR_FLOW_EVENT_SYN, now);
	weir_flow_sweep(f->table, now);
	now += 6 * SECOND;
	while (weir_flow_sweep(f->table, now)) {
		turns++;
	}
	// Each call sweeps only 256 of the 1,250,000 buckets.
	assert_true(turns > 1000);
	now = sweep_for(f, now, 1100 * MS);
	assert_int_equal(weir_flow_count(f->table), 0);
	drop(f);
}

// F5, F6: flows of each state end within a second (and one tick) after the timeout of the state.
TEST(flow_f6_each_state_expires_in_time) {
	static const struct {
		enum weir_flow_event first, then;
		uint8_t protocol;
		uint32_t timeout_ms;
		enum weir_flow_end end;
	} table[] = {
		{WEIR_FLOW_EVENT_SYN, WEIR_FLOW_EVENT_SYN, 6, 5000, WEIR_FLOW_END_TIMED_OUT},
		{WEIR_FLOW_EVENT_SYN, WEIR_FLOW_EVENT_FIN, 6, 10000, WEIR_FLOW_END_COMPLETED},
		{WEIR_FLOW_EVENT_SYN, WEIR_FLOW_EVENT_RST, 6, 10000, WEIR_FLOW_END_REFUSED},
		{WEIR_FLOW_EVENT_FIN, WEIR_FLOW_EVENT_RST, 6, 10000, WEIR_FLOW_END_COMPLETED},
		{WEIR_FLOW_EVENT_DATAGRAM, WEIR_FLOW_EVENT_DATAGRAM, 17, 30000,
			WEIR_FLOW_END_TIMED_OUT},
		{WEIR_FLOW_EVENT_SYN, WEIR_FLOW_EVENT_DATA, 6, 900000, WEIR_FLOW_END_TIMED_OUT},
		{WEIR_FLOW_EVENT_SYN, WEIR_FLOW_EVENT_ACK, 6, 8000, WEIR_FLOW_END_TIMED_OUT},
		{WEIR_FLOW_EVENT_DATAGRAM, WEIR_FLOW_EVENT_SYN, 17, 4000, WEIR_FLOW_END_TIMED_OUT},
		// An RST may be forged, so the flow lasts as long as without the RST.
		{WEIR_FLOW_EVENT_DATA, WEIR_FLOW_EVENT_RST, 6, 900000, WEIR_FLOW_END_REFUSED},
	};

	for (unsigned int i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct lab *f = make(5000, 100);
		struct weir_flow_key key = key_of(i, i % 2 ? 6 : 4, table[i].protocol);
		weir_flow_ref flow = insert(f, &key, 2, table[i].first, START);
		uint64_t now = START;

		weir_flow_advance(f->table, flow, table[i].then, now);
		// Skip most of the timeout, as if the worker had slept.
		now += (uint64_t)table[i].timeout_ms * MS - 1500 * MS;
		now = sweep_for(f, now, 1500 * MS);
		assert_true(find(f, &key, now) >= 0);
		assert_in_range(weir_flow_idle_ms(f->table, find(f, &key, now), now),
			table[i].timeout_ms - table[i].timeout_ms / 1000 - 10,
			table[i].timeout_ms + table[i].timeout_ms / 1000 + 10);
		now += (uint64_t)table[i].timeout_ms * MS / 1024 + 3 * MS; // one tick more
		assert_true(find(f, &key, now) < 0);
		now = sweep_for(f, now, 1000 * MS);
		assert_int_equal(f->ended[table[i].end], 1);
		assert_int_equal(weir_flow_count(f->table), 0);
		assert_int_equal(weir_flow_half_open_count(f->table), 0);
		drop(f);
	}
}

// Timestamps wrap. An expired flow that no sweep has visited for another timeout must still not be
// mistaken for a flow with a recent packet.
TEST(flow_stays_expired_for_another_timeout) {
	static const struct {
		enum weir_flow_event first;
		uint8_t protocol;
		uint32_t timeout_ms;
	} table[] = {{WEIR_FLOW_EVENT_SYN, 6, 5000}, {WEIR_FLOW_EVENT_FIN, 6, 10000},
		{WEIR_FLOW_EVENT_DATA, 6, 900000}, {WEIR_FLOW_EVENT_DATAGRAM, 17, 4000}};

	for (unsigned int i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct lab *f = make(1000, 100);
		struct weir_flow_key key = key_of(i, 4, table[i].protocol);
		uint64_t timeout_ns = table[i].timeout_ms * MS, step = timeout_ns / 128;

		assert_true(insert(f, &key, 2, table[i].first, START) >= 0);
		assert_true(find(f, &key, START + timeout_ns - step) >= 0);
		for (uint64_t idle = timeout_ns + step; idle < 2 * timeout_ns - step;
			idle += step) {
			assert_true(find(f, &key, START + idle) < 0);
		}
		drop(f);
	}
}

TEST(flow_refreshed_stays_forever) {
	struct lab *f = make(1024, 50);
	struct weir_flow_key key = key_of(1, 4, 6);
	uint64_t now = START;

	insert(f, &key, 2, WEIR_FLOW_EVENT_DATA, now);
	for (unsigned int i = 0; i < 500; i++) { // many wraps of the 12-bit ticks
		now = sweep_for(f, now + 800 * SECOND, 20 * MS);
		weir_flow_ref flow = find(f, &key, now);

		assert_true(flow >= 0);
		weir_flow_advance(f->table, flow, WEIR_FLOW_EVENT_DATA, now);
	}
	drop(f);
}

// Random operations on a table, compared with a model in an array.
TEST(flow_random_walk_agrees_with_a_model) {
	enum { KEYS = 6000 };
	struct model {
		bool live;
		uint16_t backend;
		uint8_t st;
		uint64_t last;
	};
	static const uint64_t timeout[] = {
		5000 * MS, 900000 * MS, 10000 * MS, 30000 * MS, 8000 * MS, 4000 * MS};
	struct lab *f = make(8000, 100);
	struct model *model = calloc(KEYS, sizeof(*model));
	uint64_t random = 1, now = START, hits = 0;

	for (unsigned int step = 0; step < 600000; step++) {
		random = random * 6364136223846793005ull + 1442695040888963407ull;
		uint32_t n = (uint32_t)(random >> 33) % KEYS;
		struct weir_flow_key key = key_of(n, n % 7 ? 4 : 6, n % 5 ? 6 : 17);
		struct model *m = &model[n];
		enum weir_flow_event event = (random >> 20) % 5;
		weir_flow_ref flow;
		uint16_t backend;

		now += (random >> 50) % 1000 * 100;
		weir_flow_sweep(f->table, now);
		flow = find(f, &key, now);
		if (flow < 0) {
			// Ticks are up to 1/1024 of a timeout, or 5 ms.
			assert_true(!m->live || now - m->last + timeout[m->st] / 512 + 10 * MS >
							timeout[m->st]);
			if (n % 5 == 0) {
				event = WEIR_FLOW_EVENT_DATAGRAM;
			} else if (event == WEIR_FLOW_EVENT_DATAGRAM) {
				event = WEIR_FLOW_EVENT_SYN;
			}
			assert_true(insert(f, &key, n % BACKENDS, event, now) >= 0);
			flow = find(f, &key, now);
			assert_true(flow >= 0);
			m->live = true;
			m->backend = n % BACKENDS;
		} else {
			assert_true(m->live);
			assert_int_equal(weir_flow_backend(f->table, flow), m->backend);
			if (n % 5 == 0) {
				event = WEIR_FLOW_EVENT_DATAGRAM;
			} else if (event == WEIR_FLOW_EVENT_DATAGRAM) {
				event = WEIR_FLOW_EVENT_ACK;
			}
			if (event != WEIR_FLOW_EVENT_ACK && hit(f, &key, event, now, &backend)) {
				// The fast path accepts a packet only if it changes no state,
				// except from young to established. It must have found the same
				// flow.
				assert_int_equal(backend, m->backend);
				assert_int_equal(weir_flow_state(f->table, flow),
					m->st == WEIR_FLOW_YOUNG ? WEIR_FLOW_ESTABLISHED : m->st);
				assert_in_range(weir_flow_idle_ms(f->table, flow, now), 0, 1000);
				hits++;
			} else if (weir_flow_advance(f->table, flow, event, now)) {
				m->backend = (uint16_t)((m->backend + 1) % BACKENDS);
				restart(f, flow, m->backend, event, now);
			}
		}
		m->st = weir_flow_state(f->table, flow);
		if (event != WEIR_FLOW_EVENT_SYN || m->st == WEIR_FLOW_SYN_SEEN) {
			m->last = now;
		}
		assert_int_equal(active_total(f), weir_flow_count(f->table));
	}
	for (uint64_t end = now + 902 * SECOND; now < end; now += MS) {
		weir_flow_sweep(f->table, now);
	}
	assert_int_equal(weir_flow_count(f->table), 0);
	assert_int_equal(weir_flow_half_open_count(f->table), 0);
	assert_int_equal(active_total(f), 0);
	for (unsigned int i = 0; i < BACKENDS; i++) {
		assert_int_equal(f->open[i], 0);
		assert_int_equal(f->half_open[i], 0);
	}
	assert_true(hits > 100000);
	free(model);
	drop(f);
}

TEST(flow_create_refuses_bad_parameters) {
	struct weir_flow_table *table = NULL;
	struct weir_flow_table_params good = {.flows = 1024,
		.ipv6_percent = 25,
		.half_open_percent = 25,
		.timeout_ms = {1, 1, 1, 1, 1, 1},
		.socket = SOCKET_ID_ANY,
		.hash_seed = SEED};
	struct weir_flow_listener listener = {
		on_established, on_finished, on_resumed, on_ended, NULL, NULL};
	struct weir_flow_table_params bad = good;

	bad.flows = 0;
	assert_int_equal(weir_flow_table_create(&bad, &listener, &table), -EINVAL);
	bad = good;
	bad.half_open_percent = 101;
	assert_int_equal(weir_flow_table_create(&bad, &listener, &table), -EINVAL);
	bad = good;
	bad.timeout_ms[WEIR_FLOW_UDP_SEEN] = 0;
	assert_int_equal(weir_flow_table_create(&bad, &listener, &table), -EINVAL);
	bad = good;
	bad.ipv6_percent = 0;
	assert_int_equal(weir_flow_table_create(&bad, &listener, &table), -EINVAL);
	assert_null(table);
	weir_flow_table_free(NULL);
}

TEST(flow_memory_has_the_announced_size) {
	double per_flow = (double)weir_flow_table_bytes(1000000, 25) / 1000000;

	print_message("bytes per flow of capacity: %.1f\n", per_flow);
	assert_true(per_flow <= 64);
}
