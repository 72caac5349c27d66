// SPDX-License-Identifier: BSD-3-Clause
//
// Lookup: UDP flows whose bind was moved to another service, or removed.
#include <string.h>

#include "edges.h"
#include "frames.h"
#include "pipeline_lab.h"
#include "service_table.h"
#include "test.h"

static struct weir_verdict send_query(struct lab *lab, uint8_t family, uint16_t client) {
	const struct frame_spec spec = {.family = family,
		.protocol = 17,
		.source_port = client,
		.destination_port = 53,
		.payload = 20};

	return lab_send(lab, &spec);
}

// Make UDP port 53 of both VIPs the only bind. If service is WEIR_SERVICE_NONE, bind another port
// instead.
static void bind_to(struct lab *lab, uint16_t service, enum weir_closed_ports closed) {
	bool none = service == WEIR_SERVICE_NONE;
	struct weir_service_bind binds[2] = {{.family = 4,
		.protocol = 17,
		.port_first = none ? 54 : 53,
		.port_last = none ? 54 : 53,
		.service = none ? 1 : service,
		.closed = (uint8_t)closed}};
	struct weir_service_table *table;

	memcpy(binds[0].address, frame_vip4, 16);
	binds[1] = binds[0];
	binds[1].family = 6;
	memcpy(binds[1].address, frame_vip6, 16);
	assert_int_equal(weir_service_table_build(lab->writer, binds, 2, 99, &table), 0);
	assert_int_equal(weir_writer_publish(lab->writer,
				 (struct weir_root){.kind = WEIR_BLOB_SERVICES}, table),
		0);
}

static uint64_t active(const struct lab *lab, uint32_t backend) {
	return weir_segment_backend_counters(lab->segment, lab->params.worker, backend)
		->active_flows;
}

TEST_GROUP(lab_eal);

TEST(lookup_udp_flow_follows_its_bind) {
	for (uint8_t family = 4; family <= 6; family += 2) {
		for (uint64_t wait_ms = 0; wait_ms <= 4000; wait_ms += 500) {
			struct lab *lab = lab_make();
			struct weir_verdict verdict;

			send_query(lab, family, 5000);
			assert_int_equal(send_query(lab, family, 5000).service, 1);
			bind_to(lab, 0, WEIR_CLOSED_PORTS_KERNEL);
			weir_pipeline_settle(lab->pipeline);
			lab_wait(lab, wait_ms);
			verdict = send_query(lab, family, 5000);
			assert_int_equal(verdict.action, WEIR_ACTION_FORWARD);
			assert_int_equal(verdict.choice, WEIR_CHOICE_NEW);
			assert_int_equal(verdict.service, 0);
			assert_int_equal(active(lab, 4) + active(lab, 5), 0);
			assert_int_equal(active(lab, verdict.backend), 1);
			assert_int_equal(send_query(lab, family, 5000).choice, WEIR_CHOICE_FLOW);
			lab_check_counters(lab);
			lab_free(lab);
		}
	}
}

TEST(lookup_udp_flow_ends_with_its_bind) {
	static const uint8_t actions[] = {[WEIR_CLOSED_PORTS_KERNEL] = WEIR_ACTION_KERNEL,
		[WEIR_CLOSED_PORTS_DROP] = WEIR_ACTION_DROP,
		[WEIR_CLOSED_PORTS_REJECT] = WEIR_ACTION_REPLY};

	for (unsigned int closed = 0; closed < 3; closed++) {
		struct lab *lab = lab_make();

		send_query(lab, 4, 5000);
		send_query(lab, 4, 5000);
		bind_to(lab, WEIR_SERVICE_NONE, (enum weir_closed_ports)closed);
		for (unsigned int i = 0; i < 3; i++) {
			assert_int_equal(send_query(lab, 4, 5000).action, actions[closed]);
		}
		assert_int_equal(active(lab, 4) + active(lab, 5), 0);
		lab_check_counters(lab);
		lab_free(lab);
	}
}

// The sweep ends a flow whose bind was removed, even if no packet of the flow arrives.
TEST(lookup_idle_udp_flow_ends_with_its_bind) {
	struct lab *lab = lab_make();

	send_query(lab, 4, 5000);
	send_query(lab, 4, 5000);
	send_query(lab, 6, 5001);
	assert_int_equal(active(lab, 4) + active(lab, 5), 2);
	bind_to(lab, 0, WEIR_CLOSED_PORTS_KERNEL);
	weir_pipeline_settle(lab->pipeline);
	lab_wait(lab, 2000);
	assert_int_equal(active(lab, 4) + active(lab, 5), 0);
	lab_check_counters(lab);
	lab_free(lab);
}

