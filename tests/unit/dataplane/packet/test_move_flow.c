// SPDX-License-Identifier: BSD-3-Clause
//
// Move flow: flows whose backend is down or takes no new flows, within a burst and while the tables
// change. tests/packets checks what a client observes.
#include <stdlib.h>
#include <string.h>

#include "frames.h"
#include "pipeline_lab.h"
#include "test.h"

#define FIN 0x01
#define SYN 0x02
#define RST 0x04
#define ACK 0x10

#define CLOSED WEIR_BACKEND_CLOSED
#define DOWN (WEIR_BACKEND_CLOSED | WEIR_BACKEND_DOWN)

static struct frame_spec udp(uint16_t n) {
	return (struct frame_spec){.family = 4,
		.protocol = 17,
		.source_port = (uint16_t)(1024 + n),
		.destination_port = 53};
}

static const struct weir_share_counters *backend_of(const struct lab *lab, uint32_t backend) {
	return weir_segment_backend_counters(lab->segment, lab->params.worker, backend);
}

static const struct weir_share_counters *service_of(const struct lab *lab, uint32_t service) {
	return weir_segment_service_counters(lab->segment, lab->params.worker, service);
}

static void flag(struct lab *lab, uint16_t backend, uint8_t flags) {
	lab->rows[backend].flags |= flags;
	lab_publish_backends(lab);
}

// Publish the selection of service 0 (backends 0 to 3) or 1 (4 and 5) without one of its backends.
static void leave_out(struct lab *lab, uint16_t service, uint16_t backend) {
	uint16_t first = service == 0 ? 0 : 4, end = service == 0 ? 4 : 6;
	uint16_t rest[4];
	uint32_t n = 0;

	for (uint16_t id = first; id < end; id++) {
		if (id != backend) {
			rest[n++] = id;
		}
	}
	lab_publish_selection(lab, service, rest, n);
}

static void send_burst(struct lab *lab, const struct frame_spec *specs, unsigned int n,
	struct weir_verdict *verdicts) {
	struct rte_mbuf *pkts[WEIR_BURST];
	struct frame f;

	for (unsigned int i = 0; i < n; i++) {
		frame_build(&specs[i], &f);
		pkts[i] = frame_mbuf(f.bytes, f.n, 128);
	}
	weir_pipeline_settle(lab->pipeline);
	weir_pipeline_process(lab->pipeline, pkts, (uint16_t)n, LAB_IN_PORT, lab->now_ns, verdicts);
	weir_pipeline_maintain(lab->pipeline, lab->now_ns);
	for (unsigned int i = 0; i < n; i++) {
		frame_mbuf_free(pkts[i]);
	}
}

static void check(const struct weir_verdict *verdict, uint16_t backend, enum weir_choice choice) {
	assert_string_equal(weir_action_name((enum weir_action)verdict->action), "forward");
	assert_string_equal(
		weir_choice_name((enum weir_choice)verdict->choice), weir_choice_name(choice));
	assert_int_equal(verdict->backend, backend);
}

TEST_GROUP(lab_eal);

// A SYN that arrives several times in a burst moves its flow once.
TEST(move_flow_burst_of_syns_moves_once) {
	struct lab *lab = lab_make();
	const struct frame_spec spec = lab_tcp(1, SYN);
	struct frame_spec specs[8];
	struct weir_verdict verdicts[8];
	uint16_t old = lab_send(lab, &spec).backend;

	flag(lab, old, CLOSED);
	leave_out(lab, 0, old);
	for (unsigned int i = 0; i < 8; i++) {
		specs[i] = spec;
	}
	send_burst(lab, specs, 8, verdicts);
	assert_int_not_equal(verdicts[0].backend, old);
	for (unsigned int i = 0; i < 8; i++) {
		assert_int_equal(verdicts[i].backend, verdicts[0].backend);
	}
	assert_int_equal(backend_of(lab, old)->rehashed, 1);
	assert_int_equal(backend_of(lab, old)->active_flows, 0);
	assert_int_equal(backend_of(lab, verdicts[0].backend)->active_flows, 1);
	lab_check_counters(lab);
	lab_free(lab);
}

