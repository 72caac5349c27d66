// SPDX-License-Identifier: BSD-3-Clause
#include "buffers.h"

#include <rte_eal.h>
#include <rte_mempool.h>

#include "fuzz.h"

#define POOL "fuzz"

void buffers_start(uint32_t buffers, uint16_t room) {
	char *argv[] = {"fuzz", "--no-huge", "--no-pci", "--no-shconf", "--no-telemetry",
		"--log-level=*:error", "-m", "64", "-l", "0", NULL};

	REQUIRE(rte_eal_init(10, argv) >= 0);
	REQUIRE(rte_pktmbuf_pool_create(POOL, buffers, 0, 0, room, SOCKET_ID_ANY) != NULL);
}

struct outside { // memory of a buffer that is not in the pool
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
