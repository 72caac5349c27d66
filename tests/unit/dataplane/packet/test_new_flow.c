// SPDX-License-Identifier: BSD-3-Clause
//
// New flows: choice of a backend by policy, and entry into the flow table, on a real segment.
#include "frames.h"
#include "new_flow_lab.h"
#include "test.h"

// Process packets of flow n in one burst, then finish an iteration of the worker.
static void send_burst(struct lab *lab, uint16_t n, const uint8_t *flags, uint16_t count,
	struct weir_verdict *verdicts) {
	struct rte_mbuf *pkts[WEIR_BURST];

	for (uint16_t i = 0; i < count; i++) {
		struct frame_spec spec = lab_tcp(n, flags[i]);
		struct frame f;

		frame_build(&spec, &f);
		pkts[i] = frame_mbuf(f.bytes, f.n, 128);
	}
	weir_pipeline_process(lab->pipeline, pkts, count, LAB_IN_PORT, lab->now_ns, verdicts);
	weir_pipeline_maintain(lab->pipeline, lab->now_ns);
	for (uint16_t i = 0; i < count; i++) {
		frame_mbuf_free(pkts[i]);
	}
}

TEST_GROUP(lab_eal);

TEST(new_flow_round_robin_is_exact) {
	struct weir_selection_params params = params_of(WEIR_POLICY_ROUND_ROBIN);
	struct lab *lab = make(&params);

	for (uint16_t n = 0; n < 4001; n++) {
		struct weir_verdict verdict = send_tcp(lab, n, SYN);

		assert_int_equal(verdict.action, WEIR_ACTION_FORWARD);
		assert_int_equal(verdict.choice, WEIR_CHOICE_NEW);
		assert_int_equal(send_tcp(lab, n, ACK).backend, verdict.backend);
		send_tcp(lab, n, FIN_ACK);
	}
	for (uint32_t id = 0; id < 4; id++) {
		assert_in_range(backend_of(lab, id)->new_flows, 1000, 1001);
	}
	lab_check_counters(lab);
	lab_free(lab);
}

TEST(new_flow_every_policy_forwards_and_counts) {
	for (int policy = 0; policy < WEIR_POLICY_COUNT; policy++) {
		struct weir_selection_params params = params_of((enum weir_policy)policy);
		struct lab *lab = make(&params);
		unsigned int seen = 0;

		for (uint16_t n = 0; n < 400; n++) {
			struct weir_verdict verdict;

			lab->now_ns += MS;
			verdict = send_tcp(lab, n, SYN);
			assert_int_equal(verdict.action, WEIR_ACTION_FORWARD);
			assert_true(verdict.backend < 4);
			seen |= 1u << verdict.backend;
			send_tcp(lab, n, ACK);
			if (n >= 10) {
				send_tcp(lab, (uint16_t)(n - 10), FIN_ACK);
			}
		}
		assert_int_equal(seen, 0xf);
		assert_int_equal(service_of(lab, 0)->open_flows, 10);
		assert_int_equal(service_of(lab, 0)->active_flows, 400);
		lab_check_counters(lab);
		lab_free(lab);
	}
}

