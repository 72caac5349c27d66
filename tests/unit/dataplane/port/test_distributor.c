// SPDX-License-Identifier: BSD-3-Clause
#include "distributor.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_memory.h>
#include <rte_ring.h>

#include "burst.h"
#include "distribute.h"
#include "flow_memory.h"
#include "pipeline_lab.h"
#include "selection.h"
#include "test.h"

TEST_GROUP(lab_eal);

TEST(buckets_are_shared_evenly) {
	for (uint32_t workers = 1; workers <= WEIR_WORKERS_MAX; workers++) {
		struct weir_distributor *distributor;
		uint32_t buckets[WEIR_WORKERS_MAX] = {0};

		assert_int_equal(weir_distributor_create(
					 0, workers, workers - 1, SOCKET_ID_ANY, &distributor),
			0);
		for (unsigned int i = 0; i < WEIR_DISTRIBUTOR_BUCKETS; i++) {
			buckets[distributor->worker[i]]++;
		}
		for (uint32_t w = 0; w < WEIR_WORKERS_MAX; w++) {
			uint32_t fair = w < workers ? WEIR_DISTRIBUTOR_BUCKETS / workers : 0;

			assert_in_range(buckets[w], fair, w < workers ? fair + 1 : 0);
			assert_int_equal(distributor->ring[w] != NULL, w < workers - 1);
		}
		weir_distributor_free(distributor);
	}
}

// Returns the worker of flow i. *ret_hash: the hash of the flow.
static uint32_t worker_of(struct lab *lab, const struct weir_distributor *distributor, uint32_t i,
	uint64_t *ret_hash) {
	struct frame_spec spec = lab_tcp((uint16_t)(i % 60000), 0x10);
	struct rte_mbuf *m;
	struct frame f;
	uint32_t worker;

	frame_build(&spec, &f);
	f.bytes[f.l3 + 12] = 10; // change the source address
	f.bytes[f.l3 + 13] = (uint8_t)(i >> 16);
	frame_put16(f.bytes + f.l3 + 14, (uint16_t)i);
	frame_fix_ipv4(&f);
	m = frame_mbuf(f.bytes, f.n, 0);
	*ret_hash = weir_pipeline_distribution_hash(m, LAB_SEED);
	worker = weir_distributor_worker(distributor, weir_pipeline_distribute(lab->pipeline, m));
	frame_mbuf_free(m);
	return worker;
}

// The worker, the index into its flow table and the index into the selection are taken from the
// same hash. Nevertheless, the flows of each worker must reach every index. In a flow table that
// the workers share, each worker has its own buckets.
static void see_all_values_of_the_hash(bool shared) {
	struct weir_pipeline_params params = lab_params();
	struct weir_flow_memory *memory = NULL;
	struct weir_distributor *distributor;
	uint32_t low[4][16] = {0}, high[4][16] = {0}, first[4][16] = {0}, flows[4] = {0};
	struct lab *lab;

	if (shared) {
		assert_int_equal(
			weir_flow_memory_create(4096, 25, true, SOCKET_ID_ANY, &memory), 0);
	}
	params.flow_table.memory = memory;
	params.flow_table.secret = 0x5851f42d4c957f2dull;
	lab = lab_open(&params);
	assert_int_equal(weir_distributor_create(0, 4, 0, SOCKET_ID_ANY, &distributor), 0);
	for (uint32_t i = 0; i < 64000; i++) {
		const struct weir_flow_table *table = lab->pipeline->flows;
		uint64_t hash;
		uint32_t worker = worker_of(lab, distributor, i, &hash);

		flows[worker]++;
		low[worker][(hash & 0xffffffff) >> 28]++;
		high[worker][weir_selection_slot(hash, 16)]++;
		first[worker][weir_flow_first_bucket(&table->secret, 16, hash)]++;
	}
	for (uint32_t w = 0; w < 4; w++) {
		assert_in_range(flows[w], 15000, 17000);
		for (unsigned int i = 0; i < 16; i++) {
			assert_in_range(low[w][i], 800, 1200);
			assert_in_range(high[w][i], 800, 1200);
			assert_in_range(first[w][i], 800, 1200);
		}
	}
	weir_distributor_free(distributor);
	lab_free(lab);
	weir_flow_memory_free(memory);
}

TEST(a_worker_gets_all_values_of_the_hash) {
	see_all_values_of_the_hash(false);
	see_all_values_of_the_hash(true);
}

TEST(invalid_parameters_are_refused) {
	struct weir_distributor *distributor = NULL;

	assert_int_equal(weir_distributor_create(0, 0, 0, SOCKET_ID_ANY, &distributor), -EINVAL);
	assert_int_equal(weir_distributor_create(0, 2, 2, SOCKET_ID_ANY, &distributor), -EINVAL);
	assert_int_equal(
		weir_distributor_create(0, WEIR_WORKERS_MAX + 1, 0, SOCKET_ID_ANY, &distributor),
		-EINVAL);
	assert_null(distributor);
	weir_distributor_free(NULL);
}
