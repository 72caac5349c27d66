// SPDX-License-Identifier: BSD-3-Clause
//
// Packets: writes the frame that a client would send. Called by measure.c outside of the timed
// code, also to write the expected frame. verify.c uses weir_bench_sum, options.c uses
// weir_bench_frame_min, and balancer.c uses the MAC addresses.
//
// Threads: any, after initialization.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tuples.h"

#define WEIR_BENCH_FRAME_MAX 1518
#define WEIR_BENCH_VLAN 42
#define WEIR_BENCH_TOS 0x28 // AF11; not 0, so that checks detect a TOS that is not copied

#define WEIR_BENCH_FIN 0x01
#define WEIR_BENCH_SYN 0x02
#define WEIR_BENCH_ACK 0x10

struct weir_bench_packets {
	uint32_t frame_bytes; // length with the Ethernet header, without the FCS
	uint32_t l3_offset;
	uint8_t family;
	bool vlan;
	// Ones' complement sum of the payload: [0] after a TCP header, [1] after a UDP header
	uint16_t payload_sum[2];
};

extern const uint8_t weir_bench_client_mac[6], weir_bench_our_mac[6];

// Returns the length of the shortest frame with these headers.
uint32_t weir_bench_frame_min(uint8_t family, uint8_t protocol, bool vlan);

// Initialize the data for frames of this length. frame_bytes: at least weir_bench_frame_min of each
// protocol in use, at most WEIR_BENCH_FRAME_MAX.
void weir_bench_packets_init(
	struct weir_bench_packets *packets, uint8_t family, bool vlan, uint32_t frame_bytes);

// Write a whole frame to `to`: headers and payload. tuple: addresses and ports. flags: TCP flags.
// serial: TCP sequence numbers and IPv4 identifications depend on it.
void weir_bench_packet_write(const struct weir_bench_packets *packets,
	const struct weir_bench_tuple *tuple, uint8_t protocol, uint8_t flags, uint32_t serial,
	uint8_t *to);

// Writes the headers of a frame as weir_bench_packet_write does, but only the first
// WEIR_BENCH_HEADERS_BYTES bytes of `to`. The remaining bytes are payload, which is equal in all
// frames; weir_bench_packet_write must have written them before.
#define WEIR_BENCH_HEADERS_BYTES 78 // Ethernet, VLAN, IPv6 and TCP headers
void weir_bench_packet_rewrite(const struct weir_bench_packets *packets,
	const struct weir_bench_tuple *tuple, uint8_t protocol, uint8_t flags, uint32_t serial,
	uint8_t *to);

// Returns `sum` plus the sum of the big-endian 16-bit words in the `bytes` bytes at `at`, folded to
// 16 bits. If the number of bytes is odd, a zero byte is appended.
uint16_t weir_bench_sum(const uint8_t *at, size_t bytes, uint64_t sum);
