// SPDX-License-Identifier: BSD-3-Clause
//
// Writer of pcapng files (draft-ietf-opsawg-pcapng): Ethernet frames with nanosecond timestamps,
// the receiving interface, and a comment for each. One section, little-endian. libpcap writes no
// comments.
//
// A block is written whole and flushed, so that the file of a killed writer ends at a block
// boundary.
//
// Threads: one for each file. Allocates nothing.
#pragma once

#include <stdint.h>
#include <stdio.h>

#define WEIR_PCAPNG_FRAME_MAX 2048 // maximum captured bytes of a frame

struct weir_pcapng_packet {
	uint32_t interface; // number of its interface block, from 0
	uint64_t time_ns; // since the Unix epoch
	const uint8_t *data;
	uint32_t captured_bytes; // in data; at most WEIR_PCAPNG_FRAME_MAX
	uint32_t bytes; // original length of the frame
	const char *comment; // UTF-8; "" = none; truncated to 1,023 bytes, as all texts
};

// The section header. application: name and version of the writer. comment: "" = none. These
// functions return 0, -EINVAL (captured_bytes), or another negative errno if the file did not take
// the whole block.
int weir_pcapng_section(FILE *out, const char *application, const char *comment);
// An interface; all come before the first packet. Readers that use libpcap refuse files whose
// interfaces differ in snaplen.
int weir_pcapng_interface(FILE *out, const char *name, uint32_t snaplen);
// A received packet.
int weir_pcapng_packet(FILE *out, const struct weir_pcapng_packet *packet);
