// SPDX-License-Identifier: BSD-3-Clause
//
// New flow lab, for tests: packets of TCP flows, and the counters of backends and services, in a
// pipeline lab with a policy.
#pragma once

#include "pipeline_lab.h"

#define FIN_ACK 0x11
#define SYN 0x02
#define RST 0x04
#define ACK 0x10
#define MS 1000000ull

static inline struct weir_verdict send_tcp(struct lab *lab, uint16_t n, uint8_t flags) {
	struct frame_spec spec = lab_tcp(n, flags);

	return lab_send(lab, &spec);
}

static inline const struct weir_share_counters *backend_of(
	const struct lab *lab, uint32_t backend) {
	return weir_segment_backend_counters(lab->segment, lab->params.worker, backend);
}

static inline const struct weir_share_counters *service_of(
	const struct lab *lab, uint32_t service) {
	return weir_segment_service_counters(lab->segment, lab->params.worker, service);
}

static inline struct weir_selection_params params_of(enum weir_policy policy) {
	return weir_selection_defaults(0, policy, LAB_SLOTS);
}

// Returns a lab in which service 0 has four backends and the policy of params.
static inline struct lab *make(const struct weir_selection_params *params) {
	struct lab *lab = lab_make();

	lab_publish_policy(lab, params, (uint16_t[]){0, 1, 2, 3}, 4);
	return lab;
}
