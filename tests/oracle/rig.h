// SPDX-License-Identifier: BSD-3-Clause
//
// Rig: a segment with the tables of a plan, and one worker's pipeline on it. Each frame is in a
// heap buffer of exactly its size, between redzones of ASan. The pipeline allocates buffers for
// fragments from a DPDK mempool. Every burst is also captured (captured.h).
//
// Threads: one.
#pragma once

#include "affinity.h"
#include "guarded_segment.h"
#include "judge.h"
#include "packet_capture.h"
#include "pipeline.h"

#define RIG_SOURCES 64 // entries of the affinity table

struct rig {
	struct guarded_segment memory;
	struct weir_affinity *affinity;
	struct weir_pipeline *pipeline;
	struct weir_packet_capture *capture;
	uint64_t captured; // number of the capture order of the burst
	const struct plan *plan; // borrowed
	uint64_t now_ns;
};

// How a frame is received.
struct reception {
	uint16_t headroom, tailroom;
	uint16_t first; // bytes in the first of two segments; 0 = one segment
	uint16_t tag; // tag stripped by the NIC; 0 = none
	bool checked; // the NIC reports that the IPv4 checksum is correct
};

// Start DPDK with no huge pages and no devices. Call once per process.
void rig_start(void);
// Create the rig, and publish the plan. Also computes the Maglev slots of the plan's services.
void rig_init(struct rig *rig, struct plan *plan, uint64_t now_ns, uint64_t secret);
void rig_fini(struct rig *rig); // checks that all buffers were freed
// Choose a random change of a backend, of a selection or of a bind, and publish it. When this
// function returns, the change is in effect and the replaced tables are freed.
void rig_change(struct rig *rig, struct plan *plan, struct random *random);
// Advance the time in small steps, as a poll loop does.
void rig_wait(struct rig *rig, uint64_t ns);

// A burst in the rig.
struct rig_burst {
	struct rte_mbuf *pkts[BURST_MAX];
	struct seen seen[BURST_MAX];
	struct extra extras[EXTRAS_ROOM];
	struct rte_mbuf *extra_pkts[EXTRAS_ROOM];
	struct judged_burst judged;
	uint8_t gathered[BURST_MAX][OUTPUT_FRAME_MAX]; // copies of packets in several segments
};

// Append a packet to the burst; its index is burst->judged.n. bytes are borrowed until the burst
// has been freed.
void rig_receive(struct rig_burst *burst, const uint8_t *bytes, uint32_t n,
	const struct reception *reception);
void rig_process(struct rig *rig, struct rig_burst *burst, uint8_t in_port);
void rig_free(struct rig_burst *burst);
