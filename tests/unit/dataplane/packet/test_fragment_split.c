// SPDX-License-Identifier: BSD-3-Clause
//
// Splitting packets into fragments, in the cases that tests/packets/scenarios_fragments.py cannot
// cover: packets in several segments, and a lack of packet buffers.
#include <stdlib.h>
#include <string.h>

#include <errno.h>

#include <rte_mbuf.h>

#include "fragment_split.h"
#include "frames.h"
#include "parse.h"
#include "pipeline_lab.h"
#include "test.h"

#define BUFFERS 31
#define PIECE 576

static struct rte_mempool *make_pool(uint16_t room) {
	struct rte_mempool *pool =
		rte_pktmbuf_pool_create("split", BUFFERS, 0, 0, room, SOCKET_ID_ANY);

	assert_non_null(pool);
	return pool;
}

// Returns a frame in mbuf segments of at most `segment` bytes.
static struct rte_mbuf *make_packet(
	struct rte_mempool *pool, const struct frame *f, uint32_t segment) {
	struct rte_mbuf *head = NULL;

	for (uint32_t at = 0; at < f->n; at += segment) {
		uint32_t bytes = RTE_MIN(segment, f->n - at);
		struct rte_mbuf *m = rte_pktmbuf_alloc(pool);

		assert_non_null(m);
		memcpy(rte_pktmbuf_append(m, (uint16_t)bytes), f->bytes + at, bytes);
		if (head == NULL) {
			head = m;
		} else {
			assert_int_equal(rte_pktmbuf_chain(head, m), 0);
		}
	}
	return head;
}

static void build(struct frame *f, struct weir_descriptor *d, uint16_t payload) {
	const struct frame_spec spec = {.family = 4, .protocol = 17, .payload = payload};

	frame_build(&spec, f);
	f->bytes[f->l3 + 6] = 0; // clear DF
	frame_fix_ipv4(f);
	*d = (struct weir_descriptor){.key = {.family = 4, .protocol = 17},
		.ip_bytes = f->ip_bytes,
		.l3_offset = (uint8_t)f->l3,
		.l4_offset = 20};
}

// Copy the payload of a fragment into data[], at the fragment offset in its IP header. Returns the
// offset of the end of the payload.
static uint32_t put_data(struct rte_mbuf *m, uint32_t l3, uint8_t *data) {
	uint8_t copy[FRAME_MAX];
	const uint8_t *ip = rte_pktmbuf_read(m, l3, m->pkt_len - l3, copy);
	uint32_t at = (uint32_t)(frame_get16(ip + 6) & 0x1fff) * 8;
	uint32_t bytes = m->pkt_len - l3 - 20;

	assert_non_null(ip);
	assert_int_equal(frame_get16(ip + 2), bytes + 20);
	assert_int_equal(frame_sum(ip, 20, 0), 0xffff);
	assert_true(bytes + 20 <= PIECE);
	memcpy(data + at, ip + 20, bytes);
	rte_mbuf_sanity_check(m, 1);
	return at + bytes;
}

TEST_GROUP(lab_eal);

TEST(split_gathers_segments) {
	struct rte_mempool *pool = make_pool(2048);

	for (uint32_t segment = 64; segment < 1700; segment += 61) {
		struct rte_mbuf *pieces[BUFFERS], *m;
		uint8_t data[FRAME_MAX] = {0};
		struct weir_descriptor d;
		struct frame f;
		int count;

		build(&f, &d, 1500);
		if (f.n / segment + 5 > BUFFERS) {
			continue;
		}
		m = make_packet(pool, &f, segment);
		count = weir_fragment_split(m, &d, PIECE, pieces, BUFFERS);
		assert_int_equal(count, 2);
		put_data(m, f.l3, data);
		put_data(pieces[0], 0, data);
		assert_int_equal(put_data(pieces[1], 0, data), f.ip_bytes - 20);
		assert_memory_equal(data, f.bytes + f.l3 + 20, f.ip_bytes - 20);
		rte_pktmbuf_free(m);
		rte_pktmbuf_free_bulk(pieces, (unsigned int)count);
		assert_int_equal(rte_mempool_avail_count(pool), BUFFERS);
	}
	rte_mempool_free(pool);
}

// A packet that cannot be split is unchanged, and no buffer is leaked.
TEST(split_without_room_changes_nothing) {
	struct rte_mempool *pool = make_pool(2048);
	struct rte_mbuf *pieces[BUFFERS], *taken[BUFFERS];
	struct weir_descriptor d;
	struct rte_mbuf *m;
	struct frame f;

	build(&f, &d, 1500);
	m = make_packet(pool, &f, 2000);
	assert_int_equal(weir_fragment_split(m, &d, 1600, pieces, BUFFERS), 0);
	assert_int_equal(weir_fragment_split(m, &d, PIECE, pieces, 1), -ENOBUFS);
	assert_int_equal(weir_fragment_split(m, &d, 27, pieces, BUFFERS), -EMSGSIZE);
	assert_int_equal(weir_fragment_split(m, &d, 0, pieces, BUFFERS), -EMSGSIZE);
	assert_int_equal(rte_pktmbuf_alloc_bulk(pool, taken, BUFFERS - 2), 0);
	assert_int_equal(weir_fragment_split(m, &d, PIECE, pieces, BUFFERS), -ENOBUFS);
	assert_int_equal(m->pkt_len, f.n);
	assert_memory_equal(rte_pktmbuf_mtod(m, uint8_t *), f.bytes, f.n);
	assert_int_equal(rte_mempool_avail_count(pool), 1);
	rte_pktmbuf_free_bulk(taken, BUFFERS - 2);
	rte_pktmbuf_free(m);
	rte_mempool_free(pool);
}

// Fragments are at most as long as a buffer of the pool.
TEST(split_fits_the_buffers) {
	struct rte_mempool *pool = make_pool(RTE_PKTMBUF_HEADROOM + 256);
	struct rte_mbuf *pieces[BUFFERS], *m;
	uint8_t data[FRAME_MAX] = {0};
	struct weir_descriptor d;
	struct frame f;
	int count;

	build(&f, &d, 1500);
	m = make_packet(pool, &f, 256);
	count = weir_fragment_split(m, &d, PIECE, pieces, BUFFERS);
	assert_int_equal(count, 6);
	put_data(m, f.l3, data);
	for (int i = 0; i < count; i++) {
		assert_int_equal(pieces[i]->nb_segs, 1);
		put_data(pieces[i], 0, data);
	}
	assert_memory_equal(data, f.bytes + f.l3 + 20, f.ip_bytes - 20);
	rte_pktmbuf_free(m);
	rte_pktmbuf_free_bulk(pieces, (unsigned int)count);
	rte_mempool_free(pool);
}
