// SPDX-License-Identifier: BSD-3-Clause
//
// Pipeline: flows and their backends, with real shared memory (a weir_segment).
#include "pipeline.h"

#include "edges.h"
#include "flow_query.h"
#include "frames.h"
#include "new_flow_lab.h"
#include "test.h"

#define SYN_ACK 0x12

static void check(const struct weir_verdict *verdict, enum weir_action action,
	enum weir_choice choice, unsigned int backend) {
	assert_string_equal(
		weir_action_name((enum weir_action)verdict->action), weir_action_name(action));
	assert_string_equal(
		weir_choice_name((enum weir_choice)verdict->choice), weir_choice_name(choice));
	assert_int_equal(verdict->backend, backend);
}

// Returns the backend that the Maglev fallback chooses for flow n of lab_tcp.
static uint16_t chosen(struct lab *lab, uint16_t n) {
	struct weir_message message = lab_question(n);

	weir_flow_query_respond(lab->pipeline, &message, lab->now_ns);
	return message.flow.chosen;
}

// --- flows ----------------------------------------------------------------------------------

TEST_GROUP(lab_eal);

TEST(pipeline_new_flow_goes_to_the_choice_of_maglev) {
	struct lab *lab = lab_make();
	unsigned int seen = 0;

	for (uint16_t n = 0; n < 200; n++) {
		uint16_t backend = chosen(lab, n);
		struct weir_verdict verdict = send_tcp(lab, n, SYN);

		check(&verdict, WEIR_ACTION_FORWARD, WEIR_CHOICE_NEW, backend);
		assert_int_equal(verdict.service, 0);
		assert_int_equal(verdict.port, 2);
		assert_int_equal(verdict.reason, WEIR_REASON_NONE);
		seen |= 1u << backend;
		verdict = send_tcp(lab, n, ACK);
		check(&verdict, WEIR_ACTION_FORWARD, WEIR_CHOICE_FLOW, backend);
	}
	assert_int_equal(seen, 0xf); // all four backends of the service
	assert_int_equal(lab_counters(lab)->flow_new, 200);
	assert_int_equal(lab_counters(lab)->flow_hits, 200);
	assert_int_equal(lab_counters(lab)->flows, 200);
	lab_check_counters(lab);
	lab_free(lab);
}

// A sent packet has the header of the chosen backend, for all combinations of address families.
TEST(pipeline_forwards_to_the_chosen_backend) {
	struct lab *lab = lab_make();

	for (uint16_t n = 0; n < 120; n++) {
		struct frame_spec spec = lab_tcp(n, SYN);
		const struct weir_backend_row *row;
		struct weir_verdict verdict;
		struct rte_mbuf *m;
		struct frame f;
		uint8_t *p;

		spec.family = n % 3 == 0 ? 6 : 4;
		spec.protocol = n % 2 == 0 ? 6 : 17;
		spec.destination_port = spec.protocol == 6 ? 80 : 53;
		spec.tags = (uint8_t)(n % 3);
		frame_build(&spec, &f);
		m = frame_mbuf(f.bytes, f.n, 128);
		verdict = lab_process(lab, m);
		assert_int_equal(verdict.action, WEIR_ACTION_FORWARD);
		assert_int_equal(verdict.backend >= 4, spec.protocol == 17);
		row = &lab->rows[verdict.backend];
		p = rte_pktmbuf_mtod(m, uint8_t *);
		assert_int_equal(verdict.port, row->port);
		assert_int_equal(m->pkt_len, row->header_bytes + f.ip_bytes);
		assert_memory_equal(p, row->header, row->l2_bytes);
		assert_memory_equal(p + row->header_bytes - (row->outer_family == 6 ? 32 : 8),
			row->header + row->header_bytes - (row->outer_family == 6 ? 32 : 8),
			row->outer_family == 6 ? 32 : 8); // compare the outer addresses
		assert_memory_equal(p + row->header_bytes, f.bytes + f.l3, f.ip_bytes);
		frame_mbuf_free(m);
	}
	lab_check_counters(lab);
	lab_free(lab);
}