// S6: a change of policy moves no flow, and the new policy applies to new flows at once.
TEST(new_flow_s6_policy_changes_live) {
	struct weir_selection_params params = params_of(WEIR_POLICY_MAGLEV);
	struct lab *lab = make(&params);
	uint16_t backend[200];

	for (uint16_t n = 0; n < 200; n++) {
		backend[n] = send_tcp(lab, n, SYN).backend;
		send_tcp(lab, n, ACK);
	}
	for (int policy = WEIR_POLICY_COUNT - 1; policy >= 0; policy--) {
		params = params_of((enum weir_policy)policy);
		lab_publish_policy(lab, &params, (uint16_t[]){0, 1, 2, 3}, 4);
		for (uint16_t n = 0; n < 200; n++) {
			assert_int_equal(send_tcp(lab, n, ACK).backend, backend[n]);
		}
		if (policy == WEIR_POLICY_ROUND_ROBIN) {
			uint64_t before[4];

			for (uint32_t id = 0; id < 4; id++) {
				before[id] = backend_of(lab, id)->new_flows;
			}
			for (uint16_t n = 0; n < 40; n++) {
				send_tcp(lab, (uint16_t)(1000 + n), SYN);
			}
			for (uint32_t id = 0; id < 4; id++) {
				assert_int_equal(backend_of(lab, id)->new_flows, before[id] + 10);
			}
		}
	}
	// Flows that started under Maglev are included in the counts of other policies.
	params = params_of(WEIR_POLICY_LEAST_LOADED);
	lab_publish_policy(lab, &params, (uint16_t[]){0, 1, 2, 3}, 4);
	for (uint16_t n = 0; n < 200; n++) {
		if (backend[n] == 2) {
			send_tcp(lab, n, FIN_ACK);
		}
	}
	for (uint16_t n = 0; n < 20; n++) {
		assert_int_equal(send_tcp(lab, (uint16_t)(2000 + n), SYN).backend, 2);
	}
	lab_check_counters(lab);
	lab_free(lab);
}

// While half-open flows evict each other, the entry of a SYN may be evicted before its ACK arrives.
// With any policy, both packets still go to the same backend, because the Maglev fallback chooses
// the backend of both.
TEST(new_flow_syn_and_ack_agree_in_a_flood) {
	for (int policy = 0; policy < WEIR_POLICY_COUNT; policy++) {
		struct weir_pipeline_params pipeline = lab_params();
		struct weir_selection_params params = params_of((enum weir_policy)policy);
		struct lab *lab;

		pipeline.flow_table.flows = 1024;
		pipeline.flow_table.half_open_percent = 25;
		lab = lab_open(&pipeline);
		lab_publish_default(lab);
		lab_publish_policy(lab, &params, (uint16_t[]){0, 1, 2, 3}, 4);
		for (uint16_t n = 0; n < 1000; n++) {
			send_tcp(lab, (uint16_t)(10000 + n), SYN);
		}
		// the half-open flows are no longer protected from eviction
		lab_wait(lab, WEIR_FLOW_HANDSHAKE_MS + 10);
		for (uint16_t n = 0; n < 100; n++) {
			uint16_t backend = send_tcp(lab, n, SYN).backend;

			for (uint16_t k = 0; k < 300; k++) {
				send_tcp(lab, (uint16_t)(20000 + n * 300 + k), SYN);
			}
			assert_int_equal(send_tcp(lab, n, ACK).backend, backend);
			assert_int_equal(send_tcp(lab, n, ACK).backend, backend);
		}
		assert_true(lab_counters(lab)->flow_half_open_evicted > 10000);
		lab_check_counters(lab);
		lab_free(lab);
	}
}

// Policies also work for a service other than the first one. The ids of its backends differ from
// the backends' indexes in the list of candidates.
TEST(new_flow_policies_work_for_any_service) {
	static const enum weir_policy policies[] = {
		WEIR_POLICY_LEAST_LOADED, WEIR_POLICY_FAIR_SHARE};

	for (unsigned int p = 0; p < 2; p++) {
		for (unsigned int limit = 0; limit < 2; limit++) {
			struct weir_selection_params params =
				weir_selection_defaults(1, policies[p], LAB_SLOTS);
			struct lab *lab = lab_make();
			unsigned int dropped = 0;

			params.settings.max_active_flows = limit ? 5 : 0;
			params.settings.when_exhausted = WEIR_EXHAUSTED_REJECT;
			lab_publish_policy(lab, &params, (uint16_t[]){4, 5}, 2);
			for (uint16_t n = 0; n < 100; n++) {
				struct frame_spec spec = lab_tcp(n, 0);

				spec.protocol = 17;
				spec.destination_port = 53;
				dropped += lab_send(lab, &spec).action == WEIR_ACTION_DROP;
				lab_send(lab, &spec); // this packet makes the flow established
			}
			assert_int_equal(dropped, limit ? 90 : 0);
			assert_int_equal(backend_of(lab, 4)->open_flows, limit ? 5 : 50);
			assert_int_equal(backend_of(lab, 5)->open_flows, limit ? 5 : 50);
			lab_check_counters(lab);
			lab_free(lab);
		}
	}
}

