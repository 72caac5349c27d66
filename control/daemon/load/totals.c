// SPDX-License-Identifier: BSD-3-Clause
#include "totals.h"

static void add_share(struct weir_share_counters *sum, const struct weir_share_counters *one) {
#define X(field, unit, metric, text) sum->field += weir_counter_read(&one->field);
	WEIR_SHARE_FIGURES(X)
#undef X
}

// Subtract the counts of the previous owners of the id.
static void subtract_base(struct weir_share_counters *sum, const struct weir_share_counters *base) {
#define X(field, unit, metric, text) sum->field -= base->field;
	WEIR_SHARE_COUNTERS(X)
#undef X
}

struct weir_share_counters weir_sum_service(const struct weir_segment *segment, uint32_t service) {
	struct weir_share_counters sum = {0};

	if (segment == NULL || service >= segment->max_services) {
		return sum;
	}
	for (uint32_t worker = 0; worker < segment->workers; worker++) {
		add_share(&sum, weir_segment_service_counters(segment, worker, service));
	}
	subtract_base(&sum, &segment->service_bases[service]);
	return sum;
}

struct weir_share_counters weir_sum_backend(const struct weir_segment *segment, uint32_t backend) {
	struct weir_share_counters sum = {0};

	if (segment == NULL || backend >= segment->max_backends) {
		return sum;
	}
	for (uint32_t worker = 0; worker < segment->workers; worker++) {
		add_share(&sum, weir_segment_backend_counters(segment, worker, backend));
	}
	subtract_base(&sum, &segment->backend_bases[backend]);
	return sum;
}