// The packets of a burst are processed in order: a SYN moves the flow, an RST after the SYN ends
// the flow at its new backend, and the next SYN starts another flow. This is also tested with
// packets of the slow path.
TEST(move_flow_syns_move_in_order) {
	for (uint8_t tags = 0; tags < 2; tags++) {
		struct lab *lab = lab_make();
		struct frame_spec specs[3] = {lab_tcp(1, SYN), lab_tcp(1, RST), lab_tcp(1, SYN)};
		struct weir_verdict verdicts[3];
		uint16_t old = lab_send(lab, &specs[0]).backend, new;

		for (unsigned int i = 0; i < 3; i++) {
			specs[i].tags = tags;
		}
		flag(lab, old, DOWN);
		leave_out(lab, 0, old);
		send_burst(lab, specs, 3, verdicts);
		new = verdicts[0].backend;
		assert_int_not_equal(new, old);
		check(&verdicts[0], new, WEIR_CHOICE_REPLACED);
		check(&verdicts[1], new, WEIR_CHOICE_FLOW);
		check(&verdicts[2], new, WEIR_CHOICE_NEW);
		assert_int_equal(backend_of(lab, old)->rehashed, 1);
		assert_int_equal(backend_of(lab, new)->new_flows, 2);
		assert_int_equal(backend_of(lab, old)->packets, 1);
		lab_check_counters(lab);
		lab_free(lab);
	}
}

// In a flood of SYNs, the table entry of a moved flow is evicted like any other entry. The flow's
// ACK must still go to the same backend as its SYN.
TEST(move_flow_in_a_flood_goes_to_the_backend_of_its_ack) {
	struct weir_selection_params params =
		weir_selection_defaults(0, WEIR_POLICY_ROUND_ROBIN, LAB_SLOTS);
	struct weir_pipeline_params pipeline = lab_params();
	uint16_t moved[100], to[100];
	unsigned int count = 0;
	struct lab *lab;

	pipeline.flow_table.half_open_percent = 25;
	lab = lab_open(&pipeline);
	lab_publish_default(lab);
	lab_publish_policy(lab, &params, (uint16_t[]){0, 1, 2, 3}, 4);
	for (uint16_t n = 0; n < 100; n++) {
		const struct frame_spec syn = lab_tcp(n, SYN);

		if (lab_send(lab, &syn).backend == 0) {
			moved[count++] = n;
		}
	}
	// the table is crowded, but no flow is evicted yet
	for (uint16_t n = 0; n < 1000 * 7 / 8; n++) {
		const struct frame_spec syn = lab_tcp((uint16_t)(1000 + n), SYN);

		lab_send(lab, &syn);
	}
	assert_int_equal(lab_counters(lab)->flow_half_open_evicted, 0);
	flag(lab, 0, DOWN);
	lab_publish_policy(lab, &params, (uint16_t[]){1, 2, 3}, 3);
	for (unsigned int i = 0; i < count; i++) {
		const struct frame_spec syn = lab_tcp(moved[i], SYN);

		to[i] = lab_send(lab, &syn).backend;
		assert_int_not_equal(to[i], 0);
	}
	for (uint16_t n = 0; n < 20000; n++) {
		const struct frame_spec syn = lab_tcp((uint16_t)(10000 + n), SYN);

		lab_send(lab, &syn);
	}
	for (unsigned int i = 0; i < count; i++) {
		const struct frame_spec ack = lab_tcp(moved[i], ACK);

		assert_int_equal(lab_send(lab, &ack).backend, to[i]);
	}
	assert_in_range(count, 20, 30);
	lab_check_counters(lab);
	lab_free(lab);
}

