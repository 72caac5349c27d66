// SPDX-License-Identifier: BSD-3-Clause
#include "distributor.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <rte_memory.h>
#include <rte_ring.h>

#include "flow_table.h"
#include "pipeline_lab.h"
#include "selection.h"

static void buckets_are_shared_evenly(void **state) {
	(void)state;
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

// Each worker sees flows from all of the flow table and of the selection, whose indexes are bits of
// the same hash.
static void a_worker_sees_all_values_of_the_hash(void **state) {
	struct weir_distributor *distributor;
	uint32_t low[4][16] = {0}, high[4][16] = {0}, flows[4] = {0};

	(void)state;
	assert_int_equal(weir_distributor_create(0, 4, 0, SOCKET_ID_ANY, &distributor), 0);
	for (uint32_t i = 0; i < 64000; i++) {
		uint64_t hash = weir_hash_ipv4(i, 0x0a0b0c0d, (uint16_t)(i * 7), 80, 6, LAB_SEED);
		uint32_t worker = weir_distributor_worker(distributor, hash);

		flows[worker]++;
		low[worker][(hash & 0xffffffff) >> 28]++;
		high[worker][weir_selection_slot(hash, 16)]++;
	}
	for (uint32_t w = 0; w < 4; w++) {
		assert_in_range(flows[w], 15000, 17000);
		for (unsigned int i = 0; i < 16; i++) {
			assert_in_range(low[w][i], 800, 1200);
			assert_in_range(high[w][i], 800, 1200);
		}
	}
	weir_distributor_free(distributor);
}

static void wrong_parameters_are_refused(void **state) {
	struct weir_distributor *distributor = NULL;

	(void)state;
	assert_int_equal(weir_distributor_create(0, 0, 0, SOCKET_ID_ANY, &distributor), -EINVAL);
	assert_int_equal(weir_distributor_create(0, 2, 2, SOCKET_ID_ANY, &distributor), -EINVAL);
	assert_int_equal(
		weir_distributor_create(0, WEIR_WORKERS_MAX + 1, 0, SOCKET_ID_ANY, &distributor),
		-EINVAL);
	assert_null(distributor);
	weir_distributor_free(NULL);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(buckets_are_shared_evenly),
		cmocka_unit_test(a_worker_sees_all_values_of_the_hash),
		cmocka_unit_test(wrong_parameters_are_refused),
	};

	return cmocka_run_group_tests(tests, lab_eal, NULL);
}
