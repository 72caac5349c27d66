// SPDX-License-Identifier: BSD-3-Clause
#include "api_counters.h"
#include "test.h"

static int setup(void **state) {
	struct weir_port_info port = {.name = "wan", .mtu = 1500};
	struct weir_segment_params params = {.workers = 3,
		.ports = 1,
		.max_services = 4,
		.max_backends = 16,
		.heap_bytes = 1 << 20,
		.port_info = &port};
	struct weir_segment *segment = NULL;
	int r = weir_segment_create(&params, &segment);

	*state = segment;
	return r;
}

static int teardown(void **state) {
	weir_segment_free(*state);
	return 0;
}

static json_int_t number(const json_t *object, const char *name) {
	const json_t *value = json_object_get(object, name);

	assert_true(json_is_integer(value));
	return json_integer_value(value);
}

TEST_EACH(setup, teardown);

TEST(counters_of_a_share_are_complete) {
	struct weir_share_counters counters = {.packets = 33};
	json_t *json = json_object();

	weir_json_share(json, &counters);
	assert_int_equal(number(json, "packets"), 33);
#define X(field, unit, metric, text) (void)number(json, #field);
	WEIR_SHARE_FIGURES(X)
#undef X
	json_decref(json);
}

TEST(counters_every_drop_reason_has_its_number) {
	struct weir_segment *segment = *state;
	json_t *drops;

	segment->worker_counters[0].drops[WEIR_DROP_NO_BACKEND] = 2;
	segment->worker_counters[2].drops[WEIR_DROP_NO_BACKEND] = 5;
	drops = weir_json_drops(segment);
	assert_int_equal(json_object_size(drops), WEIR_DROP_REASON_COUNT);
	assert_int_equal(number(drops, "no_backend"), 7);
	assert_int_equal(number(drops, "tx_full"), 0);
	json_decref(drops);
}

TEST(counters_of_workers_are_complete) {
	struct weir_segment *segment = *state;
	json_t *sum;

	segment->worker_counters[0].rx_packets = 1;
	segment->worker_counters[1].rx_packets = 20;
	sum = weir_json_workers_sum(segment);
	assert_int_equal(number(sum, "rx_packets"), 21);
#define X(field, unit, metric, text) (void)number(sum, #field);
	WEIR_WORKER_FIGURES(X)
#undef X
	json_decref(sum);
}