// A burst of datagrams moves its flow once. All datagrams go to the new backend.
TEST(move_flow_burst_of_datagrams_moves_once) {
	struct lab *lab = lab_make();
	const struct frame_spec spec = udp(1);
	struct frame_spec specs[8];
	struct weir_verdict verdicts[8];
	uint16_t old = lab_send(lab, &spec).backend, new = (uint16_t)(9 - old);

	flag(lab, old, DOWN);
	leave_out(lab, 1, old);
	for (unsigned int i = 0; i < 8; i++) {
		specs[i] = spec;
	}
	send_burst(lab, specs, 8, verdicts);
	for (unsigned int i = 0; i < 8; i++) {
		check(&verdicts[i], new, WEIR_CHOICE_REPLACED);
		assert_int_equal(verdicts[i].service, 1);
	}
	assert_int_equal(backend_of(lab, old)->rehashed, 1);
	assert_int_equal(service_of(lab, 1)->rehashed, 1);
	assert_int_equal(backend_of(lab, new)->rehashed, 0);
	assert_int_equal(backend_of(lab, old)->active_flows, 0);
	assert_int_equal(backend_of(lab, old)->open_flows, 0);
	assert_int_equal(backend_of(lab, new)->active_flows, 1);
	assert_int_equal(backend_of(lab, new)->new_flows, 1);
	assert_int_equal(backend_of(lab, old)->errors, 0);
	// The old backend is usable again. The flow must stay at the new backend.
	lab->rows[old].flags &= (uint8_t)~DOWN;
	lab_publish_backends(lab);
	lab_publish_selection(lab, 1, (uint16_t[]){4, 5}, 2);
	send_burst(lab, specs, 1, verdicts);
	check(&verdicts[0], new, WEIR_CHOICE_FLOW);
	lab_check_counters(lab);
	lab_free(lab);
}

// The row of a backend already has the flag DOWN, but an older selection still contains the
// backend. The first datagram of a flow goes to another backend, where the flow is half-open like
// any other flow.
TEST(move_flow_first_datagram_skips_a_backend_that_is_down) {
	struct weir_selection_params params =
		weir_selection_defaults(1, WEIR_POLICY_ROUND_ROBIN, LAB_SLOTS);
	struct lab *lab = lab_make();

	lab_publish_policy(lab, &params, (uint16_t[]){4, 5}, 2);
	flag(lab, 4, DOWN);
	for (uint16_t n = 0; n < 8; n++) {
		const struct frame_spec spec = udp(n);
		struct weir_verdict verdict = lab_send(lab, &spec);

		check(&verdict, 5, WEIR_CHOICE_NEW);
		assert_int_equal(lab_counters(lab)->flows_half_open, n + 1);
	}
	for (uint16_t n = 0; n < 8; n++) {
		const struct frame_spec spec = udp(n);

		lab_send(lab, &spec);
		assert_int_equal(lab_counters(lab)->flows_half_open, 7 - n);
	}
	lab_check_counters(lab);
	lab_free(lab);
}

// Rows are published before selections. While the selection still contains the backend that is
// down, no flow moves to another backend.
TEST(move_flow_older_selection_moves_nothing) {
	struct lab *lab = lab_make();
	const struct frame_spec specs[] = {udp(1), lab_tcp(1, SYN)};

	for (unsigned int i = 0; i < 2; i++) {
		uint16_t service = i == 0 ? 1 : 0;
		uint16_t old = lab_send(lab, &specs[i]).backend;
		struct weir_verdict verdict;

		flag(lab, old, DOWN);
		lab_publish_selection(lab, service, &old, 1);
		verdict = lab_send(lab, &specs[i]);
		check(&verdict, old, WEIR_CHOICE_FLOW);
		assert_int_equal(verdict.service, service);
		lab_publish_selection(lab, service, NULL, 0);
		verdict = lab_send(lab, &specs[i]);
		check(&verdict, old, WEIR_CHOICE_FLOW);
		assert_int_equal(service_of(lab, service)->rehashed, 0);
		leave_out(lab, service, old);
		verdict = lab_send(lab, &specs[i]);
		assert_int_equal(verdict.choice, WEIR_CHOICE_REPLACED);
		assert_int_not_equal(verdict.backend, old);
		assert_int_equal(service_of(lab, service)->rehashed, 1);
	}
	lab_check_counters(lab);
	lab_free(lab);
}

