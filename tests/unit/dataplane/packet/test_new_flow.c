// SPDX-License-Identifier: BSD-3-Clause
//
// New flows: choice by policy, flow control, counters and samples, on a real segment.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "edges.h"
#include "frames.h"
#include "pipeline_lab.h"
#include "test.h"

#define FIN_ACK 0x11
#define SYN 0x02
#define RST 0x04
#define ACK 0x10
#define MS 1000000ull

static struct weir_verdict send_tcp(struct lab *lab, uint16_t n, uint8_t flags) {
	struct frame_spec spec = lab_tcp(n, flags);

	return lab_send(lab, &spec);
}

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

static const struct weir_share_counters *backend_of(const struct lab *lab, uint32_t backend) {
	return weir_segment_backend_counters(lab->segment, lab->params.worker, backend);
}

static const struct weir_share_counters *service_of(const struct lab *lab, uint32_t service) {
	return weir_segment_service_counters(lab->segment, lab->params.worker, service);
}

static struct weir_sample_ring *samples_of(const struct lab *lab) {
	return &lab->segment->worker_boxes[lab->params.worker].samples;
}

static struct weir_selection_params params_of(enum weir_policy policy) {
	return weir_selection_defaults(0, policy, LAB_SLOTS);
}

// Returns a lab in which service 0 has four backends and the policy of params.
static struct lab *make(const struct weir_selection_params *params) {
	struct lab *lab = lab_make();

	lab_publish_policy(lab, params, (uint16_t[]){0, 1, 2, 3}, 4);
	return lab;
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

TEST(new_flow_service_times_are_sampled_only_if_needed) {
	for (unsigned int times = 0; times < 2; times++) {
		struct weir_selection_params params = params_of(WEIR_POLICY_FAIR_SHARE);
		struct weir_sample_ring *ring;
		struct lab *lab;

		params.settings.needs |= times ? WEIR_NEEDS_TIMES : 0;
		lab = make(&params);
		ring = samples_of(lab);
		for (uint16_t n = 0; n < 50; n++) {
			uint16_t backend = send_tcp(lab, n, SYN).backend;

			send_tcp(lab, n, ACK);
			lab->now_ns += (10 + n) * MS;
			send_tcp(lab, n, FIN_ACK);
			if (times) {
				const struct weir_sample *sample = &ring->sample[ring->tail - 1];

				assert_int_equal(ring->tail, n + 1u);
				assert_int_equal(sample->backend, backend);
				assert_in_range(sample->service_ns, (10 + n) * MS - 20000,
					(10 + n) * MS + 20000);
			}
		}
		// A half-open flow that the client resets, and a flow that started at another
		// instance, have no service time and do not count as errors of the backend.
		send_tcp(lab, 100, SYN);
		send_tcp(lab, 100, RST);
		send_tcp(lab, 101, ACK);
		send_tcp(lab, 101, ACK);
		send_tcp(lab, 101, FIN_ACK);
		assert_int_equal(ring->tail, times ? 50 : 0);
		assert_int_equal(ring->lost, 0);
		assert_int_equal(service_of(lab, 0)->errors, 0);
		lab_free(lab);
	}
}

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

// The sample of a UDP flow is written when the flow times out, but the flow ended with its last
// packet, at most 1000 s before.
TEST(new_flow_sample_of_udp_ends_with_the_last_packet) {
	for (unsigned int late = 0; late < 2; late++) {
		struct weir_selection_params policy =
			weir_selection_defaults(1, WEIR_POLICY_LEAST_LOADED, LAB_SLOTS);
		struct weir_pipeline_params params = lab_params();
		struct frame_spec spec = lab_tcp(1, 0);
		const struct weir_sample_ring *ring;
		uint64_t last_ns, end_ns;
		struct lab *lab;

		params.flow_table.timeout_ms[WEIR_FLOW_UDP] = late ? 2000000 : 30000;
		lab = lab_open(&params);
		lab_publish_default(lab);
		policy.settings.needs |= WEIR_NEEDS_TIMES;
		lab_publish_policy(lab, &policy, (uint16_t[]){4, 5}, 2);
		ring = samples_of(lab);
		spec.protocol = 17;
		spec.destination_port = 53;
		spec.payload = 24;
		assert_int_equal(lab_send(lab, &spec).choice, WEIR_CHOICE_NEW);
		lab->now_ns += 2000 * MS;
		assert_int_equal(lab_send(lab, &spec).action, WEIR_ACTION_FORWARD);
		last_ns = lab->now_ns;
		while (ring->tail == 0 && lab->now_ns < last_ns + 4000000 * MS) {
			lab_wait(lab, 100);
		}
		assert_int_equal(ring->tail, 1);
		assert_true(lab->now_ns > last_ns + 29000 * MS);
		end_ns = (uint64_t)ring->sample[0].end * WEIR_SAMPLE_TICK_NS;
		if (late) {
			last_ns = lab->now_ns - 1000000 * MS;
		} else {
			assert_in_range(ring->sample[0].service_ns, 1700 * MS, 2300 * MS);
		}
		assert_in_range(end_ns, last_ns - 300 * MS, last_ns + 300 * MS);
		lab_free(lab);
	}
}

TEST(new_flow_samples_without_a_reader_are_lost_and_counted) {
	struct weir_selection_params params = params_of(WEIR_POLICY_FAIR_SHARE);
	struct weir_sample_ring *ring;
	struct lab *lab;
	uint64_t *head;

	params.settings.needs |= WEIR_NEEDS_TIMES;
	lab = make(&params);
	ring = samples_of(lab);
	head = &lab->control->control_boxes[lab->params.worker].samples.head;
	*head = ring->tail = 5 * WEIR_SAMPLES - 10;
	for (unsigned int i = 0; i < WEIR_SAMPLES + 100; i++) {
		uint16_t n = (uint16_t)(i % 1000);

		send_tcp(lab, n, SYN);
		lab->now_ns += MS;
		send_tcp(lab, n, FIN_ACK);
	}
	assert_int_equal(ring->tail, 6 * WEIR_SAMPLES - 10);
	assert_int_equal(ring->lost, 100);
	*head += 1;
	send_tcp(lab, 2000, SYN);
	lab->now_ns += MS;
	send_tcp(lab, 2000, FIN_ACK);
	assert_int_equal(ring->tail, 6 * WEIR_SAMPLES - 9);
	lab_free(lab);
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

// With DSR, the worker sees only the SYN of a connection that the backend refuses. The flow counts
// as an error when it has timed out.
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