// With the fair-share policy, the predicted end of a backend's flows is far in the future. When
// another service reuses the backend's id, this prediction is reset together with the row.
TEST(new_flow_reused_id_inherits_nothing) {
	struct weir_selection_params first = params_of(WEIR_POLICY_FAIR_SHARE);
	struct weir_selection_params second =
		weir_selection_defaults(1, WEIR_POLICY_FAIR_SHARE, LAB_SLOTS);
	struct lab *lab = lab_make();

	lab->control->costs[3] = 1000 * MS;
	lab->rows[3].flags |= WEIR_BACKEND_AT_LIMIT;
	lab_publish_backends(lab);
	lab_publish_policy(lab, &first, (uint16_t[]){3}, 1);
	for (uint16_t n = 0; n < 1000; n++) {
		send_tcp(lab, n, SYN);
		send_tcp(lab, n, FIN_ACK);
	}
	lab_publish_policy(lab, &first, (uint16_t[]){0}, 1);
	lab_wait(lab, 12000);
	assert_int_equal(backend_of(lab, 3)->active_flows, 0);
	lab->control->costs[3] = 0;
	lab->rows[3].service = 1;
	lab->rows[3].flags &= (uint8_t)~WEIR_BACKEND_AT_LIMIT;
	lab_publish_backends(lab);
	lab_publish_policy(lab, &second, (uint16_t[]){3, 4, 5}, 3);
	for (uint16_t n = 0; n < 300; n++) {
		struct frame_spec spec = lab_tcp(n, 0);

		spec.protocol = 17;
		spec.destination_port = 53;
		lab_send(lab, &spec);
	}
	assert_int_equal(backend_of(lab, 4)->open_flows, 100);
	assert_int_equal(backend_of(lab, 5)->open_flows, 100);
	lab_free(lab);
}

// A client reuses a port, and the SYN and later packets arrive in one burst. All of these packets
// go to the backend of the SYN.
TEST(new_flow_includes_the_rest_of_its_burst) {
	static const uint8_t flags[] = {SYN, ACK, ACK};
	struct weir_selection_params params = params_of(WEIR_POLICY_ROUND_ROBIN);
	struct lab *lab = make(&params);
	uint16_t old = send_tcp(lab, 1, SYN).backend;
	struct weir_verdict verdicts[3];

	send_tcp(lab, 1, FIN_ACK);
	send_burst(lab, 1, flags, 3, verdicts);
	assert_int_equal(verdicts[0].choice, WEIR_CHOICE_NEW);
	assert_int_not_equal(verdicts[0].backend, old);
	for (unsigned int i = 0; i < 3; i++) {
		assert_int_equal(verdicts[i].backend, verdicts[0].backend);
	}
	assert_int_equal(send_tcp(lab, 1, ACK).backend, verdicts[0].backend);
	lab_check_counters(lab);
	lab_free(lab);
}

