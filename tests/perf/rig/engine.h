// SPDX-License-Identifier: BSD-3-Clause
//
// Runs one trial: sends packets at a rate, receives the returned packets, counts them and measures
// their latency. A packet that the device does not accept when it is due is lost, as on a wire
// (open loop). generator.c runs the trials and chooses the rates.
//
// Threads: one. It needs a CPU of its own; gaps in its execution are measured and reported.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "latency.h"
#include "traffic.h"

#define RIG_BURST_MAX 64u
#define RIG_WINDOWS 20u
#define RIG_SLICES 500u // time slices of a trial, to separate quiet from disturbed slices

struct rte_mempool;

struct rig_trial_params {
	double rate_pps; // 0: as fast as the device accepts packets
	double seconds;
	uint64_t packets; // maximum number of packets; 0: no limit
	uint32_t burst; // maximum number of packets in one call of the device's send function
	uint32_t trial;
	enum rig_kind kind;
	bool in_order; // true: round robin over all flows; false: random flows
	// Verify checksums, and check that all packets of a flow return from the same backend
	bool verify;
};

struct rig_result {
	double seconds; // duration of sending
	uint64_t offered; // packets that were due
	uint64_t sent; // offered packets that the device accepted
	uint64_t refused; // offered packets that the device refused, because its ring was full
	uint64_t skipped; // due packets that were not offered, because the generator was late
	uint64_t received;
	uint64_t received_in_time; // packets received before the last packet was sent
	uint64_t stragglers; // packets of previous trials
	uint64_t unexpected; // any other packets
	uint64_t broken; // packets with a wrong checksum or address (verify)
	// Packets that came back from a different backend than earlier packets of the same flow
	uint64_t moved;
	uint64_t polls; // number of polls while sending
	uint64_t polls_with; // polls that returned packets
	// A slice is disturbed if the generator did not run for 0.1 ms, or if no packet came back
	// for 0.2 ms although packets were in flight. Then the next slice also counts as
	// disturbed. Most effects of a busy machine are in these slices.
	uint64_t disturbed_slices; // number of disturbed slices, at most RIG_SLICES
	uint64_t quiet_offered; // packets offered in quiet slices
	uint64_t quiet_refused;
	uint64_t away_ns; // total of gaps of more than 50 us in the generator's execution
	uint64_t away_max_ns;
	uint64_t window[RIG_WINDOWS]; // packets received in each twentieth of the trial
	uint64_t burst_sizes[RIG_BURST_MAX + 1]; // number of polls, by burst size
};

struct rig_engine_params {
	uint16_t send_port; // DPDK port id; can be equal to receive_port
	uint16_t receive_port;
	// Buffers that are used only for sending, so that they keep their contents
	struct rte_mempool *pool;
	bool encapsulated; // whether returned packets are encapsulated
};

struct rig_engine;

// Returns 0 or -ENOMEM.
int rig_engine_create(const struct rig_engine_params *params, struct rig_engine **ret);
void rig_engine_free(struct rig_engine *engine); // NULL is allowed

// Set the packets that later trials send. Returns 0, -EINVAL, -ENOMEM.
int rig_engine_set_traffic(struct rig_engine *engine, const struct rig_traffic_params *params);

// Returns 0, or -ENOMEM if no buffers for sending were available.
int rig_engine_run(
	struct rig_engine *engine, const struct rig_trial_params *params, struct rig_result *ret);
// Latencies of the last trial, in ticks of the TSC.
const struct rig_latency *rig_engine_latency(const struct rig_engine *engine);