TEST(lookup_udp_flow_stays_when_the_services_are_published_again) {
	struct lab *lab = lab_make();
	uint16_t backend;

	send_query(lab, 4, 5000);
	backend = send_query(lab, 4, 5000).backend;
	for (unsigned int i = 0; i < 20; i++) {
		struct weir_verdict verdict;

		lab_publish_services(lab);
		lab_wait(lab, i * 200);
		verdict = send_query(lab, 4, 5000);
		assert_int_equal(verdict.choice, WEIR_CHOICE_FLOW);
		assert_int_equal(verdict.backend, backend);
	}
	lab_free(lab);
}

// S6: when the bind of a connection is removed, the connection stays with its backend, even if its
// packets use the slow lookup.
TEST(lookup_tcp_flow_stays_when_its_bind_is_removed) {
	struct lab *lab = lab_make();
	struct frame_spec spec = {.family = 4, .protocol = 6, .tcp_flags = 0x02};
	uint16_t backend = lab_send(lab, &spec).backend;

	bind_to(lab, 0, WEIR_CLOSED_PORTS_KERNEL);
	weir_pipeline_settle(lab->pipeline);
	for (unsigned int i = 0; i < 8; i++) {
		static const uint8_t flags[] = {0x02, 0x10, 0x18, 0x11};
		struct weir_verdict verdict;

		spec.tcp_flags = flags[i / 2];
		verdict = lab_send(lab, &spec);
		assert_int_equal(verdict.action, WEIR_ACTION_FORWARD);
		assert_int_equal(verdict.choice, WEIR_CHOICE_FLOW);
		assert_int_equal(verdict.backend, backend);
	}
	lab_free(lab);
}

// Replace all binds with one bind, which matches the flows of lab_tcp.
static void bind_tcp(struct lab *lab, uint16_t service) {
	struct weir_service_bind bind = {
		.family = 4, .protocol = 6, .port_first = 80, .port_last = 80, .service = service};
	struct weir_service_table *table;

	memcpy(bind.address, frame_vip4, 16);
	assert_int_equal(weir_service_table_build(lab->writer, &bind, 1, 99, &table), 0);
	assert_int_equal(weir_writer_publish(lab->writer,
				 (struct weir_root){.kind = WEIR_BLOB_SERVICES}, table),
		0);
	weir_pipeline_settle(lab->pipeline);
}

static uint8_t tcp_action(struct lab *lab, uint16_t flow, uint8_t flags) {
	const struct frame_spec spec = lab_tcp(flow, flags);

	return lab_send(lab, &spec).action;
}

// Flows of a removed bind end at most two seconds after the bind's drain has ended. Their next
// packet is answered with an RST.
TEST(lookup_tcp_flow_ends_with_the_drain_of_its_removed_bind) {
	const uint16_t removed = WEIR_BIND_DRAINED | WEIR_BIND_REMOVED;
	struct lab *lab = lab_make();

	tcp_action(lab, 1, 0x02);
	tcp_action(lab, 1, 0x10);
	bind_tcp(lab, 0 | removed);
	lab_wait(lab, 3000);
	assert_int_equal(tcp_action(lab, 1, 0x10), WEIR_ACTION_FORWARD);
	assert_int_equal(tcp_action(lab, 2, 0x02), WEIR_ACTION_REPLY);
	bind_tcp(lab, 1 | removed | WEIR_BIND_ENDED); // the bind of another service
	lab_wait(lab, 3000);
	assert_int_equal(tcp_action(lab, 1, 0x10), WEIR_ACTION_FORWARD);
	bind_tcp(lab, 0 | removed | WEIR_BIND_ENDED);
	lab_wait(lab, 2000);
	assert_int_equal(
		weir_segment_service_counters(lab->segment, lab->params.worker, 0)->active_flows,
		0);
	assert_int_equal(tcp_action(lab, 1, 0x10), WEIR_ACTION_REPLY);
	assert_int_equal(tcp_action(lab, 1, 0x04), WEIR_ACTION_DROP); // an RST gets no reply
	lab_check_counters(lab);
	lab_free(lab);
}

// After the bind has moved to another service, an ICMP error about a packet from the old backend is
// no longer sent to the old backend.
TEST(lookup_icmp_error_follows_the_bind_of_its_flow) {
	struct lab *lab = lab_make();
	const struct frame_spec reply = {.family = 4,
		.protocol = 17,
		.source = frame_vip4,
		.destination = frame_client4,
		.source_port = 53,
		.destination_port = 5000,
		.payload = 20};
	struct frame_spec error = {
		.family = 4, .protocol = 1, .icmp_type = 3, .icmp_code = 3, .payload = 28};
	struct frame f;

	frame_build(&reply, &f);
	error.body = f.bytes + f.l3;
	send_query(lab, 4, 5000);
	send_query(lab, 4, 5000);
	assert_int_equal(lab_send(lab, &error).service, 1);
	bind_to(lab, 0, WEIR_CLOSED_PORTS_KERNEL);
	assert_int_equal(lab_send(lab, &error).service, 0);
	lab_free(lab);
}