// If a SYN moves its flow, the packets after the SYN go to the new backend. The packets before the
// SYN go to the old backend.
TEST(move_flow_syn_moves_later_packets_with_it) {
	struct lab *lab = lab_make();
	struct frame_spec specs[5] = {lab_tcp(1, ACK), lab_tcp(1, SYN), lab_tcp(1, ACK),
		lab_tcp(2, ACK), lab_tcp(1, ACK)};
	struct weir_verdict verdicts[5];
	uint16_t old, other, new;

	specs[4].tags = 1; // a packet of the slow path
	old = lab_send(lab, &specs[1]).backend;
	lab_send(lab, &specs[0]);
	other = lab_send(lab, &specs[3]).backend;
	lab_send(lab, &specs[3]);
	flag(lab, old, DOWN);
	leave_out(lab, 0, old);
	send_burst(lab, specs, 5, verdicts);
	new = verdicts[1].backend;
	assert_int_not_equal(new, old);
	check(&verdicts[0], old, WEIR_CHOICE_FLOW);
	check(&verdicts[1], new, WEIR_CHOICE_REPLACED);
	check(&verdicts[2], new, WEIR_CHOICE_FLOW);
	check(&verdicts[3], other, WEIR_CHOICE_FLOW);
	check(&verdicts[4], new, WEIR_CHOICE_FLOW);
	assert_int_equal(backend_of(lab, old)->rehashed, 1);
	assert_int_equal(backend_of(lab, old)->active_flows, other == old ? 1 : 0);
	lab_check_counters(lab);
	lab_free(lab);
}

// If a backend takes no new flows, its half-open flows move to another backend, and its established
// flows stay.
TEST(move_flow_closed_backend_keeps_established_flows) {
	struct lab *lab = lab_make();
	const struct frame_spec syn = lab_tcp(1, SYN), ack = lab_tcp(1, ACK);
	uint16_t old = lab_send(lab, &syn).backend, new;
	struct weir_verdict verdict;

	flag(lab, old, CLOSED);
	leave_out(lab, 0, old);
	verdict = lab_send(lab, &syn);
	new = verdict.backend;
	check(&verdict, new, WEIR_CHOICE_REPLACED);
	assert_int_not_equal(new, old);
	verdict = lab_send(lab, &syn);
	check(&verdict, new, WEIR_CHOICE_FLOW);
	lab_send(lab, &ack);
	flag(lab, new, CLOSED);
	lab_publish_selection(lab, 0, (uint16_t[]){(uint16_t)(old == 0 || new == 0 ? 3 : 0)}, 1);
	verdict = lab_send(lab, &syn); // the client is challenged, whether the SYN is forged or not
	assert_int_equal(verdict.action, WEIR_ACTION_REPLY);
	assert_int_equal(verdict.backend, new);
	verdict = lab_send(lab, &ack);
	check(&verdict, new, WEIR_CHOICE_FLOW);
	lab_check_counters(lab);
	lab_free(lab);
}

// Start a flow, and close its backend. Returns the backend. If the flow is not established, only a
// SYN and an ACK have arrived.
static uint16_t make_closed(struct lab *lab, uint16_t n, bool established) {
	const struct frame_spec syn = lab_tcp(n, SYN), ack = lab_tcp(n, ACK);
	uint16_t backend = lab_send(lab, &syn).backend;

	lab_send(lab, &ack);
	if (established) {
		lab_send(lab, &ack);
	}
	flag(lab, backend, CLOSED);
	return backend;
}

