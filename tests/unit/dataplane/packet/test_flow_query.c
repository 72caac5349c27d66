// SPDX-License-Identifier: BSD-3-Clause
//
// Flow query: a worker's responses to requests about flows.
#include <errno.h>
#include <string.h>

#include "flow_query.h"
#include "flow_state.h"
#include "pipeline_lab.h"
#include "test.h"

#define SYN 0x02
#define ACK 0x10

static struct weir_verdict send_tcp(struct lab *lab, uint16_t n, uint8_t flags) {
	struct frame_spec spec = lab_tcp(n, flags);

	return lab_send(lab, &spec);
}

TEST_GROUP(lab_eal);

TEST(flow_query_reports_flow_and_choice) {
	struct lab *lab = lab_make();
	struct weir_message message = lab_question(1);
	struct weir_verdict verdict;

	weir_flow_query_respond(lab->pipeline, &message, lab->now_ns);
	assert_int_equal(message.sequence, 7);
	assert_int_equal(message.flow.found, 0);
	assert_int_equal(message.flow.backend, WEIR_BACKEND_NONE);
	assert_int_equal(message.flow.service, 0);
	assert_true(message.flow.slot < LAB_SLOTS);
	verdict = send_tcp(lab, 1, SYN);
	assert_int_equal(message.flow.chosen, verdict.backend);
	lab_publish_selection(lab, 0, (uint16_t[]){(uint16_t)((verdict.backend + 1) % 4)}, 1);
	lab->now_ns += 1234000000;
	weir_flow_query_respond(lab->pipeline, &message, lab->now_ns);
	assert_int_equal(message.flow.found, 1);
	assert_int_equal(message.flow.state, WEIR_FLOW_SYN_SEEN);
	assert_int_equal(message.flow.backend, verdict.backend);
	assert_int_equal(message.flow.chosen, (verdict.backend + 1) % 4);
	assert_in_range(message.flow.idle_ms, 1200, 1260);
	lab_free(lab);
}

TEST(flow_query_survives_any_request) {
	struct lab *lab = lab_make();
	uint64_t random = 99;

	send_tcp(lab, 1, SYN);
	for (unsigned int i = 0; i < 20000; i++) {
		struct weir_message message = lab_question(1);

		for (unsigned int k = 0; k < 4; k++) {
			message.bytes[frame_random(&random) % 40] = (uint8_t)frame_random(&random);
		}
		message.kind = frame_random(&random) % 8 == 0 ? (uint32_t)frame_random(&random) : 1;
		weir_flow_query_respond(lab->pipeline, &message, lab->now_ns);
	}
	assert_int_equal(send_tcp(lab, 1, ACK).choice, WEIR_CHOICE_FLOW);
	lab_free(lab);
}

TEST(flow_query_about_another_destination_reports_no_service) {
	struct lab *lab = lab_make();
	struct weir_message message = lab_question(1);

	message.flow.destination_port = 81;
	weir_flow_query_respond(lab->pipeline, &message, lab->now_ns);
	assert_int_equal(message.flow.service, WEIR_SERVICE_NONE);
	assert_int_equal(message.flow.chosen, WEIR_BACKEND_NONE);
	message = lab_question(1);
	message.flow.protocol = 1;
	weir_flow_query_respond(lab->pipeline, &message, lab->now_ns);
	assert_int_equal(message.flow.service, WEIR_SERVICE_NONE);
	assert_int_equal(message.flow.found, 0);
	lab_free(lab);
}
