// SPDX-License-Identifier: BSD-3-Clause
//
// Buffers: packets in heap memory of their exact size, so that a sanitizer detects an access
// beyond a packet.
//
// Threads: one.
#pragma once

#include <rte_mbuf.h>

// Starts DPDK with no huge pages and no devices. Creates a pool of `buffers` buffers, each with
// `room` bytes for new packets (0: no packet can be created). Call once per process.
void buffers_start(uint32_t buffers, uint16_t room);

// Returns a packet buffer on the heap: `headroom` bytes, the frame, and `tailroom` bytes. If
// first > 0, the buffer has two segments: the first segment contains `first` bytes of the frame
// and the tailroom, the second segment contains the remaining bytes of the frame.
struct rte_mbuf *buffer_make(
	const uint8_t *frame, uint32_t bytes, uint16_t headroom, uint32_t first, uint16_t tailroom);
void buffer_free(struct rte_mbuf *m);
void buffer_check_leaks(void); // checks that no buffer is in use