// If the client did send the SYN, it answers the challenge with an RST. Its next SYN starts a flow
// at another backend.
TEST(move_flow_reused_port_leaves_a_closed_backend) {
	for (unsigned int i = 0; i < 4; i++) {
		struct lab *lab = lab_make();
		struct frame_spec syn = lab_tcp(1, SYN), rst = lab_tcp(1, RST);
		uint16_t old = make_closed(lab, 1, i % 2 != 0);
		struct weir_verdict verdict;

		syn.tags = (uint8_t)(i / 2); // a packet of the slow path
		verdict = lab_send(lab, &syn);
		assert_int_equal(verdict.action, WEIR_ACTION_REPLY);
		assert_int_equal(verdict.reason, WEIR_REASON_NONE);
		assert_int_equal(verdict.port, LAB_IN_PORT);
		assert_int_equal(verdict.backend, old);
		assert_int_equal(verdict.service, 0);
		assert_int_equal(lab_counters(lab)->replied, 1);
		verdict = lab_send(lab, &rst);
		check(&verdict, old, WEIR_CHOICE_FLOW);
		assert_int_equal(backend_of(lab, old)->open_flows, 0);
		verdict = lab_send(lab, &syn);
		check(&verdict, verdict.backend, WEIR_CHOICE_NEW);
		assert_int_not_equal(verdict.backend, old);
		assert_int_equal(backend_of(lab, old)->active_flows, 0);
		lab_check_counters(lab);
		lab_free(lab);
	}
}

// A firewall may drop a challenge. Therefore, after a challenge, further SYNs go to the flow's
// backend until the client sends another packet. After that packet, a SYN is challenged again.
TEST(move_flow_challenges_once_until_an_answer) {
	struct lab *lab = lab_make();
	const struct frame_spec syn = lab_tcp(1, SYN);
	uint16_t old = make_closed(lab, 1, true);
	struct weir_verdict verdict;

	for (unsigned int i = 0; i < 3; i++) {
		static const uint8_t answers[] = {ACK, ACK | 0x08, ACK};
		struct frame_spec answer = lab_tcp(1, answers[i]);

		answer.payload = i == 1 ? 10 : 0;
		assert_int_equal(lab_send(lab, &syn).action, WEIR_ACTION_REPLY);
		for (unsigned int again = 0; again < 2; again++) {
			verdict = lab_send(lab, &syn);
			check(&verdict, old, WEIR_CHOICE_FLOW);
		}
		verdict = lab_send(lab, &answer);
		check(&verdict, old, WEIR_CHOICE_FLOW);
		assert_int_equal(backend_of(lab, old)->open_flows, 1);
	}
	assert_int_equal(lab_counters(lab)->flows_half_open, 0);
	assert_int_equal(backend_of(lab, old)->rehashed, 0);
	lab_check_counters(lab);
	lab_free(lab);
}

// The challenge restarts the timeout of a flow. Without an answer, the flow times out like an
// established flow. After a FIN, it times out like any closing flow.
TEST(move_flow_challenged_flow_ends_as_an_established_one) {
	for (unsigned int with_fin = 0; with_fin < 2; with_fin++) {
		struct lab *lab = lab_make();
		const uint32_t *timeout_ms = lab->params.flow_table.timeout_ms;
		const struct frame_spec syn = lab_tcp(1, SYN), fin = lab_tcp(1, FIN | ACK);
		uint16_t old = make_closed(lab, 1, false);

		assert_int_equal(lab_send(lab, &syn).action, WEIR_ACTION_REPLY);
		if (with_fin) {
			lab_send(lab, &fin);
			assert_int_equal(backend_of(lab, old)->open_flows, 0);
		}
		lab_wait(lab, (with_fin ? timeout_ms[WEIR_FLOW_CLOSING]
					: timeout_ms[WEIR_FLOW_ESTABLISHED]) -
				      100);
		assert_int_equal(backend_of(lab, old)->active_flows, 1);
		lab_wait(lab, 2000);
		assert_int_equal(backend_of(lab, old)->active_flows, 0);
		assert_int_equal(backend_of(lab, old)->errors, 0);
		assert_int_equal(backend_of(lab, old)->completed, with_fin);
		assert_int_equal(backend_of(lab, old)->timed_out, 1 - with_fin);
		lab_check_counters(lab);
		lab_free(lab);
	}
}

