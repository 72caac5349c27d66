// SPDX-License-Identifier: BSD-3-Clause
//
// Pipelines of all workers: which pipelines share flow memory, and which parts each pipeline owns.
#include "pipelines.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "burst.h"
#include "distributor.h"
#include "flow_parts.h"
#include "pipeline_lab.h"
#include "pipeline_parts.h"
#include "test.h"

static struct weir_config config_of(uint32_t workers, uint32_t flows) {
	return (struct weir_config){.workers = {.count = workers},
		.segment = {.max_services = LAB_SERVICES, .max_backends = LAB_BACKENDS},
		.flow_table = {.flows_per_worker = flows,
			.ipv6_percent = 25,
			.half_open_percent = 25,
			.syn_seen_ms = 5000,
			.established_ms = 900000,
			.closing_ms = 10000,
			.udp_ms = 30000,
			.young_ms = 10000,
			.udp_seen_ms = 5000},
		.fragments = {.entries = 64, .timeout_ms = 1000}};
}

static struct weir_segment *segment_of(uint32_t workers) {
	struct weir_port_info ports[LAB_PORTS] = {0};
	struct weir_segment_params params = {.workers = workers,
		.ports = LAB_PORTS,
		.max_services = LAB_SERVICES,
		.max_backends = LAB_BACKENDS,
		.heap_bytes = 64 << 20,
		.tsc_hz = 2000000000,
		.port_info = ports};
	struct weir_segment *segment;

	assert_int_equal(weir_segment_create(&params, &segment), 0);
	return segment;
}

static int create(const struct weir_config *config, const struct weir_segment *segment,
	bool bucketed, int fd, struct weir_pipelines *ret) {
	struct weir_log log = {.fd = fd, .level = WEIR_LOG_ERROR};
	uint8_t first_worker[WEIR_BUCKETS];
	struct weir_pipelines_params params = {.config = config,
		.segment = segment,
		.log = &log,
		.bucketed = bucketed,
		.first_worker = first_worker};

	for (uint32_t b = 0; b < WEIR_BUCKETS; b++) {
		first_worker[b] = (uint8_t)weir_distributor_first_worker(b, config->workers.count);
	}
	return weir_pipelines_create(&params, ret);
}

TEST_GROUP(lab_eal);

TEST(workers_own_the_parts_given_by_the_distributor) {
	struct weir_config config = config_of(3, 4096);
	struct weir_segment *segment = segment_of(3);
	struct weir_distributor *distributor;
	struct weir_pipelines pipelines;

	assert_int_equal(create(&config, segment, true, STDERR_FILENO, &pipelines), 0);
	assert_int_equal(weir_distributor_create(0, 3, 1, SOCKET_ID_ANY, &distributor), 0);
	for (uint32_t part = 0; part < WEIR_FLOW_PARTS; part++) {
		for (uint32_t w = 0; w < 3; w++) {
			assert_int_equal(weir_pipeline_owns_part(pipelines.pipeline[w], part),
				weir_distributor_worker(distributor, part) == w);
		}
	}
	for (uint32_t w = 0; w < 3; w++) {
		assert_ptr_equal(pipelines.pipeline[w]->flows->family4.buckets,
			pipelines.flows->ipv4.buckets);
		assert_int_equal(pipelines.parcel[w]->state, WEIR_FLOW_PARCEL_EMPTY);
		assert_in_range(pipelines.pipeline[w]->flows->family4.capacity, 4092, 4104);
	}
	weir_distributor_free(distributor);
	weir_pipelines_free(&pipelines);
	weir_segment_free(segment);
}

TEST(workers_without_buckets_have_separate_tables) {
	struct weir_config config = config_of(2, 4096);
	struct weir_segment *segment = segment_of(2);
	struct weir_pipelines pipelines;

	assert_int_equal(create(&config, segment, false, STDERR_FILENO, &pipelines), 0);
	assert_null(pipelines.flows);
	assert_null(pipelines.parcel[0]);
	assert_true(pipelines.pipeline[0]->flows->family4.buckets !=
		    pipelines.pipeline[1]->flows->family4.buckets);
	assert_int_equal(pipelines.pipeline[1]->flows->family4.capacity, 4096);
	for (uint32_t part = 0; part < WEIR_FLOW_PARTS; part++) {
		assert_true(weir_pipeline_owns_part(pipelines.pipeline[0], part));
		assert_true(weir_pipeline_owns_part(pipelines.pipeline[1], part));
	}
	weir_pipelines_free(&pipelines);
	weir_segment_free(segment);
}

TEST(sharing_needs_workers_and_a_memory_for_all) {
	struct weir_config one = config_of(1, 4096), two = config_of(2, 4096);
	struct weir_config most = config_of(8, 1u << 28), more = config_of(9, 1u << 28);

	assert_false(weir_pipelines_may_share(&one));
	assert_true(weir_pipelines_may_share(&two));
	assert_true(weir_pipelines_may_share(&most));
	assert_false(weir_pipelines_may_share(&more));
	assert_true(
		weir_pipelines_flow_bytes(&most, true) > weir_pipelines_flow_bytes(&most, false));
}

// When memory is insufficient, everything created before the failure is freed, and the message
// names the key to lower.
TEST(too_little_memory_is_reported) {
	struct weir_config config = config_of(2, 1u << 26);
	struct weir_segment *segment = segment_of(2);
	struct weir_pipelines pipelines;
	char text[512] = "";
	int ends[2];

	assert_int_equal(pipe(ends), 0);
	assert_int_equal(create(&config, segment, true, ends[1], &pipelines), -ENOMEM);
	assert_true(read(ends[0], text, sizeof(text) - 1) > 0);
	assert_non_null(strstr(text, "flow_table.flows_per_worker"));
	assert_int_equal(create(&config, segment, false, ends[1], &pipelines), -ENOMEM);
	assert_true(read(ends[0], text, sizeof(text) - 1) > 0);
	assert_non_null(strstr(text, "worker 0"));
	config = config_of(2, 4096);
	assert_int_equal(create(&config, segment, true, ends[1], &pipelines), 0);
	weir_pipelines_free(&pipelines);
	close(ends[0]);
	close(ends[1]);
	weir_segment_free(segment);
}
