// SPDX-License-Identifier: BSD-3-Clause
//
// Closed port: binds that are drained, and binds whose flows have ended.
#include <stdlib.h>
#include <string.h>

#include "frames.h"
#include "pipeline_lab.h"
#include "service_table.h"
#include "test.h"

#define FIN 0x01
#define SYN 0x02
#define RST 0x04
#define ACK 0x10

#define DRAINED WEIR_BIND_DRAINED
#define ENDED (WEIR_BIND_DRAINED | WEIR_BIND_ENDED)

static struct weir_verdict send_tcp(struct lab *lab, uint16_t n, uint8_t flags) {
	struct frame_spec spec = lab_tcp(n, flags);

	return lab_send(lab, &spec);
}

static struct weir_verdict send_udp(struct lab *lab, uint16_t n) {
	const struct frame_spec spec = {.family = 4,
		.protocol = 17,
		.source_port = (uint16_t)(1024 + n),
		.destination_port = 53};

	return lab_send(lab, &spec);
}

// Send a "port unreachable" from a router to the VIP. It quotes a packet from the service to
// client n.
static struct weir_verdict send_icmp_error(struct lab *lab, uint16_t n) {
	const struct frame_spec quoted = {.family = 4,
		.protocol = 17,
		.source = frame_vip4,
		.destination = frame_client4,
		.source_port = 53,
		.destination_port = (uint16_t)(1024 + n)};
	struct frame inner;
	struct frame_spec spec = {.family = 4, .protocol = 1, .icmp_type = 3, .icmp_code = 3};

	frame_build(&quoted, &inner);
	spec.body = inner.bytes + inner.l3;
	spec.payload = 28;
	return lab_send(lab, &spec);
}

static void check_forwarded(const struct weir_verdict *verdict, uint16_t backend) {
	assert_string_equal(weir_action_name((enum weir_action)verdict->action), "forward");
	assert_int_equal(verdict->backend, backend);
}

// Check that the packet was answered with an RST or "port unreachable".
static void check_refused(const struct weir_verdict *verdict, enum weir_drop_reason reason) {
	assert_string_equal(weir_action_name((enum weir_action)verdict->action), "reply");
	assert_string_equal(weir_drop_reason_name((enum weir_drop_reason)verdict->reason),
		weir_drop_reason_name(reason));
}

static const struct weir_share_counters *backend_of(const struct lab *lab, uint32_t backend) {
	return weir_segment_backend_counters(lab->segment, lab->params.worker, backend);
}

// Publish the tables that control publishes when all flows of the services have ended.
static void end_flows(struct lab *lab) {
	for (unsigned int id = 0; id < 6; id++) {
		lab->rows[id].flags |= WEIR_BACKEND_CLOSED | WEIR_BACKEND_DOWN | WEIR_BACKEND_RESET;
	}
	lab_publish_backends(lab);
	lab_publish_binds(lab, ENDED);
}

TEST_GROUP(lab_eal);

TEST(drained_bind_keeps_the_flows_that_have_begun) {
	struct lab *lab = lab_make();
	uint16_t half_open = send_tcp(lab, 1, SYN).backend;
	uint16_t established = send_tcp(lab, 2, SYN).backend, udp = send_udp(lab, 3).backend;
	struct weir_verdict verdict;

	send_tcp(lab, 2, ACK);
	lab_publish_binds(lab, DRAINED);
	verdict = send_tcp(lab, 1, SYN); // a retransmission
	check_forwarded(&verdict, half_open);
	verdict = send_tcp(lab, 1, ACK);
	check_forwarded(&verdict, half_open);
	verdict = send_tcp(lab, 2, SYN); // from the same client, or forged
	check_forwarded(&verdict, established);
	verdict = send_tcp(lab, 2, ACK);
	check_forwarded(&verdict, established);
	verdict = send_tcp(lab, 9, ACK); // the flow began before this instance got its packets
	assert_int_equal(verdict.action, WEIR_ACTION_FORWARD);
	verdict = send_udp(lab, 3);
	check_forwarded(&verdict, udp);
	verdict = send_icmp_error(lab, 3);
	check_forwarded(&verdict, udp);
	lab_check_counters(lab);
	lab_free(lab);
}

TEST(drained_bind_refuses_new_flows) {
	struct lab *lab = lab_make();
	struct weir_verdict verdict;

	send_tcp(lab, 2, SYN);
	send_tcp(lab, 2, ACK);
	lab_publish_binds(lab, DRAINED);
	verdict = send_tcp(lab, 1, SYN);
	check_refused(&verdict, WEIR_DROP_CLOSED_PORT);
	verdict = send_tcp(lab, 1, SYN | ACK);
	assert_int_not_equal(verdict.choice, WEIR_CHOICE_NEW);
	verdict = send_udp(lab, 3);
	check_refused(&verdict, WEIR_DROP_CLOSED_PORT);
	send_tcp(lab, 2, RST);
	verdict = send_tcp(lab, 2, SYN); // the next connection from the same client port
	check_refused(&verdict, WEIR_DROP_CLOSED_PORT);
	lab_publish_binds(lab, 0);
	verdict = send_tcp(lab, 1, SYN);
	assert_int_equal(verdict.action, WEIR_ACTION_FORWARD);
	lab_check_counters(lab);
	lab_free(lab);
}

TEST(bind_whose_flows_have_ended_refuses_all_packets) {
	struct lab *lab = lab_make();
	uint16_t half_open = send_tcp(lab, 1, SYN).backend;
	uint16_t established = send_tcp(lab, 2, SYN).backend, udp = send_udp(lab, 3).backend;
	uint16_t other = send_tcp(lab, 4, SYN).backend;
	struct weir_verdict verdict;

	send_tcp(lab, 2, ACK);
	send_tcp(lab, 4, ACK);
	end_flows(lab);
	verdict = send_udp(lab, 3);
	check_refused(&verdict, WEIR_DROP_CLOSED_PORT);
	assert_int_equal(backend_of(lab, udp)->active_flows, 0);
	verdict = send_icmp_error(lab, 3);
	assert_int_equal(verdict.action, WEIR_ACTION_DROP);
	verdict = send_tcp(lab, 1, SYN); // a retransmission
	check_refused(&verdict, WEIR_DROP_BACKEND_DOWN);
	assert_int_equal(backend_of(lab, half_open)->packets, 1);
	verdict = send_tcp(lab, 2, ACK);
	check_refused(&verdict, WEIR_DROP_BACKEND_DOWN);
	verdict = send_tcp(lab, 4, SYN); // the next connection from the same client port
	check_refused(&verdict, WEIR_DROP_BACKEND_DOWN);
	for (uint16_t n = 1; n < 10; n++) {
		verdict = send_tcp(lab, n, SYN);
		check_refused(&verdict, WEIR_DROP_CLOSED_PORT);
		verdict = send_tcp(lab, n, ACK);
		check_refused(&verdict, WEIR_DROP_CLOSED_PORT);
	}
	assert_int_equal(backend_of(lab, established)->active_flows, 0);
	assert_int_equal(backend_of(lab, other)->active_flows, 0);
	lab_check_counters(lab);
	lab_free(lab);
}
