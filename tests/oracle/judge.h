// SPDX-License-Identifier: BSD-3-Clause
//
// Judge: checks the pipeline's result for a burst. Predicts the verdict of each packet and every
// byte that is sent. It has a separate flow table, fragment table, rate limits and counters.
//
// Threads: one.
#pragma once

#include "datagrams.h"
#include "layout.h"
#include "predict.h"
#include "segment.h"

#define BURST_MAX 64
#define EXTRAS_ROOM 256

struct limit_state { // a token bucket with a capacity of one second
	uint64_t cost_ns; // credit used by one reply; UINT64_MAX: replies are not permitted
	uint64_t credit_ns;
	uint64_t last_ns;
	uint32_t replies; // number of replies of the burst
	bool refused; // whether the burst had a refused reply
};

struct extra { // a packet that the pipeline created, such as a further fragment
	const uint8_t *bytes;
	uint32_t n;
	uint16_t backend;
	bool claimed;
};

struct judged_share { // counters of a backend or a service
	uint64_t packets, bytes, dropped;
};

struct judge {
	struct plan *plan;
	struct flows flows;
	struct datagrams datagrams;
	struct limit_state limits[LIMITS];
	struct flow_counts counts;
	uint64_t now_ns;
	// Totals counted by the judge, not by the pipeline.
	uint64_t packets, bytes, forwarded, replied, to_kernel, dropped;
	uint64_t fragmented, fragments_made;
	uint64_t drops[WEIR_DROP_REASON_COUNT];
	struct judged_share backends[PLAN_BACKENDS], services[PLAN_SERVICES];
	uint64_t chosen[8]; // number of verdicts for each enum weir_choice, for the report
	// The error: index of the packet in the burst (or -1), and a text.
	int wrong;
	char text[4096];
	uint8_t scratch[OUTPUT_FRAME_MAX];
};

struct judged_burst {
	struct seen *seen;
	uint32_t n;
	uint8_t in_port;
	struct extra *extras;
	uint32_t extra_count;
};

void judge_init(struct judge *judge);
void judge_fini(struct judge *judge);
// Start with a plan and empty tables.
void judge_start(struct judge *judge, struct plan *plan, uint64_t now_ns);
// Call after a change of the plan.
void judge_change(struct judge *judge, uint64_t now_ns);
// Returns false on an error, which is in judge->wrong and judge->text.
bool judge_burst(struct judge *judge, struct judged_burst *burst, uint64_t now_ns);
// Check the counters that the worker publishes. flows: also check the numbers of flows.
bool judge_counters(
	struct judge *judge, const struct weir_segment *segment, bool flows, uint64_t now_ns);

// --- only for the source files of the judge ---------------------------------------------------

// Record an error of a packet (-1: of no packet). Returns false.
bool judge_fail(struct judge *judge, int packet, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
// Returns whether the sent packet begins like a packet of this flow to its backend.
bool judge_is_sent(const struct plan *plan, const struct seen *seen);
// Check the sent packets, and add them to the totals.
bool judge_outputs(struct judge *judge, struct judged_burst *burst);
