// SPDX-License-Identifier: BSD-3-Clause
#include "balancer.h"

#include <rte_eal.h>
#include <rte_mempool.h>
#include <sys/mman.h>

#include "fuzz.h"
#include "moved.h"
#include "selection.h"
#include "service_table.h"

#define POOL "fuzz"
#define POOL_BUFFERS 63u
#define SLOTS 61
#define GUARD_BYTES (1u << 20)

const uint8_t balancer_vip4[16] = {198, 51, 100, 10};
const uint8_t balancer_vip6[16] = {0x20, 1, 0xd, 0xb8, 0, 2, [15] = 0x10};

void balancer_start(void) {
	balancer_start_with(POOL_BUFFERS, 0);
}

void balancer_start_with(uint32_t buffers, uint16_t room) {
	char *argv[] = {"fuzz", "--no-huge", "--no-pci", "--no-shconf", "--no-telemetry",
		"--log-level=*:error", "-m", "64", "-l", "0", NULL};

	REQUIRE(rte_eal_init(10, argv) >= 0);
	REQUIRE(rte_pktmbuf_pool_create(POOL, buffers, 0, 0, room, SOCKET_ID_ANY) != NULL);
}

static struct weir_segment *make_segment(void) {
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
	struct weir_segment *segment;

	REQUIRE(weir_segment_create(&params, &segment) == 0);
	return segment;
}

static struct weir_pipeline *make_pipeline(const struct weir_segment *segment) {
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
	};
	struct weir_pipeline *pipeline;

	REQUIRE(weir_pipeline_create(&params, &pipeline) == 0);
	return pipeline;
}

void balancer_init(struct balancer *balancer) {
	*balancer = (struct balancer){.segment = make_segment(), .now_ns = BALANCER_NOW};
	REQUIRE(weir_segment_attach_own(balancer->segment, &balancer->control) == 0);
	balancer_guard(balancer->segment);
	balancer_guard(balancer->control);
	REQUIRE(weir_writer_open(balancer->control, &balancer->writer) == 0);
	REQUIRE(weir_writer_reserve(balancer->writer, BALANCER_SERVICES, BALANCER_BACKENDS) == 0);
	REQUIRE(weir_segment_follow(balancer->segment) == 0);
	balancer->pipeline = make_pipeline(balancer->segment);
}

void balancer_fini(struct balancer *balancer) {
	weir_pipeline_free(balancer->pipeline);
	weir_writer_free(balancer->writer);
	balancer_guarded_free(balancer->control);
	balancer_guarded_free(balancer->segment);
}

// --- tables ---------------------------------------------------------------------------------

static void publish(
	struct balancer *balancer, enum weir_blob_kind kind, uint16_t service, void *blob) {
	const struct weir_root root = {.kind = kind, .service = service};

	REQUIRE(weir_writer_publish(balancer->writer, root, blob) == 0);
}

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
	REQUIRE(weir_service_table_build(balancer->writer, binds, 6, 99, &table) == 0);
	publish(balancer, WEIR_BLOB_SERVICES, 0, table);
}

static void publish_selection(
	struct balancer *balancer, uint16_t service, const uint16_t *ids, uint32_t n) {
	struct weir_selection_params params =
		weir_selection_defaults(service, WEIR_POLICY_MAGLEV, SLOTS);
	struct weir_selection_member members[BALANCER_BACKENDS];
	struct weir_selection *selection;

	for (uint32_t i = 0; i < n; i++) {
		members[i] = (struct weir_selection_member){
			.identity = 0x5851f42d4c957f2dull * (ids[i] + 1u),
			.id = ids[i],
			.weight = 1};
	}
	REQUIRE(weir_selection_build(balancer->writer, &params, members, n, &selection) == 0);
	publish(balancer, WEIR_BLOB_SELECTION, service, selection);
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
		weir_writer_publish_row(balancer->writer, id, &balancer->rows[id]);
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
	// The worker is between two bursts: nothing that was replaced may be read again (S5).
	REQUIRE(weir_writer_reclaim(balancer->writer) == 0);
}

// --- guards ---------------------------------------------------------------------------------

