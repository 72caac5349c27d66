// SPDX-License-Identifier: BSD-3-Clause
//
// Signal: data about a backend that weir-control writes and the policy of the backend's service
// reads. A signal is one 64-bit word, so that it is read and written atomically. The highest two
// bits are the kind of the signal: while a service changes its policy, a worker may read a word
// that weir-control wrote for the previous policy.
//
//   cost     predicted cost of a flow, ns; 0 = unknown
//   errors   errors that the backend reports, converted to a number of active flows per worker
//   share    from the report of a backend: each worker's share of the requests in progress, and
//            the errors
//   probe    requests in progress, latency, and the time of the backend's report
//
// Threads: control writes, workers read; relaxed accesses of whole words.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define WEIR_SIGNAL_SHIFT 62 // position of the kind, in the highest bits
#define WEIR_SIGNAL_COST UINT64_C(0)
#define WEIR_SIGNAL_PROBE UINT64_C(1)
#define WEIR_SIGNAL_ERRORS UINT64_C(2)
#define WEIR_SIGNAL_SHARE UINT64_C(3)

// Returns the cost, or 0 if the word does not contain a cost.
static inline uint64_t weir_signal_cost(uint64_t word) {
	return word >> WEIR_SIGNAL_SHIFT == WEIR_SIGNAL_COST ? word : 0;
}

#define WEIR_SIGNAL_ERRORS_MAX 0xffffffu

static inline uint64_t weir_signal_of_errors(uint32_t errors) {
	errors = errors < WEIR_SIGNAL_ERRORS_MAX ? errors : WEIR_SIGNAL_ERRORS_MAX;
	return errors > 0 ? WEIR_SIGNAL_ERRORS << WEIR_SIGNAL_SHIFT | errors : 0;
}

static inline uint32_t weir_signal_errors(uint64_t word) {
	return word >> WEIR_SIGNAL_SHIFT == WEIR_SIGNAL_ERRORS ? (uint32_t)word : 0;
}

// The bits of a share: flows (26 bits), errors (14 bits), spread and gain (8 bits each), serial (6
// bits). Flows and spread are in units of 1 / WEIR_SIGNAL_FLOW flow. A gain of 0 means 1/256, and a
// gain of 255 means 1.
#define WEIR_SIGNAL_FLOW 256u
#define WEIR_SIGNAL_SHARE_MAX 0x3ffffffu
#define WEIR_SIGNAL_SHARE_ERRORS_SHIFT 26
#define WEIR_SIGNAL_SHARE_ERRORS_MAX 0x3fffu
#define WEIR_SIGNAL_SPREAD_SHIFT 40
#define WEIR_SIGNAL_GAIN_SHIFT 48
#define WEIR_SIGNAL_SERIAL_SHIFT 56
#define WEIR_SIGNAL_SERIALS 63u

struct weir_signal_share {
	// number of flows that each worker would have if all workers had the same number
	double flows;
	// Each worker adds a random number between -spread / 2 and spread / 2 to `flows`. spread: 0
	// to 1.
	double spread;
	double gain; // how much of (flows - the worker's own flows) counts as load, 0 to 1
	uint32_t errors; // errors, as a number of active flows (weir_signal_of_errors)
};

static inline uint64_t weir_signal_bits(double value, uint32_t most) {
	return value < most ? (uint64_t)value : most;
}

// before: the word that the result replaces. The result has the next serial: workers detect a new
// report by its different serial.
static inline uint64_t weir_signal_of_share(
	const struct weir_signal_share *share, uint64_t before) {
	uint64_t serial = (before >> WEIR_SIGNAL_SERIAL_SHIFT & WEIR_SIGNAL_SERIALS) + 1;
	uint64_t errors = share->errors < WEIR_SIGNAL_SHARE_ERRORS_MAX
				  ? share->errors
				  : WEIR_SIGNAL_SHARE_ERRORS_MAX;

	serial = serial <= WEIR_SIGNAL_SERIALS ? serial : 1;
	return WEIR_SIGNAL_SHARE << WEIR_SIGNAL_SHIFT | serial << WEIR_SIGNAL_SERIAL_SHIFT |
	       weir_signal_bits(share->gain * 255 + 0.5, 255) << WEIR_SIGNAL_GAIN_SHIFT |
	       weir_signal_bits(share->spread * WEIR_SIGNAL_FLOW, 255) << WEIR_SIGNAL_SPREAD_SHIFT |
	       errors << WEIR_SIGNAL_SHARE_ERRORS_SHIFT |
	       weir_signal_bits(share->flows * WEIR_SIGNAL_FLOW + 0.5, WEIR_SIGNAL_SHARE_MAX);
}

