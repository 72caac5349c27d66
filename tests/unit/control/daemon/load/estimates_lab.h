// SPDX-License-Identifier: BSD-3-Clause
//
// A lab for tests of estimates, with the tables of tables_lab.h. The lab writes samples, and reads
// costs and weights, as a worker does.
#pragma once

#include "estimates.h"
#include "tables_lab.h"

#define LAB_MS 1000000ull
#define LAB_SECOND 1000000000ull

struct estimates_lab {
	struct lab lab;
	struct weir_config *config;
	struct weir_estimates *estimates;
	uint64_t now; // time in ns
};

// Open the lab. It has the services s0, s1, and so on. Each service has the backends b0, b1, and so
// on. The policy of all services is maglev until the test changes it. The configuration is not
// applied yet.
static inline void estimates_lab_open_large(struct estimates_lab *lab, const struct lab_room *room,
	uint32_t services, uint32_t backends) {
	lab_open(&lab->lab, room);
	lab->config = lab_config(services, backends);
	lab->now = 100 * LAB_SECOND;
	for (uint32_t s = 0; s < services; s++) {
		lab->config->services[s].policy.window = 386;
		lab->config->services[s].policy.stale_ms = 180000;
		lab->config->services[s].policy.error_penalty = 1;
		lab->config->services[s].policy.blackout_ms = 10000;
		lab->config->services[s].policy.expiration_ms = 180000;
		lab->config->services[s].policy.smoothing_ms = 10000;
		lab->config->services[s].policy.update_ms = 1000;
	}
	assert_int_equal(weir_estimates_create(&lab->estimates), 0);
}

static inline void estimates_lab_open(
	struct estimates_lab *lab, uint32_t services, uint32_t backends) {
	estimates_lab_open_large(lab, NULL, services, backends);
}

static inline void estimates_lab_close(struct estimates_lab *lab) {
	weir_estimates_free(lab->estimates);
	lab_close(&lab->lab);
	lab_config_free(lab->config);
}

static inline void lab_policy(
	struct estimates_lab *lab, uint32_t service, enum weir_policy policy) {
	lab->config->services[service].policy.name = policy;
}

static inline void lab_follow(struct estimates_lab *lab) {
	assert_int_equal(
		weir_estimates_follow(lab->estimates, lab->lab.tables, lab->config, lab->now), 0);
}

static inline void lab_apply_follow(struct estimates_lab *lab) {
	lab_apply(&lab->lab, lab->config);
	lab_follow(lab);
}

// Simulate the end of a flow in a worker. Returns whether the ring had room.
static inline bool lab_sample(
	struct estimates_lab *lab, uint32_t worker, uint16_t backend, uint64_t service_ns) {
	struct weir_sample_ring *ring = &lab->lab.segment->worker_boxes[worker].samples;
	const struct weir_ring_position *position =
		&lab->lab.segment->control_boxes[worker].samples;
	uint64_t tail = ring->tail;

	if (tail - __atomic_load_n(&position->head, __ATOMIC_ACQUIRE) >= WEIR_SAMPLES) {
		ring->lost++;
		return false;
	}
	ring->sample[tail % WEIR_SAMPLES] =
		(struct weir_sample){.service_ns = service_ns, .backend = backend};
	__atomic_store_n(&ring->tail, tail + 1, __ATOMIC_RELEASE);
	return true;
}

static inline uint64_t lab_waiting(const struct estimates_lab *lab, uint32_t worker) {
	return lab->lab.segment->worker_boxes[worker].samples.tail -
	       lab->lab.segment->control_boxes[worker].samples.head;
}

// Run iterations until all samples have been collected.
static inline void lab_collect(struct estimates_lab *lab) {
	while (weir_estimates_collect(lab->estimates, lab->now)) {
	}
}

// Returns the cost that a worker reads.
static inline uint64_t lab_cost(const struct estimates_lab *lab, uint16_t backend) {
	return lab->lab.segment->costs[backend];
}
