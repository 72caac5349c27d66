// SPDX-License-Identifier: BSD-3-Clause
//
// Pipeline: flows, their backends and the counters, with real shared memory (a weir_segment).
#include "fragment_table.h"
#include "hash.h"
#include "pipeline.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "distribute.h"
#include "edges.h"
#include "flow_query.h"
#include "frames.h"
#include "pipeline_lab.h"
#include "test.h"

#define FIN_ACK 0x11
#define SYN 0x02
#define RST 0x04
#define ACK 0x10
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

static struct weir_verdict send_tcp(struct lab *lab, uint16_t n, uint8_t flags) {
	struct frame_spec spec = lab_tcp(n, flags);

	return lab_send(lab, &spec);
}

static const struct weir_share_counters *backend_of(const struct lab *lab, uint32_t backend) {
	return weir_segment_backend_counters(lab->segment, lab->params.worker, backend);
}

static const struct weir_share_counters *service_of(const struct lab *lab, uint32_t service) {
	return weir_segment_service_counters(lab->segment, lab->params.worker, service);
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

TEST(pipeline_ended_flows_are_counted_by_outcome) {
	struct lab *lab = lab_make();

	for (uint16_t n = 0; n < 30; n++) {
		send_tcp(lab, n, SYN);
	}
	for (uint16_t n = 0; n < 20; n++) {
		send_tcp(lab, n, ACK);
	}
	for (uint16_t n = 0; n < 10; n++) {
		send_tcp(lab, n, n < 4 ? RST : FIN_ACK);
	}
	for (uint16_t n = 10; n < 20; n++) {
		send_tcp(lab, n, ACK);
	}
	assert_int_equal(lab_counters(lab)->flows_half_open, 10);
	lab_wait(lab, 13000); // longer than the timeouts: closing and young 10 s, SYN seen 5 s
	assert_int_equal(service_of(lab, 0)->new_flows, 30);
	assert_int_equal(service_of(lab, 0)->refused, 4);
	assert_int_equal(service_of(lab, 0)->completed, 6);
	assert_int_equal(service_of(lab, 0)->timed_out, 10);
	assert_int_equal(service_of(lab, 0)->active_flows, 10);
	assert_int_equal(lab_counters(lab)->flow_expired, 10);
	assert_int_equal(lab_counters(lab)->flows, 10);
	assert_int_equal(lab_counters(lab)->flows_half_open, 0);
	lab_check_counters(lab);
	lab_free(lab);
}

TEST(pipeline_counts_packets_and_bytes) {
	struct lab *lab = lab_make();
	struct frame_spec spec = lab_tcp(9, ACK);
	struct weir_verdict verdict;

	spec.payload = 60;
	spec.padding = 5;
	verdict = lab_send(lab, &spec);
	lab_send(lab, &spec);
	assert_int_equal(lab_counters(lab)->rx_packets, 2);
	assert_int_equal(lab_counters(lab)->rx_bytes, 2 * (14 + 20 + 20 + 60 + 5));
	assert_int_equal(lab_counters(lab)->forwarded, 2);
	assert_int_equal(backend_of(lab, verdict.backend)->packets, 2);
	assert_int_equal(backend_of(lab, verdict.backend)->bytes, 2 * 100);
	assert_int_equal(service_of(lab, 0)->bytes, 2 * 100);
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

// --- packets that the caller could not deliver -----------------------------------------------

TEST(pipeline_undelivered_packets_keep_the_sums_correct) {
	struct frame_spec echo = {.family = 4, .protocol = 1, .icmp_type = 8};
	struct frame_spec others = lab_tcp(1, SYN);
	struct frame_spec big = lab_tcp(1, ACK);
	struct frame_spec specs[4] = {lab_tcp(1, SYN)};
	struct lab *lab = lab_make();
	uint64_t published = 0, backend_dropped = 0, backend_packets = 0;

	others.destination = frame_stranger4;
	big.payload = 1500;
	specs[1] = echo;
	specs[2] = others;
	specs[3] = big;
	for (unsigned int i = 0; i < 40; i++) {
		struct weir_verdict verdict;
		struct rte_mbuf *m;
		struct frame f;

		frame_build(&specs[i % 4], &f);
		m = frame_mbuf(f.bytes, f.n, 128);
		weir_pipeline_maintain(lab->pipeline, lab->now_ns);
		weir_pipeline_process(lab->pipeline, &m, 1, LAB_IN_PORT, lab->now_ns, &verdict);
		// The counters of this burst are not published yet. The published counters are
		// consistent.
		assert_int_equal(lab_counters(lab)->rx_packets, i);
		assert_int_equal(lab_counters(lab)->forwarded + lab_counters(lab)->replied +
					 lab_counters(lab)->to_kernel + lab_counters(lab)->dropped,
			i);
		assert_true(lab_counters(lab)->forwarded >= published);
		published = lab_counters(lab)->forwarded;
		if (i >= 20) {
			weir_pipeline_undelivered(lab->pipeline, m, &verdict, WEIR_DROP_TX_FULL);
		}
		frame_mbuf_free(m);
	}
	weir_pipeline_maintain(lab->pipeline, lab->now_ns);
	assert_int_equal(lab_counters(lab)->forwarded, 5);
	assert_int_equal(lab_counters(lab)->replied, 5);
	assert_int_equal(lab_counters(lab)->to_kernel, 5);
	assert_int_equal(lab_counters(lab)->drops[WEIR_DROP_TX_FULL], 15);
	assert_int_equal(lab_counters(lab)->drops[WEIR_DROP_MTU_EXCEEDED], 10);
	assert_int_equal(lab_counters(lab)->dropped, 25);
	assert_int_equal(lab_counters(lab)->rx_packets, 40);
	// Five of the ten SYNs to a backend were not sent. The ten packets that were too big also
	// count as dropped.
	for (uint16_t id = 0; id < lab->segment->max_backends; id++) {
		const struct weir_share_counters *backend =
			weir_segment_backend_counters(lab->segment, lab->params.worker, id);

		backend_dropped += backend->dropped;
		backend_packets += backend->packets;
	}
	assert_int_equal(backend_packets, 5); // packets that were forwarded
	assert_int_equal(backend_dropped, 15);
	assert_int_equal(
		weir_segment_service_counters(lab->segment, lab->params.worker, 0)->dropped, 15);
	lab_free(lab);
}

// Short frames to l2 backends are padded. The padding was not counted.
TEST(pipeline_undelivered_padding_is_not_subtracted) {
	struct frame_spec spec = lab_tcp(1, SYN);
	struct lab *lab = lab_make();
	uint64_t bytes = 0;

	spec.padding = 6; // as received: room for the padding
	for (uint16_t id = 0; id < 6; id++) {
		struct weir_backend_path path = {.family = 4,
			.mtu = LAB_MTU,
			.service = lab->rows[id].service,
			.port = lab->rows[id].port,
			.resolved = 1,
			.forwarding.mode = WEIR_FORWARDING_L2};

		weir_backend_row_build(&path, &lab->rows[id]);
	}
	lab_publish_backends(lab);
	for (unsigned int i = 0; i < 2; i++) {
		struct weir_verdict verdict;
		struct rte_mbuf *m;
		struct frame f;

		frame_build(&spec, &f);
		m = frame_mbuf(f.bytes, f.n, 128);
		weir_pipeline_process(lab->pipeline, &m, 1, LAB_IN_PORT, lab->now_ns, &verdict);
		assert_int_equal(verdict.action, WEIR_ACTION_FORWARD);
		assert_int_equal(m->pkt_len, 60);
		if (i > 0) {
			weir_pipeline_undelivered(lab->pipeline, m, &verdict, WEIR_DROP_TX_FULL);
		}
		frame_mbuf_free(m);
	}
	weir_pipeline_maintain(lab->pipeline, lab->now_ns);
	for (uint16_t id = 0; id < lab->segment->max_backends; id++) {
		bytes += weir_segment_backend_counters(lab->segment, lab->params.worker, id)->bytes;
	}
	assert_int_equal(bytes, 40); // one packet without options and data
	lab_free(lab);
}

// --- distribution ---------------------------------------------------------------------------

TEST(pipeline_distribution_hash_is_that_of_the_flow) {
	struct lab *lab = lab_make();
	struct frame_spec spec = lab_tcp(1, SYN);
	struct weir_message message = lab_question(1);
	struct rte_mbuf *m;
	struct frame f;

	weir_flow_query_respond(lab->pipeline, &message, lab->now_ns);
	frame_build(&spec, &f);
	m = frame_mbuf(f.bytes, f.n, 0);
	assert_true(weir_pipeline_distribution_hash(m, LAB_SEED) == message.flow.hash);
	frame_mbuf_free(m);
	// the function never fails, and never reads beyond the packet
	for (unsigned int i = 0; i < edge_count; i++) {
		edge_build(&edges[i], &f);
		m = frame_mbuf(f.bytes, f.n, 0);
		if (edges[i].action == WEIR_ACTION_DROP && edges[i].quote == NULL &&
			edges[i].reason != WEIR_DROP_FRAGMENT_FIRST_MISSING &&
			(edges[i].reason != WEIR_DROP_FRAGMENT || edges[i].spec.family == 4) &&
			edges[i].reason != WEIR_DROP_FRAGMENT_TINY) {
			assert_true(weir_pipeline_distribution_hash(m, LAB_SEED) == 0);
		} else {
			weir_pipeline_distribution_hash(m, LAB_SEED);
		}
		frame_mbuf_free(m);
	}
	lab_free(lab);
}

// Returns the hash that the distributor uses for a packet. fragment: the flags and the fragment
// offset in the IPv4 header.
static uint64_t distribute_from(
	struct lab *lab, uint16_t source_port, uint16_t fragment, uint8_t id) {
	const struct frame_spec spec = {.family = 4,
		.protocol = 17,
		.source_port = source_port,
		.destination_port = 53,
		.payload = 24};
	struct rte_mbuf *m;
	struct frame f;
	uint64_t hash;

	frame_build(&spec, &f);
	f.bytes[f.l3 + 5] = id;
	frame_put16(f.bytes + f.l3 + 6, fragment);
	frame_fix_ipv4(&f);
	m = frame_mbuf(f.bytes, f.n, 0);
	hash = weir_pipeline_distribute(lab->pipeline, m);
	frame_mbuf_free(m);
	return hash;
}

static uint64_t distribute(struct lab *lab, uint16_t fragment, uint8_t id) {
	return distribute_from(lab, 1000, fragment, id);
}

// All fragments of a datagram go to the worker of its flow.
TEST(pipeline_fragments_are_distributed_with_their_flow) {
	struct frame_spec any = lab_tcp(1, SYN);
	struct lab *lab = lab_make();
	uint64_t flow;

	lab_send(lab, &any); // the pipeline loads the VIPs
	flow = distribute(lab, 0, 7);
	// the first fragment of this datagram has not arrived
	assert_true(distribute(lab, 4, 7) != flow);
	assert_true(distribute(lab, 0x2000, 7) == flow);
	assert_true(distribute(lab, 4, 7) == flow);
	assert_true(distribute(lab, 0x2004, 7) == flow);
	assert_true(distribute(lab, 4, 8) != flow);
	lab_free(lab);
}

// Returns the hash for an IPv6 fragment of a UDP packet. Destination options follow the fragment
// header. part: offset and M flag of the fragment header; next: next header field of the fragment
// header.
static uint64_t distribute6(struct lab *lab, uint16_t part, uint8_t next) {
	uint8_t chain[] = {next, 0, (uint8_t)(part >> 8), (uint8_t)part, 0, 0, 0, 7, // id
		17, 0, 1, 4, 0, 0, 0, 0};
	const struct frame_spec spec = {.family = 6,
		.protocol = 17,
		.first_header = 44,
		.options = chain,
		.option_bytes = sizeof(chain),
		.destination_port = 53,
		.payload = 24};
	struct rte_mbuf *m;
	struct frame f;
	uint64_t hash;

	frame_build(&spec, &f);
	m = frame_mbuf(f.bytes, f.n, 0);
	hash = weir_pipeline_distribute(lab->pipeline, m);
	frame_mbuf_free(m);
	return hash;
}

TEST(pipeline_ipv6_fragments_of_options_are_distributed_with_their_flow) {
	struct frame_spec any = lab_tcp(1, SYN);
	struct lab *lab = lab_make();
	uint64_t flow;

	lab_send(lab, &any);
	flow = distribute6(lab, 0, 60); // an atomic fragment is a whole packet
	// the first fragment of this datagram has not arrived
	assert_true(distribute6(lab, 0x101, 60) != flow);
	assert_true(distribute6(lab, 1, 60) == flow);
	assert_true(distribute6(lab, 0x101, 60) == flow);
	assert_true(distribute6(lab, 0x201, 6) == flow); // the next header is ignored
	lab_free(lab);
}

// A client may reuse an identification as soon as its datagram is complete. This is frequent if
// several clients share an address (NAT).
TEST(pipeline_fragments_of_a_reused_identification_go_with_their_own_flow) {
	struct frame_spec any = lab_tcp(1, SYN);
	struct lab *lab = lab_make();
	uint64_t flow, other;

	lab_send(lab, &any);
	flow = distribute_from(lab, 1000, 0, 7);
	other = distribute_from(lab, 2000, 0, 7);
	assert_true(flow != other);
	for (unsigned int turn = 0; turn < 2; turn++) {
		assert_true(distribute_from(lab, 1000, 0x2000, 7) == flow);
		// a first fragment is distributed by its own ports
		assert_true(distribute_from(lab, 2000, 0x2000, 7) == other);
		assert_true(distribute_from(lab, 1000, 4, 7) == flow); // the last fragment
		assert_true(distribute_from(lab, 2000, 0x2000, 7) == other);
		assert_true(distribute_from(lab, 2000, 4, 7) == other);
	}
	lab_free(lab);
}

// id: identification in the packet.
static struct weir_verdict send_fragment(struct lab *lab, uint16_t fragment, uint16_t id) {
	const struct frame_spec spec = {
		.family = 4, .protocol = 17, .destination_port = 53, .payload = 24};
	struct weir_verdict verdict;
	struct rte_mbuf *m;
	struct frame f;

	frame_build(&spec, &f);
	memcpy(f.bytes + f.l3 + 4, &id, 2);
	frame_put16(f.bytes + f.l3 + 6, fragment);
	frame_fix_ipv4(&f);
	m = frame_mbuf(f.bytes, f.n, 128);
	verdict = lab_process(lab, m);
	frame_mbuf_free(m);
	return verdict;
}

// The hash of the fragment table uses a secret. Without the secret, an attacker who has read the
// epoch in the log could choose fragments that belong to the same bucket as a certain datagram, and
// so replace the entry of this datagram.
TEST(pipeline_fragment_table_has_a_secret) {
	struct weir_pipeline_params params = lab_params();
	struct weir_flow_key key = {.family = 4, .protocol = 17};
	struct weir_fragment_entry *first, *entry;
	struct weir_fragment_table *guessed;
	unsigned int found = 0;
	struct lab *lab;

	params.flow_table.secret = 0x1234567890ull;
	params.fragments.entries = 256;
	params.fragments.timeout_ms = 5000;
	lab = lab_open(&params);
	lab_publish_default(lab);
	memcpy(key.source, frame_client4, 4);
	memcpy(key.destination, frame_vip4, 4);
	assert_int_equal(weir_fragment_table_create(256, 5000,
				 weir_hash_mix(lab->segment->epoch,
					 lab->params.worker + 0x9e3779b97f4a7c15ull),
				 SOCKET_ID_ANY, &guessed),
		0);
	first = weir_fragment_enter(guessed, &key, 7, LAB_NOW);
	assert_int_equal(send_fragment(lab, 0x2000, 7).action, WEIR_ACTION_FORWARD);
	for (uint16_t id = 8; found < 4; id++) {
		entry = weir_fragment_enter(guessed, &key, id, LAB_NOW);
		if (entry >= first && entry < first + 4) { // an entry in the same bucket
			assert_int_equal(
				send_fragment(lab, 0x2000, id).action, WEIR_ACTION_FORWARD);
			found++;
		}
	}
	assert_null(weir_fragment_find(guessed, &key, 7, LAB_NOW));
	assert_int_equal(send_fragment(lab, 4, 7).action, WEIR_ACTION_FORWARD);
	weir_fragment_table_free(guessed);
	lab_free(lab);
}