static inline bool weir_signal_is_share(uint64_t word) {
	return word >> WEIR_SIGNAL_SHIFT == WEIR_SIGNAL_SHARE;
}

// Returns the serial, 1 to WEIR_SIGNAL_SERIALS; 0 = the word does not contain a share.
static inline uint32_t weir_signal_serial(uint64_t word) {
	return weir_signal_is_share(word)
		       ? (uint32_t)(word >> WEIR_SIGNAL_SERIAL_SHIFT) & WEIR_SIGNAL_SERIALS
		       : 0;
}

static inline uint32_t weir_signal_share_flows(uint64_t word) {
	return (uint32_t)word & WEIR_SIGNAL_SHARE_MAX;
}

static inline uint32_t weir_signal_share_errors(uint64_t word) {
	return (uint32_t)(word >> WEIR_SIGNAL_SHARE_ERRORS_SHIFT) & WEIR_SIGNAL_SHARE_ERRORS_MAX;
}

static inline uint32_t weir_signal_share_spread(uint64_t word) {
	return (uint32_t)(word >> WEIR_SIGNAL_SPREAD_SHIFT) & 255;
}

static inline uint32_t weir_signal_share_gain(uint64_t word) {
	return (uint32_t)(word >> WEIR_SIGNAL_GAIN_SHIFT) & 255;
}

// The bits of a probe: latency in units of 2^14 ns (24 bits), time in units of 2^20 ns (24 bits),
// active requests (14 bits).
#define WEIR_SIGNAL_LATENCY_SHIFT 38
#define WEIR_SIGNAL_STAMP_SHIFT 14
#define WEIR_SIGNAL_STAMP_MASK 0xffffffu
#define WEIR_SIGNAL_LATENCY_MAX 0xffffffu
#define WEIR_SIGNAL_ACTIVE_MAX 0x3fffu

static inline uint32_t weir_signal_stamp(uint64_t now_ns) {
	return (uint32_t)(now_ns >> 20) & WEIR_SIGNAL_STAMP_MASK;
}

static inline uint64_t weir_signal_of_probe(uint64_t active, uint64_t latency_ns, uint64_t now_ns) {
	uint64_t latency = latency_ns >> 14;

	latency = latency < WEIR_SIGNAL_LATENCY_MAX ? latency : WEIR_SIGNAL_LATENCY_MAX;
	active = active < WEIR_SIGNAL_ACTIVE_MAX ? active : WEIR_SIGNAL_ACTIVE_MAX;
	return WEIR_SIGNAL_PROBE << WEIR_SIGNAL_SHIFT | latency << WEIR_SIGNAL_LATENCY_SHIFT |
	       (uint64_t)weir_signal_stamp(now_ns) << WEIR_SIGNAL_STAMP_SHIFT | active;
}

static inline bool weir_signal_is_probe(uint64_t word) {
	return word >> WEIR_SIGNAL_SHIFT == WEIR_SIGNAL_PROBE;
}

static inline uint32_t weir_signal_probe_active(uint64_t word) {
	return (uint32_t)word & WEIR_SIGNAL_ACTIVE_MAX;
}

static inline uint32_t weir_signal_probe_stamp(uint64_t word) {
	return (uint32_t)(word >> WEIR_SIGNAL_STAMP_SHIFT) & WEIR_SIGNAL_STAMP_MASK;
}

static inline uint32_t weir_signal_probe_latency(uint64_t word) {
	return (uint32_t)(word >> WEIR_SIGNAL_LATENCY_SHIFT) & WEIR_SIGNAL_LATENCY_MAX;
}
