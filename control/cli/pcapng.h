// SPDX-License-Identifier: BSD-3-Clause
//
// Writer of pcapng files (draft-ietf-opsawg-pcapng): Ethernet frames, each with a nanosecond
// timestamp, the receiving interface and a comment. The file has one section and is little-endian.
// libpcap is not used, because it cannot write comments.
//
// Each block is written completely and flushed, so that the file ends at a block boundary if the
// writer is killed.
//
// Threads: one for each file. Allocates nothing.
#pragma once

#include <stdint.h>
#include <stdio.h>

#define WEIR_PCAPNG_FRAME_MAX 2048 // maximum number of captured bytes of a frame

struct weir_pcapng_packet {
	uint32_t interface; // index of the interface block, from 0
	uint64_t time_ns; // time since the Unix epoch
	const uint8_t *data;
	uint32_t captured_bytes; // bytes in data; at most WEIR_PCAPNG_FRAME_MAX
	uint32_t bytes; // original length of the frame
	const char *comment; // UTF-8; "" = none; all texts are truncated to 1,023 bytes
};

// Write the section header, which must come first. application: name and version of the writer.
// comment: "" = none. All functions return 0, -EINVAL (captured_bytes is too large), or another
// negative errno (the block could not be written completely).
int weir_pcapng_section(FILE *out, const char *application, const char *comment);
// Write an interface block. The block must be written before the first packet that refers to its
// index. Readers that use libpcap refuse files whose interfaces differ in snaplen.
int weir_pcapng_interface(FILE *out, const char *name, uint32_t snaplen);
// Write a received packet.
int weir_pcapng_packet(FILE *out, const struct weir_pcapng_packet *packet);
