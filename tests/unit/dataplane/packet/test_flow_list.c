// SPDX-License-Identifier: BSD-3-Clause
//
// Flow list: which flows a worker lists and ends, and how much work it does for one message.
#include <stdlib.h>
#include <string.h>

#include "flow_query.h"
#include "flow_state.h"
#include "pipeline_lab.h"
#include "test.h"

#define FIN 0x01
#define SYN 0x02
#define ACK 0x10
#define ALL_STATES 0xff
#define MANY 2000

static struct weir_message question(void) {
	return (struct weir_message){.sequence = 7,
		.kind = WEIR_MESSAGE_FLOW_LIST,
		.list = {.last = UINT32_MAX,
			.backend = WEIR_BACKEND_NONE,
			.service = WEIR_SERVICE_NONE,
			.states = ALL_STATES}};
}

static const struct weir_share_counters *backend_of(const struct lab *lab, uint32_t backend) {
	return weir_segment_backend_counters(lab->segment, lab->params.worker, backend);
}

static struct weir_message respond(struct lab *lab, struct weir_message message) {
	weir_flow_query_respond(lab->pipeline, &message, lab->now_ns);
	weir_pipeline_maintain(lab->pipeline, lab->now_ns);
	assert_int_equal(message.sequence, 7);
	assert_int_equal(message.list.answered, 1);
	assert_in_range(message.list.count, 0, WEIR_FLOW_PAGE_FLOWS);
	return message;
}

// List all flows that match the request, and store the first `most` flows in ret. Returns the
// number of flows that match.
static uint32_t list(
	struct lab *lab, struct weir_message message, struct weir_listed_flow *ret, uint32_t most) {
	const struct weir_flow_pages *pages = &lab->segment->flow_pages[lab->params.worker];
	uint32_t count = 0, lines = 1;

	for (message.list.first = 0; message.list.first < lines;
		message.list.first = message.list.next) {
		message = respond(lab, message);
		assert_true(message.list.next > message.list.first);
		assert_true(message.list.next - message.list.first <= WEIR_LIST_LINES);
		lines = message.list.lines;
		for (uint32_t i = 0; i < message.list.count && !message.list.end; i++) {
			if (count + i < most) {
				ret[count + i] =
					pages->flow[message.list.page % WEIR_FLOW_PAGES][i];
			}
		}
		count += message.list.count;
	}
	return count;
}

static uint16_t begin(struct lab *lab, uint16_t n) {
	const struct frame_spec syn = lab_tcp(n, SYN);

	return lab_send(lab, &syn).backend;
}

TEST_GROUP(lab_eal);

TEST(flow_list_has_each_flow_once) {
	struct lab *lab = lab_make();
	struct weir_listed_flow *flows = calloc(MANY, sizeof(*flows));
	bool seen[MANY] = {false};

	assert_non_null(flows);
	for (uint16_t n = 0; n < MANY; n++) {
		begin(lab, n);
	}
	assert_int_equal(list(lab, question(), flows, MANY), MANY);
	for (uint32_t i = 0; i < MANY; i++) {
		uint32_t n = rte_be_to_cpu_16(flows[i].source_port) - 1024u;

		assert_true(n < MANY && !seen[n]);
		seen[n] = true;
		assert_int_equal(flows[i].family, 4);
		assert_int_equal(flows[i].protocol, 6);
		assert_int_equal(flows[i].state, WEIR_FLOW_SYN_SEEN);
		assert_int_equal(rte_be_to_cpu_16(flows[i].destination_port), 80);
		assert_memory_equal(flows[i].source, frame_client4, 4);
		assert_memory_equal(flows[i].destination, frame_vip4, 4);
		assert_in_range(flows[i].backend, 0, 3);
	}
	free(flows);
	lab_free(lab);
}

// Create flows that differ in client address, address family, service or state.
static void prepare_mix(struct lab *lab) {
	struct frame_spec other = lab_tcp(1, SYN), six = lab_tcp(2, SYN), udp = lab_tcp(3, 0);
	const struct frame_spec ack = lab_tcp(4, ACK | 0x08), fin = lab_tcp(5, FIN | ACK);
	static const uint8_t other_client[16] = {192, 0, 3, 129};

	begin(lab, 0);
	other.source = other_client;
	lab_send(lab, &other);
	six.family = 6;
	six.source = frame_client6;
	six.destination = frame_vip6;
	lab_send(lab, &six);
	udp.protocol = 17;
	udp.destination_port = 53;
	lab_send(lab, &udp);
	begin(lab, 4);
	lab_send(lab, &ack);
	lab_send(lab, &ack);
	begin(lab, 5);
	lab_send(lab, &fin);
}

static uint32_t count(struct lab *lab, const struct weir_message *message) {
	return list(lab, *message, NULL, 0);
}