TEST(pipeline_s6_flows_stay_when_the_selection_changes) {
	struct lab *lab = lab_make();
	uint16_t backend[100];

	for (uint16_t n = 0; n < 100; n++) {
		backend[n] = send_tcp(lab, n, SYN).backend;
		send_tcp(lab, n, ACK);
	}
	for (unsigned int round = 0; round < 50; round++) {
		uint16_t only = (uint16_t)(round % 4);
		struct weir_verdict fresh;

		lab_publish_selection(lab, 0, &only, 1);
		for (uint16_t n = 0; n < 100; n++) {
			struct weir_verdict verdict = send_tcp(lab, n, ACK);

			check(&verdict, WEIR_ACTION_FORWARD, WEIR_CHOICE_FLOW, backend[n]);
		}
		fresh = send_tcp(lab, (uint16_t)(1000 + round), SYN);
		check(&fresh, WEIR_ACTION_FORWARD, WEIR_CHOICE_NEW, only);
	}
	lab_check_counters(lab);
	lab_free(lab);
}

// A draining backend is in no selection. Its flows continue, even if the selection is empty.
TEST(pipeline_empty_selection_keeps_flows) {
	struct lab *lab = lab_make();
	struct weir_verdict verdict = send_tcp(lab, 1, SYN);
	uint16_t backend = verdict.backend;

	lab_publish_selection(lab, 0, NULL, 0);
	verdict = send_tcp(lab, 1, ACK);
	check(&verdict, WEIR_ACTION_FORWARD, WEIR_CHOICE_FLOW, backend);
	verdict = send_tcp(lab, 2, SYN);
	check(&verdict, WEIR_ACTION_DROP, WEIR_CHOICE_NONE, WEIR_BACKEND_NONE);
	assert_int_equal(verdict.reason, WEIR_DROP_NO_BACKEND);
	assert_int_equal(verdict.service, 0);
	assert_int_equal(service_of(lab, 0)->dropped, 1);
	lab_check_counters(lab);
	lab_free(lab);
}

TEST(pipeline_packet_in_mid_flow_inserts_a_half_open_flow) {
	struct lab *lab = lab_make();
	uint16_t other = 0;
	struct weir_message message = lab_question(5);
	struct weir_verdict verdict = send_tcp(lab, 5, ACK);
	uint16_t backend = verdict.backend;

	check(&verdict, WEIR_ACTION_FORWARD, WEIR_CHOICE_NEW, chosen(lab, 5));
	weir_flow_query_respond(lab->pipeline, &message, lab->now_ns);
	assert_int_equal(message.flow.found, 1);
	assert_int_equal(message.flow.state, WEIR_FLOW_SYN_SEEN); // the packet may be forged
	// From then on the flow stays at its backend like any other flow. The third packet of the
	// flow makes the flow established.
	other = (uint16_t)((backend + 1) % 4);
	lab_publish_selection(lab, 0, &other, 1);
	verdict = send_tcp(lab, 5, ACK);
	check(&verdict, WEIR_ACTION_FORWARD, WEIR_CHOICE_FLOW, backend);
	weir_flow_query_respond(lab->pipeline, &message, lab->now_ns);
	assert_int_equal(message.flow.state, WEIR_FLOW_YOUNG);
	send_tcp(lab, 5, ACK);
	weir_flow_query_respond(lab->pipeline, &message, lab->now_ns);
	assert_int_equal(message.flow.state, WEIR_FLOW_ESTABLISHED);
	lab_check_counters(lab);
	lab_free(lab);
}

// A flood of forged packets, each of a different flow, is limited like a SYN flood.
TEST(pipeline_forged_acks_do_not_fill_the_table) {
	struct weir_pipeline_params params = lab_params();
	struct lab *lab;

	params.flow_table.flows = 1024;
	params.flow_table.half_open_percent = 25;
	lab = lab_open(&params);
	lab_publish_default(lab);
	for (uint16_t n = 0; n < 5000; n++) {
		send_tcp(lab, n, ACK);
	}
	lab_wait(lab, 1);
	assert_in_range(lab_counters(lab)->flows, 128, 256);
	assert_int_equal(lab_counters(lab)->flows, lab_counters(lab)->flows_half_open);
	lab_check_counters(lab);
	lab_free(lab);
}

