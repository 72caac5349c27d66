// SPDX-License-Identifier: BSD-3-Clause
//
// Capture: reads and writes Ethernet frames in capture files, with libpcap. Called by main.c.
//
// Threads: one.
#pragma once

#include <stddef.h>
#include <stdint.h>

struct weir_capture_frame {
	const uint8_t *data; // valid until the next read
	uint32_t captured_bytes; // length of data
	uint32_t bytes; // length of the frame on the wire; >= captured_bytes
	uint64_t time_ns; // time since the Unix epoch
};

struct weir_capture_reader;
struct weir_capture_writer;

// Open a pcap or pcapng file, "-" for standard input. Returns 0, or negative errno with one line in
// why: -EINVAL (not a capture file, or not Ethernet), or another errno.
int weir_capture_open(
	const char *file, struct weir_capture_reader **ret, char *why, size_t why_bytes);
void weir_capture_close(struct weir_capture_reader *reader); // NULL is allowed
// Read the next frame. Returns 1, 0 (end of file) or -EBADMSG (truncated or broken file; why gets
// one line).
int weir_capture_read(struct weir_capture_reader *reader, struct weir_capture_frame *ret, char *why,
	size_t why_bytes);

// Create a pcap file with nanosecond timestamps. Returns 0, or negative errno with one line in why:
// -EINVAL (`file` is the regular file that the reader reads), -ENOMEM, -EIO.
int weir_capture_create(const char *file, const struct weir_capture_reader *reader,
	struct weir_capture_writer **ret, char *why, size_t why_bytes);
// Writes a frame. weir_capture_finish returns the errors of all writes.
void weir_capture_write(struct weir_capture_writer *writer, const struct weir_capture_frame *frame);
// Flushes and closes the file. Returns 0, or negative errno if some data could not be written. NULL
// is allowed.
int weir_capture_finish(struct weir_capture_writer *writer);
