// SPDX-License-Identifier: BSD-3-Clause
//
// Burst: packets of one burst get the same results as packets processed one by one.
#include "pipeline.h"

#include <stdlib.h>
#include <string.h>

#include "edges.h"
#include "frames.h"
#include "pipeline_lab.h"
#include "test.h"

#define FIN_ACK 0x11
#define SYN 0x02
#define ACK 0x10

static void check(
	const struct weir_verdict *verdict, enum weir_choice choice, unsigned int backend) {
	assert_int_equal(verdict->action, WEIR_ACTION_FORWARD);
	assert_string_equal(
		weir_choice_name((enum weir_choice)verdict->choice), weir_choice_name(choice));
	assert_int_equal(verdict->backend, backend);
}

// --- one flow ---------------------------------------------------------------------------------

TEST_GROUP(lab_eal);

TEST(burst_of_one_new_flow_inserts_it_once) {
	struct lab *lab = lab_make();
	struct weir_verdict verdicts[WEIR_BURST];
	struct rte_mbuf *pkts[WEIR_BURST];

	for (unsigned int i = 0; i < WEIR_BURST; i++) {
		struct frame_spec spec = lab_tcp(3, i == 0 ? SYN : ACK);
		struct frame f;

		frame_build(&spec, &f);
		pkts[i] = frame_mbuf(f.bytes, f.n, 128);
	}
	weir_pipeline_process(lab->pipeline, pkts, WEIR_BURST, LAB_IN_PORT, lab->now_ns, verdicts);
	weir_pipeline_maintain(lab->pipeline, lab->now_ns);
	for (unsigned int i = 0; i < WEIR_BURST; i++) {
		check(&verdicts[i], i == 0 ? WEIR_CHOICE_NEW : WEIR_CHOICE_FLOW,
			verdicts[0].backend);
		frame_mbuf_free(pkts[i]);
	}
	assert_int_equal(lab_counters(lab)->flow_new, 1);
	assert_int_equal(lab_counters(lab)->flow_hits, WEIR_BURST - 1);
	lab_check_counters(lab);
	lab_free(lab);
}

// Several copies of a SYN reuse a client port whose old flow is closing. They restart the flow
// once, not once per copy.
TEST(burst_restarts_a_flow_once) {
	struct lab *lab = lab_make();
	struct weir_verdict verdicts[3];
	struct rte_mbuf *pkts[3];
	const struct weir_share_counters *service;
	struct frame_spec spec = lab_tcp(3, SYN), last = lab_tcp(3, FIN_ACK);
	struct frame f;

	lab_send(lab, &spec);
	lab_send(lab, &last);
	frame_build(&spec, &f);
	for (unsigned int i = 0; i < 3; i++) {
		pkts[i] = frame_mbuf(f.bytes, f.n, 128);
	}
	weir_pipeline_process(lab->pipeline, pkts, 3, LAB_IN_PORT, lab->now_ns, verdicts);
	weir_pipeline_maintain(lab->pipeline, lab->now_ns);
	for (unsigned int i = 0; i < 3; i++) {
		check(&verdicts[i], i == 0 ? WEIR_CHOICE_NEW : WEIR_CHOICE_FLOW,
			verdicts[0].backend);
		frame_mbuf_free(pkts[i]);
	}
	service = weir_segment_service_counters(lab->segment, lab->params.worker, 0);
	assert_int_equal(service->completed, 1);
	assert_int_equal(service->new_flows, 2);
	lab_check_counters(lab);
	lab_free(lab);
}

// In any burst, each packet gets the result that it would get in a burst of one packet.
TEST(bursts_of_all_sizes_agree_with_single_packets) {
	static struct weir_verdict alone[512];
	static uint8_t bytes[512][2048];
	static uint32_t length[512];
	struct lab *single = lab_make();
	uint64_t given = 0; // bytes sent so far

	assert_true(edge_count <= RTE_DIM(alone));
	for (unsigned int i = 0; i < edge_count; i++) {
		struct rte_mbuf *m;
		struct frame f;

		edge_build(&edges[i], &f);
		m = frame_mbuf(f.bytes, f.n, 128);
		given += f.n;
		alone[i] = lab_process(single, m);
		length[i] = m->pkt_len;
		assert_true(length[i] <= sizeof(bytes[i]));
		memcpy(bytes[i], rte_pktmbuf_mtod(m, uint8_t *), length[i]);
		frame_mbuf_free(m);
	}
	for (unsigned int size = 1; size <= WEIR_BURST; size++) {
		struct lab *lab = lab_make();

		for (unsigned int at = 0; at < edge_count; at += size) {
			unsigned int n = RTE_MIN(size, edge_count - at);
			struct weir_verdict verdicts[WEIR_BURST];
			struct rte_mbuf *pkts[WEIR_BURST];
			struct frame f;

			for (unsigned int i = 0; i < n; i++) {
				edge_build(&edges[at + i], &f);
				pkts[i] = frame_mbuf(f.bytes, f.n, 128);
			}
			weir_pipeline_process(lab->pipeline, pkts, (uint16_t)n, LAB_IN_PORT,
				lab->now_ns, verdicts);
			for (unsigned int i = 0; i < n; i++) {
				// The choice is not compared, because a flow may be inserted after
				// an ICMP error about the flow was processed.
				verdicts[i].choice = alone[at + i].choice;
				assert_memory_equal(
					&verdicts[i], &alone[at + i], sizeof(verdicts[i]));
				assert_int_equal(pkts[i]->pkt_len, length[at + i]);
				assert_memory_equal(rte_pktmbuf_mtod(pkts[i], uint8_t *),
					bytes[at + i], length[at + i]);
				frame_mbuf_free(pkts[i]);
			}
		}
		weir_pipeline_maintain(lab->pipeline, lab->now_ns);
		assert_int_equal(lab_counters(lab)->rx_bytes, given);
		lab_check_counters(lab);
		lab_free(lab);
	}
	assert_int_equal(lab_counters(single)->rx_bytes, given);
	lab_free(single);
}

