// SPDX-License-Identifier: BSD-3-Clause
//
// Balancer: a packet pipeline as in a worker, and the segment that it needs, with published
// services, backends and selections. Used by main.c, run.c, measure.c, verify.c, publisher.c and
// report.c.
//
// Threads: one. The second process (publisher.h) writes to the segment only while no writer is open
// in this process.
#pragma once

#include "options.h"
#include "packet_capture.h"
#include "pages.h"
#include "pipeline.h"
#include "pipeline_setup.h"
#include "selection.h"
#include "tuples.h"

#define WEIR_BENCH_HASH_SEED 0x6a09e667f3bcc908ull
#define WEIR_BENCH_WORKER 0

struct weir_bench_balancer {
	const struct weir_bench_options *options;
	struct weir_segment *segment; // the dataplane's mapping of the segment
	struct weir_segment *control; // the control process's mapping of the segment
	bool huge_pages; // the segment has huge pages
	struct weir_pipeline *pipeline; // NULL until a pipeline is started
	struct weir_flow_memory *flows; // with --bucketed: the flow memory that the pipeline uses
	struct weir_packet_capture *capture; // the pipeline's side of a capture
	struct weir_reader reader; // reads the published tables
	bool has_reader;
	uint64_t publish_us; // time taken to build and publish all tables
};

// Creates the segment and publishes all tables. The segment has 2 MiB pages if the options do not
// exclude them and the pool has enough of them. Does not need EAL. options is borrowed. Returns 0
// or negative errno with one line in why.
int weir_bench_balancer_create(const struct weir_bench_options *options,
	struct weir_bench_balancer *ret, char *why, size_t why_bytes);
void weir_bench_balancer_free(struct weir_bench_balancer *balancer);

// Replace the pipeline with a new pipeline, whose counters are 0. heap: memory for the pipeline.
// Returns 0 or negative errno.
int weir_bench_balancer_start(
	struct weir_bench_balancer *balancer, const struct weir_bench_heap *heap);

// Returns the size of the flow table for these options, in bytes.
uint64_t weir_bench_flow_bytes(const struct weir_bench_options *options);
// Returns the size in bytes of a heap for the pipeline and `buffers` packet buffers.
uint64_t weir_bench_balancer_bytes(const struct weir_bench_options *options);

// --- other work of a worker ---------------------------------------------------------------

// Process a burst of n packets, at most WEIR_BURST, while a capture is active. verdicts: receives
// the verdict of each packet.
void weir_bench_process_captured(struct weir_bench_balancer *balancer, struct rte_mbuf **pkts,
	uint16_t n, uint64_t now_ns, struct weir_verdict *verdicts);
// Responds to a request of the second process, if there is one. Call between two bursts.
void weir_bench_respond(struct weir_bench_balancer *balancer, uint64_t now_ns);

// --- identifiers ---------------------------------------------------------------------------

// The backends of one service. They have the ids first .. first + count - 1.
struct weir_bench_share {
	uint32_t first, count;
};
struct weir_bench_share weir_bench_backends_of(
	const struct weir_bench_options *options, uint16_t service);
uint16_t weir_bench_service_of(const struct weir_bench_options *options, uint16_t backend);

// The addresses and the forwarding mode that determine the headers of packets to a backend.
struct weir_bench_way {
	uint8_t address[16];
	uint8_t source[16];
	uint8_t family;
	uint8_t next_hop_mac[6];
	uint8_t port_mac[6];
	uint16_t vlan; // 0 = none
	struct weir_forwarding forwarding;
};
void weir_bench_way(
	const struct weir_bench_options *options, uint16_t backend, struct weir_bench_way *ret);

// Builds the row of a backend. round: 0, or the number of a publication. The MTU in the row changes
// by one byte from round to round, so that each row differs from the previous row, but no packet is
// affected.
void weir_bench_row(const struct weir_bench_options *options, uint16_t backend, uint64_t round,
	struct weir_backend_row *ret);

// Returns the backend of a flow in the published Maglev table, or WEIR_BACKEND_NONE if the policy
// is not Maglev.
uint16_t weir_bench_consistent(struct weir_bench_balancer *balancer,
	const struct weir_bench_tuple *tuple, uint8_t protocol);

// Build the selection of a service. round: 0, or the number of a publication. The weights depend on
// the round; in round 0 all weights are equal. Returns 0 or negative errno.
int weir_bench_selection_build(const struct weir_bench_options *options, struct weir_writer *writer,
	uint16_t service, uint64_t round, struct weir_selection **ret);

// Check the worker's counters after `packets` packets, all of which must have been forwarded.
// Returns 0, or -EBADMSG with one line in why.
int weir_bench_counters_check(
	const struct weir_bench_balancer *balancer, uint64_t packets, char *why, size_t why_bytes);
