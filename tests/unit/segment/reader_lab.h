// SPDX-License-Identifier: BSD-3-Clause
//
// Fixture for the tests of publishing and reading: a segment, a writer that uses control's mapping
// of the segment, and the reader of one worker.
#pragma once

#include "segment_lab.h"

#include <stdlib.h>

struct lab {
	struct weir_segment *segment; // mapping of the dataplane
	struct weir_segment *control; // control's mapping of the same memory
	struct weir_writer *writer;
	struct weir_reader reader;
	struct weir_backend_row rows[FIXTURE_BACKENDS]; // loaded rows
	unsigned int adopted; // total number of loaded rows
};

// adopt_row NULL: the reader is offline, and reads no rows.
static inline int lab_create(
	void **state, uint64_t heap_bytes, uint32_t worker, weir_reader_adopt_row *adopt_row) {
	struct lab *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	f->segment = fixture_segment(heap_bytes);
	f->control = fixture_control(f->segment);
	assert_int_equal(weir_writer_open(f->control, &f->writer), 0);
	assert_int_equal(weir_writer_reserve(f->writer, FIXTURE_SERVICES, FIXTURE_BACKENDS), 0);
	assert_int_equal(weir_segment_follow(f->segment), 0);
	assert_int_equal(weir_reader_init(&f->reader, f->segment, worker, adopt_row, f), 0);
	if (adopt_row != NULL) {
		weir_reader_online(&f->reader);
	}
	f->adopted = 0;
	*state = f;
	return 0;
}

static inline int teardown(void **state) {
	struct lab *f = *state;

	weir_reader_fini(&f->reader);
	weir_writer_free(f->writer);
	weir_segment_free(f->control);
	weir_segment_free(f->segment);
	free(f);
	return 0;
}
