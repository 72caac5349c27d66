// SPDX-License-Identifier: BSD-3-Clause
//
// Steal flow: a worker lists its waiting flows, and moves a flow to another backend on request. All
// reasons for which the worker refuses a move are tested.
#include <stdlib.h>
#include <string.h>

#include "flow_query.h"
#include "flow_waiting.h"
#include "pipeline_lab.h"
#include "test.h"

#define FIN 0x01
#define SYN 0x02
#define RST 0x04
#define ACK 0x10
#define MS 1000000ull

static uint16_t begin(struct lab *lab, uint16_t n) {
	const struct frame_spec syn = lab_tcp(n, SYN);

	return lab_send(lab, &syn).backend;
}

static const struct weir_share_counters *backend_of(const struct lab *lab, uint32_t backend) {
	return weir_segment_backend_counters(lab->segment, lab->params.worker, backend);
}

static struct weir_message respond(struct lab *lab, struct weir_message message) {
	weir_flow_query_respond(lab->pipeline, &message, lab->now_ns);
	weir_pipeline_maintain(lab->pipeline, lab->now_ns);
	assert_int_equal(message.sequence, 7);
	return message;
}

static struct weir_message list_question(uint16_t backend) {
	return (struct weir_message){.sequence = 7,
		.kind = WEIR_MESSAGE_FLOW_WAITING,
		.waiting = {.last = UINT32_MAX,
			.idle_ms = 500,
			.backend = {
				backend, WEIR_BACKEND_NONE, WEIR_BACKEND_NONE, WEIR_BACKEND_NONE}}};
}

// Returns the request to move flow n of lab_tcp. It contains the current state of the flow in the
// table.
static struct weir_message move_question(struct lab *lab, uint16_t n, uint16_t to) {
	struct weir_message list = list_question(0);
	struct weir_message move = {.sequence = 7,
		.kind = WEIR_MESSAGE_FLOW_MOVE,
		.move = {.source_port = rte_cpu_to_be_16((uint16_t)(1024 + n)),
			.destination_port = rte_cpu_to_be_16(80),
			.family = 4,
			.to = to,
			.deadline_ns = lab->now_ns + 1000 * MS}};

	memcpy(move.move.source, frame_client4, 16);
	memcpy(move.move.destination, frame_vip4, 16);
	for (uint16_t id = 0; id < 4; id++) {
		list.waiting.backend[id] = id;
	}
	for (uint32_t lines = 1; list.waiting.first < lines;
		list.waiting.first = list.waiting.next) {
		list = respond(lab, list);
		lines = list.waiting.lines;
		for (uint8_t i = 0; list.waiting.family == 4 && i < list.waiting.count; i++) {
			if (list.waiting.flow4[i].source_port == move.move.source_port) {
				move.move.stamp = list.waiting.flow4[i].stamp;
			}
		}
	}
	return move;
}

static void check_move(
	struct lab *lab, const struct weir_message *question, enum weir_move_answer answer) {
	assert_int_equal(respond(lab, *question).move.answer, answer);
	lab_check_counters(lab);
}

TEST_GROUP(lab_eal);

TEST(steal_flow_moves_a_waiting_flow) {
	struct lab *lab = lab_make();
	const struct frame_spec syn = lab_tcp(1, SYN), ack = lab_tcp(1, ACK);
	uint16_t from = begin(lab, 1), to = (uint16_t)((from + 1) % 4);
	struct weir_message move;

	lab_wait(lab, 600);
	move = move_question(lab, 1, to);
	assert_int_not_equal(move.move.stamp, 0);
	check_move(lab, &move, WEIR_MOVE_MOVED);
	assert_int_equal(backend_of(lab, from)->active_flows, 0);
	assert_int_equal(backend_of(lab, from)->open_flows, 0);
	assert_int_equal(backend_of(lab, to)->active_flows, 1);
	assert_int_equal(backend_of(lab, to)->open_flows, 1);
	check_move(lab, &move, WEIR_MOVE_CHANGED); // a repeated request
	assert_int_equal(lab_send(lab, &syn).backend, to);
	assert_int_equal(lab_send(lab, &ack).backend, to);
	lab_wait(lab, 600);
	assert_int_equal(move_question(lab, 1, from).move.stamp, 0); // the flow is no longer listed
	lab_free(lab);
}