// Places for mappings with inaccessible memory around them, reserved once: with the address
// sanitizer every new mapping costs a pass over its shadow.
#define PLACES 8u
#define PLACE_BYTES (4u << 20)

static uint8_t *places; // [PLACES], each PLACE_BYTES long with the guard before it
static bool taken[PLACES];

static void reserve_places(void) {
	uint64_t bytes = PLACES * PLACE_BYTES + GUARD_BYTES;

	if (places == NULL) {
		places = mmap(
			NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		REQUIRE(places != MAP_FAILED);
	}
}

// Returns the new place of a mapping.
static uint8_t *guard_memory(uint8_t *old, uint64_t bytes) {
	unsigned int place = 0;
	uint8_t *base;

	reserve_places();
	while (place < PLACES && taken[place]) {
		place++;
	}
	REQUIRE(place < PLACES && bytes <= PLACE_BYTES - GUARD_BYTES);
	taken[place] = true;
	base = places + place * PLACE_BYTES + GUARD_BYTES;
	REQUIRE(mremap(old, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, base) == base);
	return base;
}

// What was there is unmapped: make it inaccessible again.
static void release_place(uint8_t *base, uint64_t bytes) {
	REQUIRE(mmap(base, bytes, PROT_NONE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == base);
	taken[(size_t)(base - places) / PLACE_BYTES] = false;
}

void balancer_guard(struct weir_segment *segment) {
	uint8_t *statistics = guard_memory(segment->statistics, segment->statistics_bytes);
	uint8_t *tables = guard_memory(segment->tables, segment->tables_bytes);

	segment_moved(segment, statistics, tables);
}

void balancer_guarded_free(struct weir_segment *segment) {
	uint8_t *memory[] = {segment->statistics, segment->tables};
	uint64_t bytes[] = {segment->statistics_bytes, segment->tables_bytes};

	weir_segment_free(segment);
	for (unsigned int i = 0; i < 2; i++) {
		release_place(memory[i], bytes[i]);
	}
}

// --- packet buffers -------------------------------------------------------------------------

struct outside { // memory of a buffer, outside of the pool
	struct rte_mbuf_ext_shared_info shared;
	uint8_t *bytes;
};

static void free_outside(void *bytes, void *outside) {
	free(bytes);
	free(outside);
}

static struct rte_mbuf *segment_make(
	const uint8_t *data, uint32_t bytes, uint16_t headroom, uint16_t tailroom) {
	struct rte_mempool *pool = rte_mempool_lookup(POOL);
	struct rte_mbuf *m = rte_pktmbuf_alloc(pool);
	struct outside *outside = calloc(1, sizeof(*outside));
	uint32_t room = headroom + bytes + tailroom;

	REQUIRE(m != NULL && outside != NULL && room <= UINT16_MAX);
	outside->bytes = malloc(room > 0 ? room : 1);
	REQUIRE(outside->bytes != NULL);
	memset(outside->bytes, 0xaa, room);
	if (bytes > 0) {
		memcpy(outside->bytes + headroom, data, bytes);
	}
	outside->shared.free_cb = free_outside;
	outside->shared.fcb_opaque = outside;
	rte_mbuf_ext_refcnt_set(&outside->shared, 1);
	rte_pktmbuf_attach_extbuf(m, outside->bytes, 0, (uint16_t)room, &outside->shared);
	m->data_off = headroom;
	m->data_len = (uint16_t)bytes;
	m->pkt_len = bytes;
	return m;
}

struct rte_mbuf *buffer_make(const uint8_t *frame, uint32_t bytes, uint16_t headroom,
	uint32_t first, uint16_t tailroom) {
	struct rte_mbuf *m;

	if (first == 0 || first >= bytes) {
		return segment_make(frame, bytes, headroom, tailroom);
	}
	m = segment_make(frame, first, headroom, tailroom);
	m->next = segment_make(frame + first, bytes - first, 0, 0);
	m->nb_segs = 2;
	m->pkt_len = bytes;
	return m;
}

void buffer_free(struct rte_mbuf *m) {
	rte_pktmbuf_free(m);
}

void buffer_check_leaks(void) {
	const struct rte_mempool *pool = rte_mempool_lookup(POOL);

	REQUIRE(rte_mempool_avail_count(pool) == pool->size);
}
