// SPDX-License-Identifier: BSD-3-Clause
//
// Fixture for the tests of the writer: a segment, a writer that uses control's mapping of the
// segment, and workers without readers.
#pragma once

#include "segment_lab.h"

#include <stdlib.h>

#include "grace.h"

struct lab {
	struct weir_segment *segment; // mapping of the dataplane
	struct weir_segment *control; // control's mapping of the same memory
	struct weir_writer *writer;
};

static inline int setup(void **state) {
	struct lab *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	f->segment = fixture_segment(FIXTURE_HEAP_BYTES);
	f->control = fixture_control(f->segment);
	assert_int_equal(weir_writer_open(f->control, &f->writer), 0);
	*state = f;
	return 0;
}

static inline int teardown(void **state) {
	struct lab *f = *state;

	weir_writer_free(f->writer);
	weir_segment_free(f->control);
	weir_segment_free(f->segment);
	free(f);
	return 0;
}

static inline struct weir_writer_usage usage(const struct lab *f) {
	struct weir_writer_usage u;

	weir_writer_usage(f->writer, &u);
	return u;
}

// End this writer without clean-up and open another writer, as after a SIGKILL.
static inline void reopen(struct lab *f) {
	weir_writer_free(f->writer);
	f->writer = NULL;
	assert_int_equal(weir_writer_open(f->control, &f->writer), 0);
}

// Sets a worker online. It has no reader, so the tests report for it.
static inline void online(struct lab *f, uint32_t worker) {
	weir_grace_online(f->segment, worker);
}

static inline void report(struct lab *f, uint32_t worker) {
	weir_grace_report(f->segment, worker, weir_grace_token(f->segment));
}

static inline void offline(struct lab *f, uint32_t worker) {
	weir_grace_offline(f->segment, worker);
}

static inline uint64_t blob_bytes(const void *blob) {
	return (uint64_t)((const struct weir_blob *)blob)->lines * 64;
}

static inline void publish_selection(struct lab *f, uint16_t service, uint32_t n) {
	assert_int_equal(weir_writer_publish(f->writer, fixture_selection_root(service),
				 fixture_selection(f->writer, service, n, 251)),
		0);
}
