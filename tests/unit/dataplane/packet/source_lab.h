// SPDX-License-Identifier: BSD-3-Clause
//
// Source lab, for tests: packets of clients, in a pipeline lab with an affinity table.
#pragma once

#include "affinity.h"
#include "frames.h"
#include "new_flow_lab.h"
#include "test.h"

#define CLIENTS 64
#define TIMEOUT_MS 60000

static struct weir_affinity *table; // affinity table of the open lab

static inline struct weir_selection_params affine(enum weir_policy policy) {
	struct weir_selection_params params = params_of(policy);

	params.settings.hash4 = 32 | WEIR_HASH_AFFINITY;
	params.settings.hash6 = 128;
	params.affinity_ms = TIMEOUT_MS;
	return params;
}

static inline struct lab *open_lab(const struct weir_selection_params *params) {
	struct weir_pipeline_params pipeline = lab_params();
	struct lab *lab;

	assert_int_equal(weir_affinity_create(4096, 77, -1, &table), 0);
	pipeline.affinity = table;
	lab = lab_open(&pipeline);
	lab_publish_default(lab);
	lab_publish_policy(lab, params, (uint16_t[]){0, 1, 2, 3}, 4);
	return lab;
}

static inline void close_lab(struct lab *lab) {
	lab_check_counters(lab);
	lab_free(lab);
	weir_affinity_free(table);
}

static inline uint16_t send_from(
	struct lab *lab, const uint8_t *source, uint8_t family, uint16_t port, uint8_t flags) {
	const struct frame_spec spec = {.family = family,
		.protocol = 6,
		.source = source,
		.source_port = port,
		.tcp_flags = flags};
	const struct weir_verdict verdict = lab_send(lab, &spec);

	assert_int_equal(verdict.action, WEIR_ACTION_FORWARD);
	return verdict.backend;
}

// Sends a packet of client n (192.0.2.n).
static inline uint16_t client(struct lab *lab, uint8_t n, uint16_t port, uint8_t flags) {
	const uint8_t source[4] = {192, 0, 2, n};

	return send_from(lab, source, 4, port, flags);
}

static inline void close_backend(struct lab *lab, uint16_t id, bool closed) {
	lab->rows[id].flags = (uint8_t)(WEIR_BACKEND_PRESENT | WEIR_BACKEND_RESOLVED |
					(closed ? WEIR_BACKEND_CLOSED : 0));
	lab_publish_backends(lab);
}

static inline uint16_t datagram(struct lab *lab, const uint8_t source[4], uint16_t port) {
	const struct frame_spec spec = {.family = 4,
		.protocol = 17,
		.source = source,
		.source_port = port,
		.destination_port = 53};
	const struct weir_verdict verdict = lab_send(lab, &spec);

	assert_int_equal(verdict.action, WEIR_ACTION_FORWARD);
	return verdict.backend;
}
