// SPDX-License-Identifier: BSD-3-Clause
#include "buffers.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_mbuf.h>

#include "device_lab.h"
#include "test.h"

TEST_GROUP(device_lab_eal);

TEST(a_pool_is_created_once_per_size) {
	struct weir_plan plan = {.pools = 2,
		.pool = {{.room = 2176, .buffers = 1023}, {.room = 3840, .buffers = 511}}};
	struct rte_mempool *pool = NULL, *again = NULL, *large = NULL, *node = NULL;
	struct weir_buffers buffers;

	weir_buffers_init(&buffers, plan.pool, plan.pools);
	assert_int_equal(weir_buffers_pool(&buffers, 2176, SOCKET_ID_ANY, &pool), 0);
	assert_int_equal(weir_buffers_pool(&buffers, 2176, SOCKET_ID_ANY, &again), 0);
	assert_int_equal(weir_buffers_pool(&buffers, 3840, SOCKET_ID_ANY, &large), 0);
	assert_int_equal(weir_buffers_pool(&buffers, 2176, 0, &node), 0);
	assert_ptr_equal(pool, again);
	assert_ptr_not_equal(pool, large);
	assert_ptr_equal(pool, node); // ordinary pages belong to no NUMA node
	assert_int_equal(rte_pktmbuf_data_room_size(pool), 2176);
	assert_int_equal(rte_pktmbuf_data_room_size(large), 3840);
	assert_int_equal(rte_mempool_avail_count(pool), 1023);
	assert_int_equal(rte_mempool_avail_count(large), 511);
	weir_buffers_fini(&buffers);
}

TEST(unplanned_or_oversized_buffers_are_refused) {
	struct weir_plan plan = {.pools = 1, .pool = {{.room = 2176, .buffers = 10000000}}};
	struct weir_buffers buffers;
	struct rte_mempool *pool = NULL;

	weir_buffers_init(&buffers, plan.pool, plan.pools);
	assert_int_equal(weir_buffers_pool(&buffers, 2000, SOCKET_ID_ANY, &pool), -EINVAL);
	assert_int_equal(weir_buffers_pool(&buffers, 2176, SOCKET_ID_ANY, &pool), -ENOMEM);
	assert_null(pool);
	weir_buffers_fini(&buffers);
}

// An AF_XDP frame is a whole object of the pool, and must fit into a page.
TEST(the_largest_af_xdp_buffer_fits_a_page) {
	struct weir_plan plan = {.pools = 1, .pool = {{.room = 3840, .buffers = 511}}};
	struct weir_buffers buffers;
	struct rte_mempool *pool;

	weir_buffers_init(&buffers, plan.pool, plan.pools);
	assert_int_equal(weir_buffers_pool(&buffers, 3840, SOCKET_ID_ANY, &pool), 0);
	assert_in_range(pool->header_size + pool->elt_size + pool->trailer_size, 3840, 4096);
	weir_buffers_fini(&buffers);
}

// net_af_xdp registers the total size of the buffers with the kernel, starting at the first buffer.
TEST(buffers_are_packed) {
	struct weir_plan plan = {.pools = 1, .pool = {{.room = 2176, .buffers = 4095}}};
	struct rte_mempool *apart;
	struct weir_buffers buffers;
	struct rte_mempool *pool;

	weir_buffers_init(&buffers, plan.pool, plan.pools);
	assert_int_equal(weir_buffers_pool(&buffers, 2176, SOCKET_ID_ANY, &pool), 0);
	assert_true(weir_buffers_are_packed(pool));
	weir_buffers_fini(&buffers);
	// Pools created by DPDK itself, in ordinary pages, use a page per buffer.
	apart = rte_pktmbuf_pool_create("apart", 4095, 0, 0, 2176, SOCKET_ID_ANY);
	assert_non_null(apart);
	assert_false(weir_buffers_are_packed(apart));
	rte_mempool_free(apart);
}
