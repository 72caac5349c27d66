// SPDX-License-Identifier: BSD-3-Clause
#include "listen_reader.h"

#include <errno.h>
#include <linux/bpf.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

// Layout of the ring buffer (kernel/bpf/ringbuf.c): a page with the reader's position, a page with
// the writer's position, and the records. The memory of the records is mapped twice in a row, so
// that a record at the end of the ring can be read as one piece. A position only increases.
struct weir_listen_reader {
	uint64_t *taken; // position of the reader, writable
	const uint64_t *written;
	const uint8_t *records;
	size_t page, bytes; // size of a page, and of the ring
};

#define POSITION_MAPPED(reader) ((reader)->page + 2 * (reader)->bytes)

int weir_listen_open(int fd, struct weir_listen_reader **ret) {
	struct weir_listen_reader *reader = calloc(1, sizeof(*reader));
	void *taken, *written;

	if (reader == NULL) {
		return -ENOMEM;
	}
	reader->page = (size_t)sysconf(_SC_PAGESIZE);
	reader->bytes =
		reader->page > WEIR_LISTEN_RING_BYTES ? reader->page : WEIR_LISTEN_RING_BYTES;
	taken = mmap(NULL, reader->page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (taken == MAP_FAILED) {
		free(reader);
		return -errno;
	}
	written =
		mmap(NULL, POSITION_MAPPED(reader), PROT_READ, MAP_SHARED, fd, (off_t)reader->page);
	if (written == MAP_FAILED) {
		int r = -errno;

		munmap(taken, reader->page);
		free(reader);
		return r;
	}
	reader->taken = taken;
	reader->written = written;
	reader->records = (const uint8_t *)written + reader->page;
	*ret = reader;
	return 0;
}

void weir_listen_close(struct weir_listen_reader *reader) {
	if (reader != NULL) {
		munmap(reader->taken, reader->page);
		munmap((void *)(uintptr_t)reader->written, POSITION_MAPPED(reader));
		free(reader);
	}
}

bool weir_listen_take(struct weir_listen_reader *reader, struct weir_listen_event *ret) {
	// A multiple of 8, as the ring buffer requires.
	const size_t whole = BPF_RINGBUF_HDR_SZ + sizeof(*ret);
	uint64_t at = *reader->taken;
	const uint8_t *record = reader->records + (at & (reader->bytes - 1));
	uint32_t length;

	if (at >= __atomic_load_n(reader->written, __ATOMIC_ACQUIRE)) {
		return false;
	}
	length = __atomic_load_n((const uint32_t *)(const void *)record, __ATOMIC_ACQUIRE);
	// The kernel is still writing the record. When the record is complete, the descriptor
	// becomes readable again.
	if ((length & BPF_RINGBUF_BUSY_BIT) != 0) {
		return false;
	}
	memcpy(ret, record + BPF_RINGBUF_HDR_SZ, sizeof(*ret));
	__atomic_store_n(reader->taken, at + whole, __ATOMIC_RELEASE);
	return true;
}