TEST(pipeline_last_packets_and_syn_ack_insert_nothing) {
	static const uint8_t flags[] = {RST, RST | ACK, FIN_ACK, SYN_ACK};
	struct lab *lab = lab_make();

	for (uint16_t i = 0; i < RTE_DIM(flags); i++) {
		struct weir_verdict verdict = send_tcp(lab, i, flags[i]);

		check(&verdict, WEIR_ACTION_FORWARD, WEIR_CHOICE_UNTRACKED, chosen(lab, i));
	}
	assert_int_equal(lab_counters(lab)->flows, 0);
	assert_int_equal(lab_counters(lab)->flow_new, 0);
	assert_int_equal(lab_counters(lab)->flow_untracked, 0); // the table was not full
	lab_check_counters(lab);
	lab_free(lab);
}

TEST(pipeline_full_table_uses_the_maglev_fallback) {
	struct weir_pipeline_params params = lab_params();
	struct lab *lab;
	unsigned int untracked = 0;

	params.flow_table.flows = 64;
	lab = lab_open(&params);
	lab_publish_default(lab);
	for (uint16_t n = 0; n < 500; n++) {
		struct weir_verdict verdict = send_tcp(lab, n, ACK);

		assert_int_equal(verdict.action, WEIR_ACTION_FORWARD);
		assert_int_equal(verdict.backend, chosen(lab, n));
		untracked += verdict.choice == WEIR_CHOICE_UNTRACKED;
		for (unsigned int k = 0; k < 2 && verdict.choice != WEIR_CHOICE_UNTRACKED; k++) {
			// the second ACK makes the flow established
			verdict = send_tcp(lab, n, ACK);
			check(&verdict, WEIR_ACTION_FORWARD, WEIR_CHOICE_FLOW, chosen(lab, n));
		}
	}
	assert_true(untracked >= 500 - 64);
	assert_int_equal(lab_counters(lab)->flow_untracked, untracked);
	assert_int_equal(lab_counters(lab)->flows, 500 - untracked);
	assert_int_equal(lab_counters(lab)->forwarded, 3 * 500 - 2 * untracked);
	lab_check_counters(lab);
	lab_free(lab);
}

TEST(pipeline_reused_port_is_a_new_flow) {
	struct lab *lab = lab_make();
	struct weir_verdict verdict = send_tcp(lab, 1, SYN);
	uint16_t old = verdict.backend;
	uint16_t other = (uint16_t)((old + 1) % 4);

	send_tcp(lab, 1, ACK);
	send_tcp(lab, 1, FIN_ACK);
	lab_publish_selection(lab, 0, &other, 1);
	verdict = send_tcp(lab, 1, ACK); // the last ACK still goes to the old backend
	check(&verdict, WEIR_ACTION_FORWARD, WEIR_CHOICE_FLOW, old);
	verdict = send_tcp(lab, 1, SYN);
	check(&verdict, WEIR_ACTION_FORWARD, WEIR_CHOICE_NEW, other);
	verdict = send_tcp(lab, 1, SYN); // a retransmitted SYN
	check(&verdict, WEIR_ACTION_FORWARD, WEIR_CHOICE_FLOW, other);
	assert_int_equal(backend_of(lab, old)->completed, 1);
	assert_int_equal(backend_of(lab, old)->active_flows, 0);
	assert_int_equal(backend_of(lab, other)->active_flows, 1);
	assert_int_equal(lab_counters(lab)->flows, 1);
	lab_check_counters(lab);
	lab_free(lab);
}

// --- tables ---------------------------------------------------------------------------------