TEST(flow_list_filters) {
	struct lab *lab = lab_make();
	struct weir_message message = question();
	uint32_t of_backends = 0;

	prepare_mix(lab);
	assert_int_equal(count(lab, &message), 6);
	message.list.service = 1;
	assert_int_equal(count(lab, &message), 1);
	message.list.service = 0;
	assert_int_equal(count(lab, &message), 5);
	message = question();
	message.list.protocol = 17;
	assert_int_equal(count(lab, &message), 1);
	message = question();
	message.list.states = 1u << WEIR_FLOW_CLOSING;
	assert_int_equal(count(lab, &message), 1);
	message.list.states = 1u << WEIR_FLOW_ESTABLISHED | 1u << WEIR_FLOW_UDP_SEEN;
	assert_int_equal(count(lab, &message), 2);
	for (uint16_t backend = 0; backend < LAB_BACKENDS; backend++) {
		message = question();
		message.list.backend = backend;
		of_backends += count(lab, &message);
		assert_int_equal(count(lab, &message), backend_of(lab, backend)->active_flows);
	}
	assert_int_equal(of_backends, 6);
	lab_free(lab);
}

TEST(flow_list_compares_prefixes_of_clients) {
	struct lab *lab = lab_make();
	struct weir_message message = question();

	prepare_mix(lab);
	message.list.family = 6;
	assert_int_equal(count(lab, &message), 1);
	message.list.client_bits = 255; // treated as 128: the whole address
	assert_int_equal(count(lab, &message), 0);
	memcpy(message.list.client, frame_client6, 16);
	assert_int_equal(count(lab, &message), 1);
	message.list.family = 4;
	memcpy(message.list.client, (const uint8_t[16]){192, 0, 3, 255}, 16);
	message.list.client_bits = 24;
	assert_int_equal(count(lab, &message), 1);
	message.list.client_bits = 25; // prefix 192.0.3.128/25
	assert_int_equal(count(lab, &message), 1);
	message.list.client_bits = 26; // prefix 192.0.3.192/26
	assert_int_equal(count(lab, &message), 0);
	message.list.client_bits = 0;
	assert_int_equal(count(lab, &message), 5);
	lab_free(lab);
}

TEST(flow_list_omits_expired_flows) {
	struct lab *lab = lab_make();
	const struct weir_message message = question();

	begin(lab, 1);
	assert_int_equal(count(lab, &message), 1);
	lab->now_ns += 3600000000000ull; // the flow has expired, but no sweep has removed it
	assert_int_equal(list(lab, message, NULL, 0), 0);
	lab_free(lab);
}

TEST(flow_list_ends_flows_of_a_backend) {
	struct lab *lab = lab_make();
	struct weir_message message = question();
	uint64_t before, others = 0;
	uint16_t first = 0;

	for (uint16_t n = 0; n < MANY; n++) {
		first = begin(lab, n);
	}
	message.list.backend = first;
	message.list.end = 1;
	assert_true(backend_of(lab, first)->active_flows > WEIR_FLOW_PAGE_FLOWS);
	before = backend_of(lab, first)->active_flows;
	assert_int_equal(list(lab, message, NULL, 0), before);
	assert_int_equal(backend_of(lab, first)->active_flows, 0);
	assert_int_equal(backend_of(lab, first)->open_flows, 0);
	for (uint16_t backend = 0; backend < 4; backend++) {
		others += backend_of(lab, backend)->active_flows;
	}
	message = question();
	assert_int_equal(count(lab, &message), others);
	assert_true(others > 0);
	lab_check_counters(lab);
	lab_free(lab);
}

TEST(flow_delete_makes_the_next_packet_a_new_flow) {
	struct lab *lab = lab_make();
	struct weir_message message = lab_question(1);
	const struct frame_spec syn = lab_tcp(1, SYN), ack = lab_tcp(1, ACK);
	uint16_t backend = begin(lab, 1), other = (uint16_t)((backend + 1) % 4);

	begin(lab, 2);
	lab_send(lab, &ack);
	lab_publish_selection(lab, 0, &other, 1);
	assert_int_equal(lab_send(lab, &ack).backend, backend); // the flow stays
	message.kind = WEIR_MESSAGE_FLOW_DELETE;
	weir_flow_query_respond(lab->pipeline, &message, lab->now_ns);
	assert_int_equal(message.flow.found, 1);
	assert_int_equal(message.flow.backend, backend);
	assert_int_equal(message.flow.service, 0);
	message.kind = WEIR_MESSAGE_FLOW_LOOKUP;
	weir_flow_query_respond(lab->pipeline, &message, lab->now_ns);
	assert_int_equal(message.flow.found, 0);
	message.kind = WEIR_MESSAGE_FLOW_DELETE;
	weir_flow_query_respond(lab->pipeline, &message, lab->now_ns);
	assert_int_equal(message.flow.found, 0);
	weir_pipeline_maintain(lab->pipeline, lab->now_ns);
	lab_check_counters(lab);
	assert_int_equal(lab_send(lab, &syn).backend, other);
	lab_free(lab);
}

TEST(flow_list_survives_any_request) {
	struct lab *lab = lab_make();
	uint64_t random = 77;

	for (uint16_t n = 0; n < 300; n++) {
		begin(lab, n);
	}
	for (unsigned int i = 0; i < 20000; i++) {
		struct weir_message message = question();

		for (unsigned int k = 0; k < 6; k++) {
			message.bytes[frame_random(&random) % sizeof(message.list)] =
				(uint8_t)frame_random(&random);
		}
		respond(lab, message);
	}
	lab_check_counters(lab);
	lab_free(lab);
}
