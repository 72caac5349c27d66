// SPDX-License-Identifier: BSD-3-Clause
//
// One trial: sends packets at a rate, receives the returned packets, counts and times them. Open
// loop: a packet that the device does not accept at its time is lost, as on a wire. Driven by
// generator.c, which chooses the rates.
//
// Threads: one, which must have its own CPU: gaps in its execution are measured and reported.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "latency.h"
#include "traffic.h"

#define RIG_BURST_MAX 64u
#define RIG_WINDOWS 20u
#define RIG_SLICES 500u // slices of a trial's time, to separate quiet from disturbed slices

struct rte_mempool;

struct rig_trial_params {
	double rate_pps; // 0: as fast as the device accepts packets
	double seconds;
	uint64_t packets; // maximum number; 0: no limit
	uint32_t burst; // maximum number of packets given to the device at once
	uint32_t trial;
	enum rig_kind kind;
	bool in_order; // true: every flow once, in turn; false: flows at random
	// Verify checksums; and store each flow's backend, for comparison with later packets
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
	uint64_t stragglers; // packets of former trials
	uint64_t unexpected; // any other packets
	uint64_t broken; // packets with a wrong checksum or address (verify)
	uint64_t moved; // packets returned from another backend than before
	uint64_t polls; // maximum length of the receive queue, while sending
	uint64_t polls_with; // polls that returned packets
	// A slice is disturbed if the generator did not run for 0.1 ms, or if no packet came back
	// for 0.2 ms although packets were in flight. The next slice is then disturbed, too. Most
	// effects of a busy machine are in these slices.
	uint64_t disturbed_slices; // of RIG_SLICES
	uint64_t quiet_offered; // packets offered in quiet slices
	uint64_t quiet_refused;
	uint64_t away_ns; // total of gaps of more than 50 us in the generator's execution
	uint64_t away_max_ns;
	uint64_t window[RIG_WINDOWS]; // packets received in each twentieth of the time
	uint64_t burst_sizes[RIG_BURST_MAX + 1]; // number of polls, by burst size
};

struct rig_engine_params {
	uint16_t send_port; // port ids of DPDK; may be equal
	uint16_t receive_port;
	struct rte_mempool *pool; // buffers for sending only, which keep their contents
	bool encapsulated; // whether returned packets are encapsulated
};

struct rig_engine;

// Returns 0 or -ENOMEM.
int rig_engine_create(const struct rig_engine_params *params, struct rig_engine **ret);
void rig_engine_free(struct rig_engine *engine); // NULL is allowed

// Set the packets to send from now on. Returns 0, -EINVAL, -ENOMEM.
int rig_engine_set_traffic(struct rig_engine *engine, const struct rig_traffic_params *params);

// Returns 0, or -ENOMEM if no buffers for sending were available.
int rig_engine_run(
	struct rig_engine *engine, const struct rig_trial_params *params, struct rig_result *ret);
// Latencies of the last trial, in ticks of the TSC.
const struct rig_latency *rig_engine_latency(const struct rig_engine *engine);