// A SYN is not challenged if no other backend takes new flows, if its checksum is wrong, if its
// source MAC address is multicast, or if the rate limit is reached. Such a SYN goes to the flow's
// backend. A later SYN is challenged as soon as none of these conditions is true.
TEST(move_flow_unanswered_syn_goes_to_its_backend) {
	struct weir_pipeline_params params = lab_params();
	const struct frame_spec syn = lab_tcp(1, SYN);
	const struct frame_spec other = lab_tcp(2, SYN), ack = lab_tcp(2, ACK);
	struct weir_verdict verdict;
	struct lab *lab;
	uint16_t old;

	params.resets_per_second = 1;
	lab = lab_open(&params);
	lab_publish_default(lab);
	lab_publish_selection(lab, 0, &(uint16_t){0}, 1);
	lab_send(lab, &other);
	lab_send(lab, &ack);
	old = make_closed(lab, 1, true);
	verdict = lab_send(lab, &syn); // no other backend takes new flows
	check(&verdict, old, WEIR_CHOICE_FLOW);
	leave_out(lab, 0, old);
	for (unsigned int i = 0; i < 2; i++) {
		struct frame f;
		struct rte_mbuf *m;

		frame_build(&syn, &f);
		// a wrong checksum, or a multicast source MAC address
		f.bytes[i == 0 ? f.l3 + 20 + 16 : 6] ^= 1;
		m = frame_mbuf(f.bytes, f.n, 128);
		verdict = lab_process(lab, m);
		check(&verdict, old, WEIR_CHOICE_FLOW);
		frame_mbuf_free(m);
	}
	assert_int_equal(lab_send(lab, &syn).action, WEIR_ACTION_REPLY);
	verdict = lab_send(lab, &other); // the limit is one challenge per second
	check(&verdict, old, WEIR_CHOICE_FLOW);
	lab->now_ns += 1000000000;
	assert_int_equal(lab_send(lab, &other).action, WEIR_ACTION_REPLY);
	assert_int_equal(lab_counters(lab)->replied, 2);
	lab_check_counters(lab);
	lab_free(lab);
}

// Only the first SYN of the flow is challenged; the other packets of the burst go to the backend.
TEST(move_flow_challenge_affects_no_other_packet) {
	struct lab *lab = lab_make();
	uint16_t old = make_closed(lab, 1, true);
	struct frame_spec specs[6] = {lab_tcp(1, ACK), lab_tcp(1, SYN), lab_tcp(1, SYN),
		lab_tcp(1, ACK), lab_tcp(1, SYN), lab_tcp(3, SYN)};
	struct weir_verdict verdicts[6];

	specs[2].tags = 1; // packets of the slow path
	specs[4].tags = 1;
	send_burst(lab, specs, 6, verdicts);
	for (unsigned int i = 0; i < 5; i++) {
		bool answered = i == 1;

		assert_int_equal(
			verdicts[i].action, answered ? WEIR_ACTION_REPLY : WEIR_ACTION_FORWARD);
		assert_int_equal(verdicts[i].backend, old);
	}
	assert_int_equal(verdicts[5].choice, WEIR_CHOICE_NEW);
	assert_int_not_equal(verdicts[5].backend, old);
	assert_int_equal(lab_counters(lab)->replied, 1);
	lab_check_counters(lab);
	lab_free(lab);
}

// TCP flows of a backend that is down stay at that backend. ICMP errors about these flows also go
// to that backend.
TEST(move_flow_down_backend_keeps_tcp_flows) {
	struct lab *lab = lab_make();
	const struct frame_spec syn = lab_tcp(1, SYN);
	uint16_t old = lab_send(lab, &syn).backend;

	flag(lab, old, DOWN);
	leave_out(lab, 0, old);
	for (unsigned int i = 0; i < 3; i++) {
		static const uint8_t flags[] = {ACK, FIN | ACK, RST};
		struct frame_spec spec = lab_tcp(1, flags[i]);
		struct weir_verdict verdict = lab_send(lab, &spec);

		check(&verdict, old, WEIR_CHOICE_FLOW);
		assert_int_equal(verdict.service, 0);
		assert_int_equal(verdict.port, 2);
	}
	assert_int_equal(backend_of(lab, old)->rehashed, 0);
	assert_int_equal(backend_of(lab, old)->packets, 4);
	lab_check_counters(lab);
	lab_free(lab);
}

