// SPDX-License-Identifier: BSD-3-Clause
#include "api_counters.h"

#include "daemon.h"

json_t *weir_json_count(const struct weir_daemon *daemon, uint64_t count) {
	return daemon->segment != NULL ? json_integer((json_int_t)count) : json_null();
}

void weir_json_share(json_t *object, const struct weir_share_counters *counters) {
#define X(field, unit, metric, text) \
	json_object_set_new(object, #field, \
		counters != NULL ? json_integer((json_int_t)counters->field) : json_null());
	WEIR_SHARE_FIGURES(X)
#undef X
}

void weir_json_worker(json_t *object, const struct weir_worker_counters *counters) {
#define X(field, unit, metric, text) \
	json_object_set_new( \
		object, #field, json_integer((json_int_t)weir_counter_read(&counters->field)));
	WEIR_WORKER_FIGURES(X)
#undef X
}

void weir_json_port(json_t *object, const struct weir_port_counters *counters) {
	uint64_t lost = 0;

#define X(field, unit, metric, text) \
	json_object_set_new( \
		object, #field, json_integer((json_int_t)weir_counter_read(&counters->field)));
	WEIR_PORT_COUNTERS(X)
#undef X
	lost += weir_counter_read(&counters->imissed) + weir_counter_read(&counters->ierrors);
	lost += weir_counter_read(&counters->rx_nombuf);
	lost += weir_counter_read(&counters->xdp_ring_full);
	lost += weir_counter_read(&counters->frame_too_long);
	json_object_set_new(object, "lost", json_integer((json_int_t)lost));
}

json_t *weir_json_worker_drops(const struct weir_worker_counters *counters) {
	json_t *drops = json_object();

	for (unsigned int reason = 0; reason < WEIR_DROP_REASON_COUNT; reason++) {
		json_object_set_new(drops, weir_drop_reason_name((enum weir_drop_reason)reason),
			json_integer((json_int_t)weir_counter_read(&counters->drops[reason])));
	}
	return drops;
}

json_t *weir_json_drops(const struct weir_segment *segment) {
	json_t *drops = json_object();

	for (unsigned int reason = 0; reason < WEIR_DROP_REASON_COUNT; reason++) {
		uint64_t sum = 0;

		for (uint32_t worker = 0; worker < segment->workers; worker++) {
			sum += weir_counter_read(&segment->worker_counters[worker].drops[reason]);
		}
		json_object_set_new(drops, weir_drop_reason_name((enum weir_drop_reason)reason),
			json_integer((json_int_t)sum));
	}
	return drops;
}

json_t *weir_json_workers_sum(const struct weir_segment *segment) {
	struct weir_worker_counters sum = {0};
	json_t *object = json_object();

	for (uint32_t worker = 0; worker < segment->workers; worker++) {
#define X(field, unit, metric, text) \
	sum.field += weir_counter_read(&segment->worker_counters[worker].field);
		WEIR_WORKER_FIGURES(X)
#undef X
	}
	weir_json_worker(object, &sum);
	return object;
}