// A list contains the shortest waiting time of its flows. The time in the list is at most one tick
// of the table shorter than the real waiting time.
TEST(steal_flow_list_has_the_time_of_waiting) {
	static const uint32_t waits_ms[] = {600, 300, 4700}; // additional waiting time of each step
	struct lab *lab = lab_make();
	uint16_t from = begin(lab, 1);
	uint32_t waited_ms = 0;

	for (size_t i = 0; i < 3; i++) {
		struct weir_message list = list_question(from);
		uint32_t least_ms = UINT32_MAX;

		lab_wait(lab, waits_ms[i]);
		waited_ms += waits_ms[i];
		list.waiting.idle_ms = 100;
		for (uint32_t lines = 1; list.waiting.first < lines;
			list.waiting.first = list.waiting.next) {
			list = respond(lab, list);
			lines = list.waiting.lines;
			if (list.waiting.count > 0) {
				least_ms = list.waiting.waited * WEIR_WAITED_MS;
			}
		}
		if (i == 2) { // the flow has timed out
			assert_int_equal(least_ms, UINT32_MAX);
		} else {
			assert_in_range(least_ms, waited_ms - 100, waited_ms);
		}
	}
	lab_free(lab);
}

static uint64_t errors_of(const struct lab *lab, uint32_t backend) {
	return backend_of(lab, backend)->errors;
}

// If a backend got no packet of a moved flow, no error is counted for the backend when the client
// gives up. The flow is not moved again before the client has sent a packet.
TEST(steal_flow_charges_no_backend_without_a_syn) {
	struct lab *lab = lab_make();
	uint16_t from = begin(lab, 1), to = (uint16_t)((from + 1) % 4);
	struct weir_message move;

	lab_wait(lab, 600);
	move = move_question(lab, 1, to);
	check_move(lab, &move, WEIR_MOVE_MOVED);
	lab_wait(lab, 600);
	assert_int_equal(move_question(lab, 1, from).move.stamp, 0); // the flow is not listed
	lab_wait(lab, 8000);
	assert_int_equal(backend_of(lab, to)->active_flows, 0); // the flow timed out
	assert_int_equal(errors_of(lab, from) + errors_of(lab, to), 0);
	lab_check_counters(lab);
	lab_free(lab);
}

TEST(steal_flow_charges_the_backend_of_the_next_syn) {
	struct lab *lab = lab_make();
	const struct frame_spec syn = lab_tcp(1, SYN);
	uint16_t from = begin(lab, 1), to = (uint16_t)((from + 1) % 4);
	struct weir_message move;

	lab_wait(lab, 600);
	move = move_question(lab, 1, to);
	check_move(lab, &move, WEIR_MOVE_MOVED);
	assert_int_equal(lab_send(lab, &syn).backend, to);
	lab_wait(lab, 600);
	// the flow waits at the new backend now
	assert_int_not_equal(move_question(lab, 1, from).move.stamp, 0);
	lab_wait(lab, 8000);
	assert_int_equal(errors_of(lab, from), 0);
	assert_int_equal(errors_of(lab, to), 1);
	lab_check_counters(lab);
	lab_free(lab);
}

// If the client has sent any packet after the flow was listed, the flow is not moved, because its
// backend may answer that packet.
TEST(steal_flow_refuses_after_any_packet) {
	const uint8_t flags[] = {SYN, ACK, FIN | ACK, RST};

	for (unsigned int i = 0; i < sizeof(flags); i++) {
		struct lab *lab = lab_make();
		const struct frame_spec next = lab_tcp(1, flags[i]), ack = lab_tcp(1, ACK);
		uint16_t from = begin(lab, 1);
		struct weir_message move;

		lab_wait(lab, 600);
		move = move_question(lab, 1, (uint16_t)((from + 1) % 4));
		lab_send(lab, &next);
		check_move(lab, &move, WEIR_MOVE_CHANGED);
		assert_int_equal(lab_send(lab, &ack).backend, from);
		lab_free(lab);
	}
}

