// SPDX-License-Identifier: BSD-3-Clause
//
// Pipeline lab, for tests: a real segment with published tables, and a pipeline that uses them.
//
// In the default tables, service 0 has TCP ports 80 and 8000 to 8999 of both VIPs, and backends 0
// to 3. Service 1 has UDP port 53 of both VIPs, and backends 4 and 5. Odd backends have IPv6
// addresses.
#pragma once

#include "backend_row.h"
#include "frames.h"
#include "mailbox.h"
#include "pipeline.h"
#include "pipeline_setup.h"
#include "selection.h"
#include "writer.h"

#define LAB_SERVICES 8
#define LAB_BACKENDS 16
#define LAB_PORTS 3
#define LAB_IN_PORT 1
#define LAB_MTU 1500
#define LAB_SLOTS 251
#define LAB_SEED 0x1234567890abcdefull
#define LAB_NOW 1000000000000ull

struct lab {
	struct weir_segment *segment; // the dataplane's mapping of the segment
	struct weir_segment *control; // control's mapping, written by the writer
	struct weir_writer *writer;
	struct weir_pipeline *pipeline;
	// change these rows, then call lab_publish_backends
	struct weir_backend_row rows[LAB_BACKENDS];
	struct weir_pipeline_params params;
	uint64_t now_ns;
};

int lab_eal(void **state); // cmocka group set-up: EAL without hugepages

// Default parameters of the pipeline, to be changed and passed to lab_open.
struct weir_pipeline_params lab_params(void);
// opens a lab with nothing published
struct lab *lab_open(const struct weir_pipeline_params *params);
struct lab *lab_make(void); // opens a lab with default parameters and tables
void lab_free(struct lab *lab);

void lab_publish_default(struct lab *lab);
void lab_publish_services(struct lab *lab);
// Publish the default binds. All of them get these flags: 0, WEIR_BIND_DRAINED, or
// WEIR_BIND_DRAINED | WEIR_BIND_ENDED.
void lab_publish_binds(struct lab *lab, uint16_t flags);
void lab_publish_backends(struct lab *lab);
// Publish a policy with equal weights.
void lab_publish_policy(struct lab *lab, const struct weir_selection_params *params,
	const uint16_t *ids, uint32_t n);
void lab_publish_selection(struct lab *lab, uint16_t service, const uint16_t *ids, uint32_t n);

// Process one packet in the pipeline, and publish the counters.
struct weir_verdict lab_process(struct lab *lab, struct rte_mbuf *m);
// Build a packet, process it, free it.
struct weir_verdict lab_send(struct lab *lab, const struct frame_spec *spec);
// Returns an IPv4 TCP packet of flow n, from a client to service 0; n is at most 65535 - 1024.
struct frame_spec lab_tcp(uint16_t n, uint8_t flags);
// Returns a request from control for flow n of lab_tcp.
struct weir_message lab_question(uint16_t n);
// Advance the time of the pipeline, in steps short enough for its sweep.
void lab_wait(struct lab *lab, uint64_t ms);
// Check the relations between counters that pipeline.h guarantees.
void lab_check_counters(const struct lab *lab);
const struct weir_worker_counters *lab_counters(const struct lab *lab);