// Several packets of an established flow in a burst move the flow only once. An RST from the client
// goes to the old backend.
TEST(move_flow_rehash_moves_once) {
	struct lab *lab = lab_make();
	struct frame_spec specs[6] = {lab_tcp(1, RST), lab_tcp(1, ACK), lab_tcp(1, ACK),
		lab_tcp(1, FIN | ACK), lab_tcp(1, ACK), lab_tcp(1, ACK)};
	const struct frame_spec syn = lab_tcp(1, SYN);
	struct weir_verdict verdicts[6];
	uint16_t old, new;

	specs[4].tags = 2; // a packet of the slow path
	old = lab_send(lab, &syn).backend;
	lab_send(lab, &specs[1]);
	flag(lab, old, DOWN | WEIR_BACKEND_REHASH);
	leave_out(lab, 0, old);
	send_burst(lab, specs, 6, verdicts);
	new = verdicts[1].backend;
	assert_int_not_equal(new, old);
	check(&verdicts[0], old, WEIR_CHOICE_FLOW);
	for (unsigned int i = 1; i < 6; i++) {
		check(&verdicts[i], new, WEIR_CHOICE_REPLACED);
		assert_int_equal(verdicts[i].service, 0);
	}
	assert_int_equal(backend_of(lab, old)->rehashed, 1);
	assert_int_equal(backend_of(lab, old)->active_flows, 0);
	assert_int_equal(backend_of(lab, new)->active_flows, 1);
	assert_int_equal(lab_counters(lab)->flows_half_open, 1);
	// The new backend replies to the client with an RST, which the worker does not see. So the
	// flow times out, and no error is counted for either backend.
	lab_wait(lab, 6000);
	assert_int_equal(backend_of(lab, new)->active_flows, 0);
	assert_int_equal(backend_of(lab, new)->errors, 0);
	assert_int_equal(backend_of(lab, old)->errors, 0);
	lab_check_counters(lab);
	lab_free(lab);
}

// A burst has several packets of an established flow. The flow ends once, and each of the packets
// is answered with an RST. If the burst contains a SYN, the SYN starts a flow at another backend,
// and all packets of the burst belong to that flow.
TEST(move_flow_reset_ends_once) {
	for (unsigned int with_syn = 0; with_syn < 2; with_syn++) {
		struct lab *lab = lab_make();
		struct frame_spec specs[4] = {
			lab_tcp(1, ACK), lab_tcp(1, ACK), lab_tcp(1, SYN), lab_tcp(1, FIN | ACK)};
		struct weir_verdict verdicts[4];
		uint16_t old = lab_send(lab, &specs[2]).backend;

		lab_send(lab, &specs[0]);
		flag(lab, old, DOWN | WEIR_BACKEND_RESET);
		leave_out(lab, 0, old);
		if (with_syn == 0) {
			specs[2] = specs[1];
		}
		send_burst(lab, specs, 4, verdicts);
		for (unsigned int i = 0; i < 4; i++) {
			if (with_syn == 0) {
				assert_int_equal(verdicts[i].action, WEIR_ACTION_REPLY);
				assert_int_equal(verdicts[i].reason, WEIR_DROP_BACKEND_DOWN);
				assert_int_equal(verdicts[i].port, LAB_IN_PORT);
				assert_int_equal(verdicts[i].backend, old);
				assert_int_equal(verdicts[i].service, 0);
			} else {
				assert_int_equal(verdicts[i].action, WEIR_ACTION_FORWARD);
				assert_int_equal(verdicts[i].backend, verdicts[2].backend);
				assert_int_not_equal(verdicts[i].backend, old);
			}
		}
		assert_int_equal(backend_of(lab, old)->reset, with_syn == 0 ? 1 : 0);
		assert_int_equal(service_of(lab, 0)->reset, with_syn == 0 ? 1 : 0);
		assert_int_equal(backend_of(lab, old)->active_flows, 0);
		assert_int_equal(backend_of(lab, old)->open_flows, 0);
		assert_int_equal(lab_counters(lab)->flows, with_syn);
		assert_int_equal(
			lab_counters(lab)->drops[WEIR_DROP_BACKEND_DOWN], with_syn == 0 ? 4 : 0);
		assert_int_equal(lab_counters(lab)->replied, 0);
		lab_check_counters(lab);
		lab_free(lab);
	}
}

