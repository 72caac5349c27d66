// SPDX-License-Identifier: BSD-3-Clause
//
// Pipeline: the counters of packets, bytes and ended flows, also of packets that the caller could
// not deliver.
#include "frames.h"
#include "new_flow_lab.h"
#include "test.h"

TEST_GROUP(lab_eal);

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