TEST(steal_flow_refusals_name_the_reason) {
	struct lab *lab = lab_make();
	uint16_t from = begin(lab, 1), to = (uint16_t)((from + 1) % 4);
	struct weir_message good, bad;

	lab_wait(lab, 600);
	good = move_question(lab, 1, to);
#define REFUSED(field, value, reason) \
	bad = good; \
	bad.move.field = (value); \
	check_move(lab, &bad, WEIR_MOVE_##reason)
	REFUSED(deadline_ns, lab->now_ns, LATE);
	REFUSED(deadline_ns, 0, LATE);
	REFUSED(source_port, 1, GONE);
	REFUSED(destination[1], (uint8_t)~good.move.destination[1], GONE);
	REFUSED(family, 6, GONE);
	REFUSED(family, 5, GONE);
	REFUSED(stamp, good.move.stamp ^ 0x10000, CHANGED); // different time in the stamp
	REFUSED(stamp, good.move.stamp ^ 0x10000000, CHANGED); // different state in the stamp
	// different backend in the stamp
	REFUSED(stamp, (good.move.stamp & ~0xffffu) | to, CHANGED);
	REFUSED(to, from, UNUSABLE);
	REFUSED(to, 4, UNUSABLE); // a backend of another service
	REFUSED(to, 9, UNUSABLE); // no backend has this id
	REFUSED(to, LAB_BACKENDS, UNUSABLE);
	REFUSED(to, WEIR_BACKEND_NONE, UNUSABLE);
	lab->rows[to].flags = WEIR_BACKEND_PRESENT;
	lab_publish_backends(lab);
	check_move(lab, &good, WEIR_MOVE_UNUSABLE); // the backend has no next hop
	lab->rows[to].flags |= WEIR_BACKEND_RESOLVED | WEIR_BACKEND_CLOSED;
	lab_publish_backends(lab);
	check_move(lab, &good, WEIR_MOVE_UNUSABLE);
	lab->rows[to].flags ^= WEIR_BACKEND_CLOSED | WEIR_BACKEND_AT_LIMIT;
	lab_publish_backends(lab);
	check_move(lab, &good, WEIR_MOVE_LIMIT);
	lab->rows[to].flags ^= WEIR_BACKEND_AT_LIMIT;
	lab_publish_backends(lab);
	check_move(lab, &good, WEIR_MOVE_MOVED); // everything else was correct
	lab_free(lab);
#undef REFUSED
}

// In a flood, no flow is moved. A crowded table may evict the entry of the flow, and the Maglev
// fallback would ignore the move.
TEST(steal_flow_moves_no_flow_in_a_flood) {
	struct weir_pipeline_params params = lab_params();
	struct weir_message move;
	struct lab *lab;
	uint16_t from;

	params.flow_table.half_open_percent = 25;
	lab = lab_open(&params);
	lab_publish_default(lab);
	from = begin(lab, 1);
	lab_wait(lab, 600);
	move = move_question(lab, 1, (uint16_t)((from + 1) % 4));
	assert_int_not_equal(move.move.stamp, 0);
	for (uint16_t n = 0; n < 900; n++) { // more than seven eighths of 1000
		begin(lab, (uint16_t)(1000 + n));
	}
	check_move(lab, &move, WEIR_MOVE_LIMIT);
	// The flow must not be listed either. Otherwise the agent would remove the handshake of the
	// flow, although the flow does not move.
	assert_int_equal(move_question(lab, 1, (uint16_t)((from + 1) % 4)).move.stamp, 0);
	lab_free(lab);
}

// The lists contain each waiting flow of both families once. Each list fits into a message, and
// covers a limited number of lines of the table.
TEST(steal_flow_lists_all_in_bounded_parts) {
	struct lab *lab = lab_make();
	struct weir_message list = list_question(0);
	uint32_t found4 = 0, found6 = 0, lines = 1;
	uint8_t seen[2][400] = {{0}};

	for (uint16_t id = 0; id < 4; id++) {
		list.waiting.backend[id] = id;
	}
	for (uint16_t n = 0; n < 200; n++) {
		struct frame_spec syn = lab_tcp(n, SYN);

		lab_send(lab, &syn);
		syn.family = 6;
		lab_send(lab, &syn);
	}
	lab_wait(lab, 600);
	for (; list.waiting.first < lines; list.waiting.first = list.waiting.next) {
		uint8_t count;

		list = respond(lab, list);
		count = list.waiting.count;
		lines = list.waiting.lines;
		assert_int_equal(list.waiting.answered, 1);
		assert_in_range(list.waiting.next - list.waiting.first, 1, WEIR_WAITING_LINES);
		for (uint8_t i = 0; i < count; i++) {
			bool ipv6 = list.waiting.family == 6;
			uint16_t port = ipv6 ? list.waiting.flow6[i].source_port
					     : list.waiting.flow4[i].source_port;

			seen[ipv6][rte_be_to_cpu_16(port) - 1024]++;
			found6 += ipv6;
			found4 += !ipv6;
		}
	}
	assert_int_equal(found4, 200);
	assert_int_equal(found6, 200);
	for (unsigned int n = 0; n < 200; n++) {
		assert_int_equal(seen[0][n], 1);
		assert_int_equal(seen[1][n], 1);
	}
	list = list_question(9);
	list.waiting.last = lines / 2;
	list.waiting.first = lines / 2 - 3;
	assert_int_equal(respond(lab, list).waiting.next, lines / 2);
	list.waiting.first = lines;
	assert_int_equal(respond(lab, list).waiting.next, lines / 2);
	lab_free(lab);
}

TEST(steal_flow_moves_ipv6) {
	struct lab *lab = lab_make();
	struct frame_spec syn = lab_tcp(1, SYN);
	struct weir_message list = list_question(0),
			    move = {.sequence = 7, .kind = WEIR_MESSAGE_FLOW_MOVE};
	uint16_t from;

	syn.family = 6;
	from = lab_send(lab, &syn).backend;
	list.waiting.backend[2] = from;
	lab_wait(lab, 600);
	do {
		list = respond(lab, list);
		list.waiting.first = list.waiting.next;
	} while (list.waiting.count == 0 && list.waiting.first < list.waiting.lines);
	assert_int_equal(list.waiting.count, 1);
	assert_int_equal(list.waiting.family, 6);
	move.move.family = 6;
	memcpy(move.move.source, list.waiting.flow6[0].source, 16);
	memcpy(move.move.destination, list.waiting.flow6[0].destination, 16);
	move.move.source_port = list.waiting.flow6[0].source_port;
	move.move.destination_port = list.waiting.flow6[0].destination_port;
	move.move.stamp = list.waiting.flow6[0].stamp;
	move.move.to = (uint16_t)((from + 1) % 4);
	move.move.deadline_ns = UINT64_MAX;
	check_move(lab, &move, WEIR_MOVE_MOVED);
	assert_int_equal(lab_send(lab, &syn).backend, move.move.to);
	lab_free(lab);
}

// A hostile control process sends requests that are almost valid, and random bytes.
TEST(steal_flow_survives_any_request) {
	struct lab *lab = lab_make();
	uint64_t random = 99;
	uint32_t moved = 0;

	for (unsigned int i = 0; i < 20000; i++) {
		uint16_t n = (uint16_t)(i % 50);
		bool lists = frame_random(&random) % 2 == 0;
		struct weir_message message;

		if (i % 200 == 0) {
			for (uint16_t k = 0; k < 50; k++) {
				begin(lab, k);
			}
			lab_wait(lab, 600);
		}
		message = lists ? list_question(n % 4)
				: move_question(lab, n, (uint16_t)(frame_random(&random) % 5));
		for (uint64_t k = frame_random(&random) % 4; k > 0; k--) {
			message.bytes[frame_random(&random) % sizeof(message.bytes)] =
				(uint8_t)frame_random(&random);
		}
		message = respond(lab, message);
		if (lists) {
			assert_true(message.waiting.count <= WEIR_WAITING_FLOWS4);
			assert_true(message.waiting.next <= message.waiting.lines);
		} else {
			assert_true(message.move.answer < WEIR_MOVE_ANSWER_COUNT);
			moved += message.move.answer == WEIR_MOVE_MOVED;
		}
	}
	assert_true(moved > 100);
	lab_check_counters(lab);
	lab_free(lab);
}