// If the rate limit permits no RST, the flow stays in the table, and a later packet is answered
// with the RST. A packet that is answered with an RST counts as dropped. If the RST cannot be sent,
// the packet is not counted again.
TEST(move_flow_reset_waits_for_a_token) {
	struct weir_pipeline_params params = lab_params();
	const struct frame_spec last = lab_tcp(2, ACK);
	const struct weir_worker_counters *counters;
	struct weir_verdict verdict;
	struct rte_mbuf *m;
	struct lab *lab;
	struct frame f;

	params.resets_per_second = 1;
	lab = lab_open(&params);
	lab_publish_default(lab);
	counters = lab_counters(lab);
	for (uint16_t n = 1; n <= 2; n++) {
		struct frame_spec ack = lab_tcp(n, ACK);

		lab_publish_selection(lab, 0, &(uint16_t){0}, 1);
		lab_send(lab, &ack);
		lab_send(lab, &ack);
	}
	flag(lab, 0, DOWN | WEIR_BACKEND_RESET);
	leave_out(lab, 0, 0);
	for (uint16_t n = 1; n <= 2; n++) {
		struct frame_spec ack = lab_tcp(n, ACK);

		verdict = lab_send(lab, &ack);
		assert_int_equal(verdict.action, n == 1 ? WEIR_ACTION_REPLY : WEIR_ACTION_DROP);
		assert_int_equal(
			verdict.reason, n == 1 ? WEIR_DROP_BACKEND_DOWN : WEIR_DROP_RESET_RATE);
		assert_int_equal(counters->flows, 1);
	}
	lab->now_ns += 1000000000;
	frame_build(&last, &f);
	m = frame_mbuf(f.bytes, f.n, 128);
	verdict = lab_process(lab, m);
	assert_int_equal(verdict.action, WEIR_ACTION_REPLY);
	weir_pipeline_undelivered(lab->pipeline, m, &verdict, WEIR_DROP_TX_FULL);
	frame_mbuf_free(m);
	weir_pipeline_maintain(lab->pipeline, lab->now_ns);
	assert_int_equal(counters->flows, 0);
	assert_int_equal(counters->drops[WEIR_DROP_BACKEND_DOWN], 2);
	assert_int_equal(counters->drops[WEIR_DROP_RESET_RATE], 1);
	assert_int_equal(backend_of(lab, 0)->reset, 2);
	lab_check_counters(lab);
	lab_free(lab);
}

// The backend was removed together with its service. No other backend exists, so the flows stay.
TEST(move_flow_removed_service_keeps_flows) {
	struct lab *lab = lab_make();
	const struct frame_spec specs[] = {udp(1), lab_tcp(1, SYN)};
	struct weir_verdict before[2], verdict;

	for (unsigned int i = 0; i < 2; i++) {
		before[i] = lab_send(lab, &specs[i]);
		flag(lab, before[i].backend, DOWN);
	}
	assert_int_equal(weir_writer_publish(
				 lab->writer, (struct weir_root){.kind = WEIR_BLOB_SERVICES}, NULL),
		0);
	for (unsigned int i = 0; i < 2; i++) {
		verdict = lab_send(lab, &specs[i]);
		check(&verdict, before[i].backend, WEIR_CHOICE_FLOW);
	}
	lab_check_counters(lab);
	lab_free(lab);
}
