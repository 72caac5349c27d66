// SPDX-License-Identifier: BSD-3-Clause
#include "balancer.h"

#include "affinity.h"
#include "fuzz.h"
#include "selection.h"
#include "service_table.h"

#define SLOTS 61

const uint8_t balancer_vip4[16] = {198, 51, 100, 10};
const uint8_t balancer_vip6[16] = {0x20, 1, 0xd, 0xb8, 0, 2, [15] = 0x10};

static void open_segment(struct guarded_segment *memory) {
	static const struct weir_port_info ports[BALANCER_PORTS] = {
		{.name = "wan", .mtu = 1500, .mac = BALANCER_MAC},
		{.name = "lan", .mtu = 9000, .mac = BALANCER_MAC},
		{.name = "vlan", .mtu = 1500, .vlan = 77, .mac = BALANCER_MAC},
	};
	const struct weir_segment_params params = {.workers = 1,
		.ports = BALANCER_PORTS,
		.max_services = BALANCER_SERVICES,
		.max_backends = BALANCER_BACKENDS,
		.heap_bytes = 256 << 10,
		.tsc_hz = 1000000000,
		.hash_seed = BALANCER_SEED,
		.port_info = ports};

	guarded_segment_open(memory, &params);
}

static struct weir_pipeline *make_pipeline(
	const struct weir_segment *segment, struct weir_affinity *affinity) {
	const struct weir_pipeline_params params = {
		.segment = segment,
		.flow_table = {.flows = 64,
			.ipv6_percent = 25,
			.half_open_percent = 50,
			.timeout_ms = {[WEIR_FLOW_SYN_SEEN] = 50,
				[WEIR_FLOW_ESTABLISHED] = 1000,
				[WEIR_FLOW_CLOSING] = 100,
				[WEIR_FLOW_UDP] = 200,
				[WEIR_FLOW_YOUNG] = 200,
				[WEIR_FLOW_UDP_SEEN] = 50},
			.socket = SOCKET_ID_ANY},
		.hash_seed = BALANCER_SEED,
		.icmp = {.echo = 8, .too_big = 8, .unreachable = 8},
		.fragments = {.entries = 16, .timeout_ms = 5000},
		.affinity = affinity,
	};
	struct weir_pipeline *pipeline;

	REQUIRE(weir_pipeline_create(&params, &pipeline) == 0);
	return pipeline;
}

void balancer_init(struct balancer *balancer) {
	*balancer = (struct balancer){.now_ns = BALANCER_NOW};
	open_segment(&balancer->memory);
	REQUIRE(weir_affinity_create(64, 77, SOCKET_ID_ANY, &balancer->affinity) == 0);
	balancer->pipeline = make_pipeline(balancer->memory.dataplane, balancer->affinity);
}

void balancer_fini(struct balancer *balancer) {
	weir_pipeline_free(balancer->pipeline);
	weir_affinity_free(balancer->affinity);
	guarded_segment_close(&balancer->memory);
}

// --- tables ---------------------------------------------------------------------------------

static void publish_services(struct balancer *balancer) {
	struct weir_service_bind binds[6] = {
		{.protocol = 6, .port_first = 80, .port_last = 80, .service = 0},
		{.protocol = 6, .port_first = 8000, .port_last = 8099, .service = 0},
		{.protocol = 17, .port_first = 0, .port_last = 65535, .service = 1},
	};
	struct weir_service_table *table;

	for (unsigned int i = 0; i < 3; i++) {
		binds[i].family = 4;
		binds[i].closed = WEIR_CLOSED_PORTS_REJECT;
		memcpy(binds[i].address, balancer_vip4, 16);
		binds[i + 3] = binds[i];
		binds[i + 3].family = 6;
		memcpy(binds[i + 3].address, balancer_vip6, 16);
	}
	REQUIRE(weir_service_table_build(balancer->memory.writer, binds, 6, 99, &table) == 0);
	guarded_segment_publish(&balancer->memory, WEIR_BLOB_SERVICES, 0, table);
}

static void publish_selection(
	struct balancer *balancer, uint16_t service, const uint16_t *ids, uint32_t n) {
	struct weir_selection_params params =
		weir_selection_defaults(service, WEIR_POLICY_MAGLEV, SLOTS);
	struct weir_selection_member members[BALANCER_BACKENDS];
	struct weir_selection *selection;

	if (service == 1) {
		params.settings.hash4 = 32 | WEIR_HASH_AFFINITY;
		params.settings.hash6 = 64;
		params.affinity_ms = 60000;
	}
	for (uint32_t i = 0; i < n; i++) {
		members[i] = (struct weir_selection_member){
			.identity = 0x5851f42d4c957f2dull * (ids[i] + 1u),
			.id = ids[i],
			.weight = 1};
	}
	REQUIRE(weir_selection_build(balancer->memory.writer, &params, members, n, &selection) ==
		0);
	guarded_segment_publish(&balancer->memory, WEIR_BLOB_SELECTION, service, selection);
}

static void build_row(struct weir_backend_row *row, uint8_t id, uint16_t mtu) {
	struct weir_backend_path path = {.family = id % 2 == 0 ? 4 : 6,
		.port = (uint8_t)(id % BALANCER_PORTS),
		.next_hop_mac = {2, 0, 0, 1, 0, id},
		.port_mac = {2, 0, 0, 2, 0, id},
		.vlan = id == 2 ? 77 : 0,
		.mtu = mtu,
		.service = id < 4 ? 0 : 1,
		.resolved = id != 3};

	memcpy(path.address, (uint8_t[]){10, 0, 0, (uint8_t)(11 + id)}, 4);
	memcpy(path.source, (uint8_t[]){10, 0, 0, 1}, 4);
	if (path.family == 6) {
		memcpy(path.address, balancer_vip6, 16);
		memcpy(path.source, balancer_vip6, 16);
		path.address[15] = (uint8_t)(0xb0 + id);
		path.source[15] = 1;
	}
	weir_backend_row_build(&path, row);
}

static void publish_backends(struct balancer *balancer, enum balancer_tables tables) {
	memset(balancer->rows, 0, sizeof(balancer->rows));
	for (uint8_t id = 0; id < 6; id++) {
		if (tables != BALANCER_GONE || (id != 0 && id != 4)) {
			build_row(&balancer->rows[id], id,
				tables == BALANCER_SMALL_MTU ? 1280 : 1500);
		}
	}
	for (uint16_t id = 0; id < BALANCER_BACKENDS; id++) {
		weir_writer_publish_row(balancer->memory.writer, id, &balancer->rows[id]);
	}
}

void balancer_publish(struct balancer *balancer, enum balancer_tables tables) {
	static const uint16_t web[] = {0, 1, 2, 3}, web_gone[] = {1, 2, 6}, dns[] = {4, 5};
	bool gone = tables == BALANCER_GONE;
	bool empty = tables == BALANCER_EMPTY;

	publish_backends(balancer, tables);
	publish_selection(balancer, 0, gone ? web_gone : web, empty ? 0 : gone ? 3 : 4);
	publish_selection(balancer, 1, gone ? &dns[1] : dns, empty ? 0 : gone ? 1 : 2);
	publish_services(balancer);
	weir_pipeline_settle(balancer->pipeline);
	// The worker is between two bursts, so no thread uses replaced tables. Therefore all of
	// them must be freed (S5).
	REQUIRE(weir_writer_reclaim(balancer->memory.writer) == 0);
}
