// SPDX-License-Identifier: BSD-3-Clause
//
// Buffers: packets in memory of their exact size, so that a sanitizer sees an access beside them.
//
// Threads: one.
#pragma once

#include <rte_mbuf.h>

// DPDK without huge pages or devices, and a pool of so many buffers, each with `room` bytes of its
// own for packets that are made (0: none can be made). Once per process.
void buffers_start(uint32_t buffers, uint16_t room);

// A packet buffer on the heap that begins `headroom` before the frame's first byte and ends with
// its last one and `tailroom`. first > 0: only that many bytes are in the first segment, which has
// the tailroom; the rest is in a second one.
struct rte_mbuf *buffer_make(
	const uint8_t *frame, uint32_t bytes, uint16_t headroom, uint32_t first, uint16_t tailroom);
void buffer_free(struct rte_mbuf *m);
void buffer_check_leaks(void); // none is in use
