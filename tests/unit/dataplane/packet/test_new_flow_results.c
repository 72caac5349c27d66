// SPDX-License-Identifier: BSD-3-Clause
//
// Results of the handshakes of new flows: counts of half-open flows, established connections and
// errors.
#include "new_flow_lab.h"
#include "test.h"

TEST_GROUP(lab_eal);

static uint64_t established(const struct lab *lab) {
	uint64_t sum = 0;

	for (uint32_t id = 0; id < LAB_BACKENDS; id++) {
		sum += backend_of(lab, id)->established;
	}
	return sum;
}

// Established connections are counted only if control needs the count, and only for flows that
// started with a SYN.
TEST(new_flow_counts_established_connections) {
	for (unsigned int counted = 0; counted < 2; counted++) {
		struct weir_selection_params params = params_of(WEIR_POLICY_ROUND_ROBIN);
		uint16_t backend;
		struct lab *lab;

		params.settings.needs |= counted ? WEIR_NEEDS_RESULTS : 0;
		lab = make(&params);
		backend = send_tcp(lab, 1, SYN).backend;
		send_tcp(lab, 1, SYN);
		assert_int_equal(established(lab), 0);
		send_tcp(lab, 1, ACK);
		send_tcp(lab, 1, ACK);
		assert_int_equal(backend_of(lab, backend)->established, counted);
		send_tcp(lab, 2, ACK); // this flow began at another instance
		send_tcp(lab, 2, ACK);
		send_tcp(lab, 3, SYN); // the client resets this flow
		send_tcp(lab, 3, RST);
		assert_int_equal(established(lab), counted);
		assert_int_equal(service_of(lab, 0)->new_flows, 3);
		lab_free(lab);
	}
}

static uint64_t half_open(const struct lab *lab) {
	uint64_t sum = 0;

	for (uint32_t id = 0; id < 4; id++) {
		sum += backend_of(lab, id)->half_open;
	}
	return sum;
}

// Half-open flows are counted only if control needs the count. The count is correct, however the
// flows end.
TEST(new_flow_shows_half_open_flows) {
	for (unsigned int shown = 0; shown < 2; shown++) {
		struct weir_selection_params params = params_of(WEIR_POLICY_ROUND_ROBIN);
		uint16_t backend;
		struct lab *lab;

		params.settings.needs |= shown ? WEIR_NEEDS_HALF_OPEN : 0;
		lab = make(&params);
		backend = send_tcp(lab, 1, SYN).backend;
		assert_int_equal(backend_of(lab, backend)->half_open, shown);
		for (uint16_t flow = 2; flow <= 5; flow++) {
			send_tcp(lab, flow, SYN);
			send_tcp(lab, flow, SYN); // a retransmission
		}
		assert_int_equal(half_open(lab), shown * 5);
		send_tcp(lab, 1, ACK);
		send_tcp(lab, 1, ACK);
		assert_int_equal(backend_of(lab, backend)->half_open, shown);
		assert_int_equal(half_open(lab), shown * 4);
		send_tcp(lab, 2, RST);
		assert_int_equal(half_open(lab), shown * 3);
		send_tcp(lab, 3, FIN_ACK);
		assert_int_equal(half_open(lab), shown * 2);
		send_tcp(lab, 6, ACK); // no SYN was seen, so the packet may be forged
		assert_int_equal(half_open(lab), shown * 3);
		send_tcp(lab, 6, ACK);
		assert_int_equal(half_open(lab), shown * 2);
		lab->now_ns += 12 * 1000 * MS; // longer than the flow's timeout
		while (weir_pipeline_maintain(lab->pipeline, lab->now_ns)) {
		}
		assert_int_equal(half_open(lab), 0);
		lab_free(lab);
	}
}

// With DSR, the worker receives only the SYN of a connection that the backend refuses. The flow
// counts as an error when it has timed out.
TEST(new_flow_unanswered_counts_as_error) {
	struct weir_selection_params params = params_of(WEIR_POLICY_LEAST_LOADED);
	struct lab *lab;
	uint16_t refusing;

	params.settings.error_window_ms = 30000;
	lab = make(&params);
	refusing = send_tcp(lab, 0, SYN).backend;
	for (uint16_t n = 1; n < 200; n++) {
		struct weir_verdict verdict = send_tcp(lab, n, SYN);

		assert_int_equal(verdict.action, WEIR_ACTION_FORWARD);
		assert_int_not_equal(verdict.backend, refusing);
		send_tcp(lab, n, ACK);
		send_tcp(lab, n, FIN_ACK);
	}
	lab_wait(lab, 6500);
	assert_int_equal(backend_of(lab, refusing)->errors, 1);
	assert_int_equal(backend_of(lab, refusing)->open_flows, 0);
	for (uint16_t n = 300; n < 400; n++) {
		assert_int_not_equal(send_tcp(lab, n, SYN).backend, refusing);
		send_tcp(lab, n, ACK);
		send_tcp(lab, n, FIN_ACK);
	}
	lab_free(lab);
}

// A connection began at another instance, or at this instance before a restart. If only one packet
// of the connection arrives here, or only an RST, no error is counted for the backend.
TEST(new_flow_in_mid_flow_is_no_error) {
	struct weir_selection_params params = params_of(WEIR_POLICY_LEAST_LOADED);
	struct lab *lab = make(&params);
	uint64_t errors = 0, new_flows = 0;
	int64_t open = 0;

	for (uint16_t n = 0; n < 200; n++) {
		assert_int_equal(send_tcp(lab, n, ACK).choice, WEIR_CHOICE_NEW);
		if (n % 2 == 0) {
			send_tcp(lab, n, RST);
		}
	}
	lab_wait(lab, 12000);
	for (uint32_t id = 0; id < 4; id++) {
		errors += backend_of(lab, id)->errors;
		new_flows += backend_of(lab, id)->new_flows;
		open += (int64_t)backend_of(lab, id)->open_flows;
	}
	assert_int_equal(errors, 0);
	assert_int_equal(new_flows, 200);
	assert_int_equal(open, 0);
	assert_int_equal(lab_counters(lab)->flows_half_open, 0);
	lab_check_counters(lab);
	lab_free(lab);
}
