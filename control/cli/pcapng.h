// SPDX-License-Identifier: BSD-3-Clause
//
// Writer of pcapng files (draft-ietf-opsawg-pcapng): Ethernet frames with times in nanoseconds, the
// interface that received them, and a comment for each. One section, little-endian. libpcap writes
// no comments.
//
// A block is written whole and flushed, so that a file whose writer is killed ends behind a block.
//
// Threads: one for each file. Nothing is allocated.
#pragma once

#include <stdint.h>
#include <stdio.h>

#define WEIR_PCAPNG_FRAME_MAX 2048 // bytes of a frame that a packet can have

struct weir_pcapng_packet {
	uint32_t interface; // number of its interface block, from 0
	uint64_t time_ns; // since the Unix epoch
	const uint8_t *data;
	uint32_t captured_bytes; // in data; at most WEIR_PCAPNG_FRAME_MAX
	uint32_t bytes; // of the frame as it was on the wire
	const char *comment; // UTF-8; "" = none; cut after 1,023 bytes, as all texts are
};

// The section header. application: what writes it, with its version. comment: "" = none.
// These return 0, -EINVAL (captured_bytes), or another negative errno when the file did not take
// the whole block.
int weir_pcapng_section(FILE *out, const char *application, const char *comment);
// An interface; all come before the first packet. Readers that use libpcap refuse files whose
// interfaces differ in snaplen.
int weir_pcapng_interface(FILE *out, const char *name, uint32_t snaplen);
// A received packet.
int weir_pcapng_packet(FILE *out, const struct weir_pcapng_packet *packet);
