// SPDX-License-Identifier: BSD-3-Clause
//
// Samples of ended flows: their service times, for the policies in control.
#include "new_flow_lab.h"
#include "test.h"

static struct weir_sample_ring *samples_of(const struct lab *lab) {
	return &lab->segment->worker_boxes[lab->params.worker].samples;
}

TEST_GROUP(lab_eal);

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