TEST(pipeline_without_tables_passes_all_to_the_kernel) {
	struct weir_pipeline_params params = lab_params();
	struct lab *lab = lab_open(&params);
	struct frame_spec echo = {.family = 4, .protocol = 1, .icmp_type = 8};
	struct frame_spec solicitation = {.family = 6, .protocol = 58, .icmp_type = 135};
	struct weir_verdict verdict = send_tcp(lab, 1, SYN);

	check(&verdict, WEIR_ACTION_KERNEL, WEIR_CHOICE_NONE, WEIR_BACKEND_NONE);
	verdict = lab_send(lab, &echo);
	assert_int_equal(verdict.action, WEIR_ACTION_KERNEL);
	verdict = lab_send(lab, &solicitation);
	assert_int_equal(verdict.action, WEIR_ACTION_KERNEL);
	lab_publish_default(lab);
	verdict = send_tcp(lab, 1, SYN);
	assert_int_equal(verdict.action, WEIR_ACTION_FORWARD);
	lab_check_counters(lab);
	lab_free(lab);
}

TEST(pipeline_service_without_selection_has_no_backend) {
	struct weir_pipeline_params params = lab_params();
	struct lab *lab = lab_open(&params);
	struct weir_verdict verdict;

	lab_publish_services(lab);
	verdict = send_tcp(lab, 1, SYN);
	assert_int_equal(verdict.action, WEIR_ACTION_DROP);
	assert_int_equal(verdict.reason, WEIR_DROP_NO_BACKEND);
	lab_check_counters(lab);
	lab_free(lab);
}

// Guarantees S2 and S5 (layout.h): tables may be replaced between any two bursts, and retired
// tables are never read again.
TEST(pipeline_follows_ten_thousand_publications) {
	struct lab *lab = lab_make();

	weir_pipeline_online(lab->pipeline);
	for (unsigned int i = 0; i < 10000; i++) {
		uint16_t only = (uint16_t)(i % 4);
		struct weir_verdict verdict;

		lab_publish_backends(lab);
		lab_publish_selection(lab, 0, &only, 1);
		if (i % 100 == 0) {
			lab_publish_services(lab);
		}
		verdict = send_tcp(lab, (uint16_t)(i % 60000), SYN);
		assert_int_equal(verdict.action, WEIR_ACTION_FORWARD);
		if (verdict.choice == WEIR_CHOICE_NEW) {
			assert_int_equal(verdict.backend, only);
		}
		weir_pipeline_quiescent(lab->pipeline);
		weir_writer_reclaim(lab->writer);
	}
	weir_pipeline_offline(lab->pipeline);
	lab_check_counters(lab);
	lab_free(lab);
}

// --- corrupted packets ------------------------------------------------------------------------

// Process randomly corrupted packets in buffers of exactly their size. ASan detects reads beyond a
// buffer. No packet may be lost.
TEST(pipeline_survives_random_packets) {
	struct lab *lab = lab_make();
	uint64_t random = 7;

	for (unsigned int round = 0; round < 600; round++) {
		struct weir_verdict verdicts[WEIR_BURST];
		struct rte_mbuf *pkts[WEIR_BURST];

		for (unsigned int i = 0; i < WEIR_BURST; i++) {
			unsigned int changes = (unsigned int)frame_random(&random) % 6;
			struct frame f;

			edge_build(&edges[frame_random(&random) % edge_count], &f);
			for (unsigned int k = 0; k < changes; k++) {
				f.bytes[12 + frame_random(&random) % 90] =
					(uint8_t)frame_random(&random);
			}
			if (frame_random(&random) % 2 == 0 && f.l3 < 30) {
				frame_fix_ipv4(&f);
			}
			if (frame_random(&random) % 4 == 0) {
				f.n = (uint32_t)frame_random(&random) % (f.n + 1);
			}
			pkts[i] = frame_mbuf(f.bytes, f.n, (uint16_t)(frame_random(&random) % 128));
		}
		lab->now_ns += 50000000;
		weir_pipeline_process(
			lab->pipeline, pkts, WEIR_BURST, LAB_IN_PORT, lab->now_ns, verdicts);
		weir_pipeline_maintain(lab->pipeline, lab->now_ns);
		lab_check_counters(lab);
		for (unsigned int i = 0; i < WEIR_BURST; i++) {
			frame_mbuf_free(pkts[i]);
		}
	}
	assert_int_equal(lab_counters(lab)->rx_packets, 600 * WEIR_BURST);
	lab_free(lab);
}
