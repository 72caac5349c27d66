// SPDX-License-Identifier: BSD-3-Clause
#include "pipeline_lab.h"

#include <stdlib.h>
#include <string.h>

#include <rte_eal.h>
#include <rte_memory.h>

#include "frames.h"
#include "selection.h"
#include "service_table.h"
#include "test.h"

int lab_eal(void **state) {
	char *argv[] = {"test", "--no-huge", "--no-pci", "--no-shconf", "--no-telemetry", "-m",
		"128", "--log-level=error", "-l", "0", NULL};

	(void)state;
	return rte_eal_init(10, argv) < 0 ? -1 : 0;
}

struct weir_pipeline_params lab_params(void) {
	return (struct weir_pipeline_params){
		.flow_table = {.flows = 4096,
			.half_open_percent = 50,
			.ipv6_percent = 25,
			.timeout_ms = {5000, 900000, 10000, 30000, 10000, 5000},
			.socket = SOCKET_ID_ANY},
		.hash_seed = LAB_SEED,
		.icmp = {.echo = 1000000, .too_big = 1000000, .unreachable = 1000000},
		.fragments = {.entries = 64, .timeout_ms = 1000},
	};
}

struct lab *lab_open(const struct weir_pipeline_params *params) {
	struct weir_port_info ports[LAB_PORTS] = {0};
	struct weir_segment_params segment_params = {.workers = 2,
		.ports = LAB_PORTS,
		.max_services = LAB_SERVICES,
		.max_backends = LAB_BACKENDS,
		.heap_bytes = 64 << 20,
		.tsc_hz = 2000000000,
		.hash_seed = LAB_SEED,
		.port_info = ports};
	struct lab *lab = calloc(1, sizeof(*lab));

	assert_non_null(lab);
	memcpy(ports[LAB_IN_PORT].mac, frame_our_mac, sizeof(frame_our_mac));
	for (unsigned int i = 0; i < LAB_PORTS; i++) {
		ports[i].mtu = LAB_MTU;
	}
	assert_int_equal(weir_segment_create(&segment_params, &lab->segment), 0);
	assert_int_equal(weir_segment_attach_own(lab->segment, &lab->control), 0);
	assert_int_equal(weir_writer_open(lab->control, &lab->writer), 0);
	assert_int_equal(weir_writer_reserve(lab->writer, LAB_SERVICES, LAB_BACKENDS), 0);
	lab->params = *params;
	lab->params.segment = lab->segment;
	lab->params.worker = 1;
	assert_int_equal(weir_pipeline_create(&lab->params, &lab->pipeline), 0);
	lab->now_ns = LAB_NOW;
	return lab;
}

struct lab *lab_make(void) {
	struct weir_pipeline_params params = lab_params();
	struct lab *lab = lab_open(&params);

	lab_publish_default(lab);
	return lab;
}

void lab_free(struct lab *lab) {
	weir_pipeline_free(lab->pipeline);
	weir_writer_free(lab->writer);
	weir_segment_free(lab->control);
	weir_segment_free(lab->segment);
	free(lab);
}

void lab_publish_binds(struct lab *lab, uint16_t flags) {
	struct weir_service_bind binds[6] = {
		{.protocol = 6, .port_first = 80, .port_last = 80, .service = 0},
		{.protocol = 6, .port_first = 8000, .port_last = 8999, .service = 0},
		{.protocol = 17, .port_first = 53, .port_last = 53, .service = 1},
	};
	struct weir_service_table *table;

	for (unsigned int i = 0; i < 3; i++) {
		binds[i].service |= flags;
		binds[i].family = 4;
		memcpy(binds[i].address, frame_vip4, 16);
		binds[i + 3] = binds[i];
		binds[i + 3].family = 6;
		memcpy(binds[i + 3].address, frame_vip6, 16);
	}
	assert_int_equal(weir_service_table_build(lab->writer, binds, 6, 99, &table), 0);
	assert_int_equal(weir_writer_publish(lab->writer,
				 (struct weir_root){.kind = WEIR_BLOB_SERVICES}, table),
		0);
}

void lab_publish_services(struct lab *lab) {
	lab_publish_binds(lab, 0);
}

void lab_publish_backends(struct lab *lab) {
	for (uint16_t id = 0; id < LAB_BACKENDS; id++) {
		weir_writer_publish_row(lab->writer, id, &lab->rows[id]);
	}
}

void lab_publish_selection(struct lab *lab, uint16_t service, const uint16_t *ids, uint32_t n) {
	struct weir_selection_params params =
		weir_selection_defaults(service, WEIR_POLICY_MAGLEV, LAB_SLOTS);

	lab_publish_policy(lab, &params, ids, n);
}

void lab_publish_policy(struct lab *lab, const struct weir_selection_params *params,
	const uint16_t *ids, uint32_t n) {
	struct weir_selection_member members[LAB_BACKENDS];
	struct weir_selection *selection;

	for (uint32_t i = 0; i < n; i++) {
		members[i] = (struct weir_selection_member){
			.identity = 0x5851f42d4c957f2dull * (ids[i] + 1u),
			.id = ids[i],
			.weight = 1};
	}
	assert_int_equal(weir_selection_build(lab->writer, params, members, n, &selection), 0);
	assert_int_equal(
		weir_writer_publish(lab->writer,
			(struct weir_root){.kind = WEIR_BLOB_SELECTION, .service = params->service},
			selection),
		0);
}

