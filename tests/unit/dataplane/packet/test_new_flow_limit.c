// SPDX-License-Identifier: BSD-3-Clause
//
// New flows at backends that are at their limit: flow control chooses another backend, rejects the
// flow, or spills it.
#include "new_flow_lab.h"
#include "test.h"

TEST_GROUP(lab_eal);

TEST(new_flow_beyond_the_limit_is_rejected_with_its_reason) {
	struct weir_selection_params params = params_of(WEIR_POLICY_ROUND_ROBIN);
	struct weir_verdict verdict;
	struct lab *lab;

	params.settings.max_active_flows = 5;
	params.settings.when_exhausted = WEIR_EXHAUSTED_REJECT;
	lab = make(&params);
	for (uint16_t n = 0; n < 20; n++) {
		assert_int_equal(send_tcp(lab, n, SYN).action, WEIR_ACTION_FORWARD);
		send_tcp(lab, n, ACK);
	}
	for (uint16_t n = 100; n < 110; n++) {
		verdict = send_tcp(lab, n, SYN);
		assert_int_equal(verdict.action, WEIR_ACTION_DROP);
		assert_int_equal(verdict.reason, WEIR_DROP_FLOW_CONTROL);
		assert_int_equal(verdict.service, 0);
	}
	assert_int_equal(lab_counters(lab)->drops[WEIR_DROP_FLOW_CONTROL], 10);
	assert_int_equal(service_of(lab, 0)->rejected, 10);
	assert_int_equal(service_of(lab, 0)->spilled, 0);
	// Existing flows are not affected, and the end of a flow makes room for another flow.
	assert_int_equal(send_tcp(lab, 3, ACK).action, WEIR_ACTION_FORWARD);
	verdict = send_tcp(lab, 7, FIN_ACK);
	assert_int_equal(send_tcp(lab, 200, SYN).backend, verdict.backend);
	send_tcp(lab, 200, ACK);
	assert_int_equal(send_tcp(lab, 201, SYN).action, WEIR_ACTION_DROP);
	lab_check_counters(lab);
	lab_free(lab);
}

// With any policy, a backend that is marked as at its limit takes no new flow while another backend
// can take the flow. The existing flows of the marked backend continue.
TEST(new_flow_avoids_a_backend_with_a_full_accept_queue) {
	for (int policy = 0; policy < WEIR_POLICY_COUNT; policy++) {
		struct weir_selection_params params = params_of((enum weir_policy)policy);
		struct lab *lab = make(&params);
		uint64_t had;
		uint16_t old;

		old = send_tcp(lab, 0, SYN).backend;
		send_tcp(lab, 0, ACK);
		lab->rows[old].flags |= WEIR_BACKEND_AT_LIMIT;
		lab_publish_backends(lab);
		had = backend_of(lab, old)->new_flows;
		for (uint16_t n = 1; n < 100; n++) {
			assert_int_not_equal(send_tcp(lab, n, SYN).backend, old);
		}
		assert_int_equal(send_tcp(lab, 0, ACK).backend, old);
		assert_int_equal(backend_of(lab, old)->new_flows, had);
		for (uint16_t id = 0; id < 4; id++) {
			lab->rows[id].flags |= WEIR_BACKEND_AT_LIMIT;
		}
		lab_publish_backends(lab);
		assert_int_equal(send_tcp(lab, 200, SYN).action, WEIR_ACTION_FORWARD);
		assert_int_equal(service_of(lab, 0)->spilled, 1);
		for (uint16_t id = 0; id < 4; id++) {
			lab->rows[id].flags &= (uint8_t)~WEIR_BACKEND_AT_LIMIT;
			lab->rows[id].max_active_flows = id == old ? 0 : 1;
		}
		lab_publish_backends(lab);
		for (uint16_t n = 300; n < 320; n++) {
			send_tcp(lab, n, SYN);
			send_tcp(lab, n, ACK);
		}
		assert_true(backend_of(lab, old)->new_flows >= had + 17);
		lab_check_counters(lab);
		lab_free(lab);
	}
}

// With any policy, forged SYNs and datagrams do not count towards the limit of a backend. Flows
// with a completed handshake do.
TEST(new_flow_half_open_flows_do_not_count_towards_the_limit) {
	for (int policy = 0; policy < WEIR_POLICY_COUNT; policy++) {
		struct weir_selection_params params = params_of((enum weir_policy)policy);
		struct lab *lab;

		params.settings.max_active_flows = 5;
		params.settings.when_exhausted = WEIR_EXHAUSTED_REJECT;
		lab = make(&params);
		for (uint16_t n = 0; n < 80; n++) {
			assert_int_equal(send_tcp(lab, n, SYN).action, WEIR_ACTION_FORWARD);
		}
		for (uint16_t n = 100; n < 120; n++) {
			assert_int_equal(send_tcp(lab, n, SYN).action, WEIR_ACTION_FORWARD);
			send_tcp(lab, n, ACK);
		}
		for (uint16_t n = 0; n < 4; n++) { // the clients end some of the half-open flows
			send_tcp(lab, n, RST);
		}
		assert_int_equal(send_tcp(lab, 200, SYN).action, WEIR_ACTION_DROP);
		assert_int_equal(send_tcp(lab, 201, SYN).action, WEIR_ACTION_DROP);
		lab_wait(lab, 6500);
		assert_int_equal(send_tcp(lab, 202, SYN).action, WEIR_ACTION_DROP);
		send_tcp(lab, 100, FIN_ACK);
		assert_int_equal(send_tcp(lab, 203, SYN).action, WEIR_ACTION_FORWARD);
		lab_check_counters(lab);
		lab_free(lab);
	}
}

TEST(new_flow_beyond_the_limit_spills_and_is_counted) {
	for (int policy = 0; policy < WEIR_POLICY_COUNT; policy++) {
		struct weir_selection_params params = params_of((enum weir_policy)policy);
		struct lab *lab;
		uint64_t spilled = 0;

		params.settings.max_active_flows = 5;
		params.settings.when_exhausted = WEIR_EXHAUSTED_SPILL;
		lab = make(&params);
		for (uint16_t n = 0; n < 40; n++) {
			assert_int_equal(send_tcp(lab, n, SYN).action, WEIR_ACTION_FORWARD);
			send_tcp(lab, n, ACK);
			if (n == 19) { // all backends have reached their limit, with every policy
				for (uint32_t id = 0; id < 4; id++) {
					assert_int_equal(backend_of(lab, id)->open_flows, 5);
				}
				assert_int_equal(service_of(lab, 0)->spilled, 0);
			}
		}
		for (uint32_t id = 0; id < 4; id++) {
			assert_int_equal(backend_of(lab, id)->open_flows, 10);
			spilled += backend_of(lab, id)->spilled;
		}
		assert_int_equal(service_of(lab, 0)->spilled, 20);
		assert_int_equal(spilled, 20);
		lab_check_counters(lab);
		lab_free(lab);
	}
}
