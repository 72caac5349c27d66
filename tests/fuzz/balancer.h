// SPDX-License-Identifier: BSD-3-Clause
//
// Balancer: a real segment with published tables and one worker's pipeline on it, small enough to
// be made anew for every input.
//
//   service 0  TCP 80 and 8000..8099 of both VIPs      backends 0 to 3
//   service 1  UDP, every port, of both VIPs           backends 4 and 5
// Even backends have IPv4 addresses, odd ones IPv6. Backend 2 is behind a VLAN tag, 3 has no next
// hop yet, 6 is named by a selection but its row is gone (see enum balancer_tables).
//
// Threads: one.
#pragma once

#include <rte_mbuf.h>

#include "backend_row.h"
#include "pipeline.h"
#include "pipeline_setup.h"
#include "writer.h"

#define BALANCER_MAC {2, 0, 0, 0, 0, 2} // of all ports, and of the frames of the unit tests
#define BALANCER_SERVICES 4
#define BALANCER_BACKENDS 8
#define BALANCER_PORTS 3
#define BALANCER_SEED 0x1234567890abcdefull
#define BALANCER_NOW 1000000000000ull

extern const uint8_t balancer_vip4[16], balancer_vip6[16];

// What may be published.
enum balancer_tables {
	BALANCER_USUAL,
	BALANCER_GONE, // backends 0 and 4 left; service 0 also selects 6, which is not there
	BALANCER_SMALL_MTU, // every backend behind 1280 bytes
	BALANCER_EMPTY, // no backend is selected
	BALANCER_VARIANTS,
};

struct balancer {
	struct weir_segment *segment; // of the dataplane
	struct weir_segment *control; // the same memory, as the writer has it
	struct weir_writer *writer;
	struct weir_pipeline *pipeline;
	struct weir_backend_row rows[BALANCER_BACKENDS]; // as published
	uint64_t now_ns;
};

// DPDK without huge pages or devices, and the pool of buffer_make. Once per process.
void balancer_start(void);
// The same with a pool of so many buffers, each with `room` bytes of its own for packets that are
// made (0: none can be made).
void balancer_start_with(uint32_t buffers, uint16_t room);

// Nothing is published, the worker is offline. The mappings lie between guards (balancer_guard).
// Flow timeouts are 50 (half-open), 200 (young, UDP), 1000 and 100 (closing) ms.
void balancer_init(struct balancer *balancer);
void balancer_fini(struct balancer *balancer);
void balancer_publish(struct balancer *balancer, enum balancer_tables tables);
// Put each mapping of a segment between two guards, so that an access before or behind it is a
// crash; and release such a segment.
void balancer_guard(struct weir_segment *segment);
void balancer_guarded_free(struct weir_segment *segment);

// --- packet buffers ---

// A packet buffer on the heap that begins `headroom` before the frame's first byte and ends with
// its last one and `tailroom`. first > 0: only that many bytes are in the first segment, which has
// the tailroom; the rest is in a second one.
struct rte_mbuf *buffer_make(
	const uint8_t *frame, uint32_t bytes, uint16_t headroom, uint32_t first, uint16_t tailroom);
void buffer_free(struct rte_mbuf *m);
void buffer_check_leaks(void); // none is in use