// A burst contains a SYN of an existing flow (the SYN may be forged), followed by a FIN or an RST.
// They are processed in order.
TEST(new_flow_syn_of_a_known_flow_is_not_overtaken) {
	static const uint8_t last[] = {FIN_ACK, RST};

	for (unsigned int i = 0; i < 2; i++) {
		const uint8_t flags[] = {SYN, last[i]};
		struct weir_selection_params params = params_of(WEIR_POLICY_ROUND_ROBIN);
		struct lab *lab = make(&params);
		uint16_t backend = send_tcp(lab, 7, SYN).backend;
		struct weir_verdict verdicts[2];

		assert_int_equal(send_tcp(lab, 7, ACK).backend, backend);
		send_burst(lab, 7, flags, 2, verdicts);
		for (unsigned int k = 0; k < 2; k++) {
			assert_int_equal(verdicts[k].backend, backend);
			assert_int_equal(verdicts[k].choice, WEIR_CHOICE_FLOW);
		}
		assert_int_equal(service_of(lab, 0)->new_flows, 1);
		assert_int_equal(service_of(lab, 0)->open_flows, 0);
		// The flow has ended, so this SYN starts a new flow.
		assert_int_equal(send_tcp(lab, 7, SYN).choice, WEIR_CHOICE_NEW);
		lab_check_counters(lab);
		lab_free(lab);
	}
}

// A client reuses a port. The port's old flow has expired, but the sweep has not yet removed it.
// The old flow must end before the entry of the new flow is created.
TEST(new_flow_replaces_its_expired_entry) {
	struct weir_selection_params params = params_of(WEIR_POLICY_ROUND_ROBIN);
	struct lab *lab = make(&params);

	for (uint16_t n = 0; n < 100; n++) {
		send_tcp(lab, n, SYN);
		send_tcp(lab, n, ACK);
		send_tcp(lab, n, FIN_ACK);
	}
	// longer than the timeout of a closing flow, in one iteration
	lab->now_ns += 12 * 1000 * MS;
	for (uint16_t n = 0; n < 100; n++) {
		struct frame_spec spec = lab_tcp(n, SYN);
		struct weir_verdict verdict;
		struct rte_mbuf *pkt;
		struct frame f;

		frame_build(&spec, &f);
		pkt = frame_mbuf(f.bytes, f.n, 128);
		weir_pipeline_process(lab->pipeline, &pkt, 1, LAB_IN_PORT, lab->now_ns, &verdict);
		assert_int_equal(verdict.choice, WEIR_CHOICE_NEW);
		frame_mbuf_free(pkt);
	}
	weir_pipeline_maintain(lab->pipeline, lab->now_ns);
	assert_int_equal(service_of(lab, 0)->completed, 100);
	assert_int_equal(service_of(lab, 0)->active_flows, 100);
	lab_check_counters(lab);
	lab_free(lab);
}

// If the flow table is full, the Maglev fallback chooses the backend for all packets of a flow,
// including the first packet.
TEST(new_flow_untracked_packets_agree) {
	struct weir_pipeline_params pipeline = lab_params();
	struct weir_selection_params params = params_of(WEIR_POLICY_ROUND_ROBIN);
	unsigned int untracked = 0, seen = 0;
	struct lab *lab;

	pipeline.flow_table.flows = 64;
	pipeline.flow_table.half_open_percent = 50;
	lab = lab_open(&pipeline);
	lab_publish_default(lab);
	lab_publish_policy(lab, &params, (uint16_t[]){0, 1, 2, 3}, 4);
	for (uint16_t n = 0; n < 500; n++) {
		struct weir_verdict first = send_tcp(lab, n, SYN), second, third;

		assert_int_equal(first.action, WEIR_ACTION_FORWARD);
		second = send_tcp(lab, n, ACK);
		third = send_tcp(lab, n, ACK);
		assert_int_equal(second.backend, first.backend);
		assert_int_equal(third.backend, first.backend);
		// The packets that end the flow go to the same backend.
		if (first.choice == WEIR_CHOICE_UNTRACKED) {
			assert_int_equal(send_tcp(lab, n, FIN_ACK).backend, first.backend);
			assert_int_equal(send_tcp(lab, n, RST).backend, first.backend);
		}
		if (first.choice == WEIR_CHOICE_UNTRACKED) {
			untracked++;
			seen |= 1u << first.backend;
		}
	}
	assert_true(untracked > 300);
	assert_int_equal(seen, 0xf);
	assert_in_range(lab_counters(lab)->flow_untracked, untracked, 3 * untracked);
	lab_check_counters(lab);
	lab_free(lab);
}