TEST(empty_burst_changes_nothing) {
	struct lab *lab = lab_make();
	struct weir_verdict verdict;
	struct rte_mbuf *none = NULL;

	weir_pipeline_process(lab->pipeline, &none, 0, LAB_IN_PORT, lab->now_ns, &verdict);
	weir_pipeline_maintain(lab->pipeline, lab->now_ns);
	assert_int_equal(lab_counters(lab)->rx_packets, 0);
	lab_check_counters(lab);
	lab_free(lab);
}

// --- kinds ------------------------------------------------------------------------------------

// All kinds of packets of the fast path, and one kind of the slow path. The flows of the packets
// exist.
static const struct kind {
	struct frame_spec spec;
	uint32_t cut; // bytes removed from the end
} kinds[] = {
	{{.family = 4, .protocol = 6, .tcp_flags = ACK, .payload = 7}, 0},
	{{.family = 6, .protocol = 6, .tcp_flags = ACK, .payload = 9}, 0},
	{{.family = 4, .protocol = 17, .destination_port = 53, .payload = 24}, 0},
	{{.family = 6, .protocol = 17, .destination_port = 53, .payload = 28}, 0},
	{{.family = 4, .protocol = 6, .tcp_flags = ACK, .tags = 1}, 0},
	{{.family = 6, .protocol = 6, .tcp_flags = ACK, .payload = 9}, 4},
};
#define KINDS RTE_DIM(kinds)

static struct frame frame_of(const struct kind *kind) {
	struct frame f;

	frame_build(&kind->spec, &f);
	f.n -= kind->cut;
	return f;
}

// Send a burst of packets of one kind, except for one packet of another kind at index `place`.
static void send_burst(struct lab *lab, const struct kind *kind, const struct kind *other,
	unsigned int place, const struct weir_verdict *expected, const struct weir_verdict *odd) {
	uint64_t given = lab_counters(lab)->rx_bytes;
	struct weir_verdict verdicts[WEIR_BURST];
	struct rte_mbuf *pkts[WEIR_BURST];

	for (unsigned int i = 0; i < WEIR_BURST; i++) {
		struct frame f = frame_of(i == place ? other : kind);

		pkts[i] = frame_mbuf(f.bytes, f.n, 128);
		given += f.n;
	}
	weir_pipeline_process(lab->pipeline, pkts, WEIR_BURST, LAB_IN_PORT, lab->now_ns, verdicts);
	weir_pipeline_maintain(lab->pipeline, lab->now_ns);
	for (unsigned int i = 0; i < WEIR_BURST; i++) {
		assert_memory_equal(&verdicts[i], i == place ? odd : expected, sizeof(verdicts[i]));
		frame_mbuf_free(pkts[i]);
	}
	assert_int_equal(lab_counters(lab)->rx_bytes, given);
}

// The loop for bursts of one kind can stop at any packet. The general loop continues with that
// packet.
TEST(burst_of_one_kind_except_one_packet) {
	struct lab *lab = lab_make();
	struct weir_verdict verdicts[KINDS];

	// The second packet makes each flow established.
	for (unsigned int times = 0; times < 2; times++) {
		for (unsigned int i = 0; i < KINDS; i++) {
			struct frame f = frame_of(&kinds[i]);
			struct rte_mbuf *m = frame_mbuf(f.bytes, f.n, 128);

			verdicts[i] = lab_process(lab, m);
			frame_mbuf_free(m);
			assert_int_equal(verdicts[i].action,
				kinds[i].cut > 0 ? WEIR_ACTION_DROP : WEIR_ACTION_FORWARD);
		}
	}
	for (unsigned int i = 0; i < KINDS * KINDS; i++) {
		const unsigned int one = i / KINDS, other = i % KINDS;

		for (unsigned int place = 0; place < WEIR_BURST; place++) {
			send_burst(lab, &kinds[one], &kinds[other], place, &verdicts[one],
				&verdicts[other]);
		}
	}
	lab_check_counters(lab);
	lab_free(lab);
}