void lab_publish_default(struct lab *lab) {
	for (uint16_t id = 0; id < 6; id++) {
		struct weir_backend_path path = {.family = id % 2 == 0 ? 4 : 6,
			.port = id < 4 ? 2 : 0,
			.next_hop_mac = {2, 0, 0, 1, 0, (uint8_t)id},
			.port_mac = {2, 0, 0, 2, 0, (uint8_t)id},
			.vlan = id == 2 || id == 3 ? 77 : 0,
			.mtu = LAB_MTU,
			.service = id < 4 ? 0 : 1,
			.resolved = 1};

		memcpy(path.address, (uint8_t[]){10, 0, 0, (uint8_t)(11 + id)}, 4);
		memcpy(path.source, (uint8_t[]){10, 0, 0, 1}, 4);
		if (path.family == 6) {
			memcpy(path.address, frame_vip6, 16);
			memcpy(path.source, frame_vip6, 16);
			path.address[14] = 1;
			path.address[15] = (uint8_t)(11 + id);
			path.source[14] = 1;
			path.source[15] = 1;
		}
		weir_backend_row_build(&path, &lab->rows[id]);
	}
	lab_publish_backends(lab);
	lab_publish_selection(lab, 0, (uint16_t[]){0, 1, 2, 3}, 4);
	lab_publish_selection(lab, 1, (uint16_t[]){4, 5}, 2);
	lab_publish_services(lab);
	if (lab->pipeline != NULL) {
		weir_pipeline_settle(lab->pipeline);
	}
}

struct weir_verdict lab_process(struct lab *lab, struct rte_mbuf *m) {
	struct weir_verdict verdict;

	weir_pipeline_settle(lab->pipeline);
	weir_pipeline_process(lab->pipeline, &m, 1, LAB_IN_PORT, lab->now_ns, &verdict);
	weir_pipeline_maintain(lab->pipeline, lab->now_ns);
	return verdict;
}

struct weir_verdict lab_send(struct lab *lab, const struct frame_spec *spec) {
	struct weir_verdict verdict;
	struct rte_mbuf *m;
	struct frame f;

	frame_build(spec, &f);
	m = frame_mbuf(f.bytes, f.n, RTE_PKTMBUF_HEADROOM);
	verdict = lab_process(lab, m);
	frame_mbuf_free(m);
	return verdict;
}

struct frame_spec lab_tcp(uint16_t n, uint8_t flags) {
	return (struct frame_spec){.family = 4,
		.protocol = 6,
		.tcp_flags = flags,
		.source_port = (uint16_t)(1024 + n)};
}

struct weir_message lab_question(uint16_t n) {
	struct weir_message message = {.kind = WEIR_MESSAGE_FLOW_LOOKUP, .sequence = 7};

	memcpy(message.flow.source, frame_client4, 16);
	memcpy(message.flow.destination, frame_vip4, 16);
	message.flow.source_port = (uint16_t)(1024 + n);
	message.flow.destination_port = 80;
	message.flow.family = 4;
	message.flow.protocol = 6;
	return message;
}

void lab_wait(struct lab *lab, uint64_t ms) {
	for (uint64_t i = 0; i < ms; i += 10) {
		lab->now_ns += 10000000;
		weir_pipeline_maintain(lab->pipeline, lab->now_ns);
	}
}

const struct weir_worker_counters *lab_counters(const struct lab *lab) {
	return &lab->segment->worker_counters[lab->params.worker];
}

void lab_check_counters(const struct lab *lab) {
	const struct weir_worker_counters *c = lab_counters(lab);
	uint64_t drops = 0, new_flows = 0, active = 0, packets = 0;

	for (unsigned int i = 0; i < WEIR_DROP_REASON_SLOTS; i++) {
		drops += c->drops[i];
	}
	assert_int_equal(drops, c->dropped);
	assert_int_equal(c->rx_packets + c->fragments_made,
		c->forwarded + c->replied + c->to_kernel + c->dropped + c->handed_over);
	for (uint32_t i = 0; i < LAB_SERVICES; i++) {
		const struct weir_share_counters *s =
			weir_segment_service_counters(lab->segment, lab->params.worker, i);

		assert_int_equal(s->active_flows <= s->new_flows, 1);
		new_flows += s->new_flows;
		active += s->active_flows;
		packets += s->packets;
	}
	assert_int_equal(new_flows, c->flow_new + c->datagrams);
	assert_int_equal(active, c->flows);
	assert_int_equal(packets, c->forwarded);
	for (uint32_t i = 0; i < LAB_BACKENDS; i++) {
		const struct weir_share_counters *s =
			weir_segment_backend_counters(lab->segment, lab->params.worker, i);

		new_flows -= s->new_flows;
		active -= s->active_flows;
		packets -= s->packets;
	}
	assert_int_equal(new_flows, 0);
	assert_int_equal(active, 0);
	assert_int_equal(packets, 0);
}
