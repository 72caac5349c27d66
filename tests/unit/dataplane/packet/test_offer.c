// SPDX-License-Identifier: BSD-3-Clause
//
// Two workers behind a port that spreads packets by RSS. An ICMP error or a fragment may arrive at
// the worker that does not have the flow. This worker passes ("offers") the packet to the other
// worker.
#include <stdlib.h>
#include <string.h>

#include "offer.h"
#include "pipeline_lab.h"
#include "test.h"

#define SYN 0x02
#define FLOWS 40

struct two {
	struct lab *lab; // lab of worker 1, which has the flows
	struct weir_pipeline *other; // pipeline of worker 0
};

static struct two make(uint32_t offer_to) {
	struct two two = {.lab = lab_make()};
	struct weir_pipeline_params params = two.lab->params;

	params.worker = 0;
	assert_int_equal(weir_pipeline_create(&params, &two.other), 0);
	weir_pipeline_offer_to(two.other, offer_to);
	weir_pipeline_offer_to(two.lab->pipeline, offer_to);
	weir_pipeline_settle(two.other);
	return two;
}

static void unmake(struct two *two) {
	lab_check_counters(two->lab);
	weir_pipeline_free(two->other);
	lab_free(two->lab);
}

// Pass a packet to worker 0, which has no flows. If worker 0 offers the packet, pass it on to
// worker 1.
static struct weir_verdict pass(struct two *two, const struct frame *f, bool *ret_offered) {
	struct rte_mbuf *m = frame_mbuf(f->bytes, f->n, RTE_PKTMBUF_HEADROOM);
	struct weir_verdict verdict;

	weir_pipeline_process(two->other, &m, 1, LAB_IN_PORT, two->lab->now_ns, &verdict);
	weir_pipeline_maintain(two->other, two->lab->now_ns);
	*ret_offered = verdict.action == WEIR_ACTION_OFFER;
	if (*ret_offered) {
		assert_memory_equal(rte_pktmbuf_mtod(m, uint8_t *), f->bytes, f->n);
		assert_int_equal(weir_pipeline_offered_port(m), LAB_IN_PORT);
		weir_pipeline_process_offered(
			two->lab->pipeline, &m, 1, LAB_IN_PORT, two->lab->now_ns, &verdict);
		weir_pipeline_maintain(two->lab->pipeline, two->lab->now_ns);
	}
	frame_mbuf_free(m);
	return verdict;
}

// Build an ICMP error about a packet from the backend to the client of flow n.
static void build_error(uint16_t n, struct frame *ret) {
	const struct frame_spec quoted = {.family = 4,
		.protocol = 6,
		.source = frame_vip4,
		.destination = frame_client4,
		.source_port = 80,
		.destination_port = (uint16_t)(1024 + n),
		.payload = 8};
	struct frame_spec spec = {.family = 4,
		.protocol = 1,
		.icmp_type = 3,
		.icmp_code = 4,
		.source = frame_stranger4,
		.payload = 28};
	struct frame inner;

	frame_build(&quoted, &inner);
	spec.body = inner.bytes + inner.l3;
	frame_build(&spec, ret);
}

TEST_GROUP(lab_eal);

TEST(offered_errors_reach_the_flow) {
	const uint16_t ids[] = {0, 1, 2, 3}, last[] = {3};
	struct weir_selection_params params =
		weir_selection_defaults(0, WEIR_POLICY_ROUND_ROBIN, LAB_SLOTS);
	struct two two = make(2);
	uint16_t backend[FLOWS];

	lab_publish_policy(two.lab, &params, ids, 4);
	for (uint16_t n = 0; n < FLOWS; n++) {
		struct frame_spec syn = lab_tcp(n, SYN);

		backend[n] = lab_send(two.lab, &syn).backend;
	}
	lab_publish_selection(two.lab, 0, last, 1); // new flows go to another backend
	weir_pipeline_settle(two.other);
	for (uint16_t n = 0; n < FLOWS; n++) {
		struct weir_verdict verdict;
		bool offered;
		struct frame f;

		build_error(n, &f);
		verdict = pass(&two, &f, &offered);
		assert_true(offered);
		assert_int_equal(verdict.action, WEIR_ACTION_FORWARD);
		assert_int_equal(verdict.choice, WEIR_CHOICE_FLOW);
		assert_int_equal(verdict.backend, backend[n]);
	}
	unmake(&two);
}

TEST(offers_end_with_the_last_worker) {
	for (uint32_t workers = 0; workers < 3; workers++) {
		struct two two = make(workers);
		struct weir_verdict verdict;
		bool offered;
		struct frame f;

		build_error(1, &f);
		verdict = pass(&two, &f, &offered);
		assert_int_equal(offered, workers == 2);
		assert_int_equal(verdict.action, WEIR_ACTION_FORWARD);
		assert_int_equal(verdict.choice, WEIR_CHOICE_UNTRACKED);
		unmake(&two);
	}
}

// In a flood of ICMP errors about unknown flows, a worker makes only a limited number of offers per
// second to the other workers.
TEST(offers_are_limited) {
	static const struct {
		uint32_t workers;
		uint32_t offers; // offers of one worker
	} cases[] = {{2, WEIR_OFFERS_PER_SECOND}, {16, WEIR_OFFERS_PER_SECOND},
		{64, WEIR_OFFERED_PER_SECOND / 63}};
	struct frame f;

	build_error(1, &f);
	for (unsigned int c = 0; c < RTE_DIM(cases); c++) {
		struct two two = make(cases[c].workers);
		struct rte_mbuf *m = frame_mbuf(f.bytes, f.n, RTE_PKTMBUF_HEADROOM);
		uint32_t count = 0;

		for (uint32_t i = 0; i < cases[c].offers + 100; i++) {
			struct weir_verdict verdict;

			weir_pipeline_process(
				two.other, &m, 1, LAB_IN_PORT, two.lab->now_ns, &verdict);
			count += verdict.action == WEIR_ACTION_OFFER;
			frame_mbuf_free(m);
			m = frame_mbuf(f.bytes, f.n, RTE_PKTMBUF_HEADROOM);
		}
		assert_int_equal(count, cases[c].offers);
		frame_mbuf_free(m);
		unmake(&two);
	}
}

static void build_fragment(uint16_t fragment, struct frame *ret) {
	const struct frame_spec spec = {
		.family = 4, .protocol = 17, .destination_port = 53, .payload = 24};

	frame_build(&spec, ret);
	ret->bytes[ret->l3 + 5] = 9;
	frame_put16(ret->bytes + ret->l3 + 6, fragment);
	frame_fix_ipv4(ret);
}

TEST(offered_fragments_reach_the_flow) {
	static const uint16_t fragments[] = {0x2000, 0x2004, 8};
	const struct frame_spec whole = {.family = 4, .protocol = 17, .destination_port = 53};
	const uint16_t ids[] = {4, 5};
	struct two two = make(2);
	uint16_t backend = lab_send(two.lab, &whole).backend, another = ids[backend == 4];

	lab_publish_selection(two.lab, 1, &another, 1);
	weir_pipeline_settle(two.other);
	for (unsigned int i = 0; i < RTE_DIM(fragments); i++) {
		struct weir_verdict verdict;
		bool offered;
		struct frame f;

		build_fragment(fragments[i], &f);
		verdict = pass(&two, &f, &offered);
		assert_true(offered);
		assert_int_equal(verdict.action, WEIR_ACTION_FORWARD);
		assert_int_equal(verdict.backend, backend);
	}
	unmake(&two);
}
