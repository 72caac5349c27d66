// SPDX-License-Identifier: BSD-3-Clause
//
// Tests captures without a dataplane, with a dataplane that does not capture, and without memory.
// The tests of the API cover the contents and the end of captures.
#include "captures.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "starved.h"
#include "tables_lab.h"

struct own {
	uv_loop_t loop;
	struct weir_segment *dataplane, *control;
	struct weir_audit *audit;
	struct weir_captures *captures;
};

static int setup(void **state) {
	static const struct weir_log log = {.fd = -1};
	struct own *own = calloc(1, sizeof(*own));

	assert_non_null(own);
	own->dataplane = lab_segment(NULL);
	own->control = lab_attach(own->dataplane);
	assert_int_equal(uv_loop_init(&own->loop), 0);
	assert_int_equal(weir_audit_create(&log, NULL, &own->audit), 0);
	assert_int_equal(weir_captures_create(&own->loop, own->audit, &own->captures), 0);
	*state = own;
	return 0;
}

static int teardown(void **state) {
	struct own *own = *state;

	weir_captures_free(own->captures);
	uv_run(&own->loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&own->loop), 0);
	weir_audit_free(own->audit);
	weir_segment_free(own->control);
	weir_segment_free(own->dataplane);
	free(own);
	return 0;
}

static int start(struct own *own) {
	const struct weir_capture_request request = {
		.terms = {.interval_ns = 1000, .snap_bytes = WEIR_CAPTURE_SNAP_LEAST}};
	uint64_t number;

	return weir_captures_start(own->captures, &request, &number);
}

TEST_EACH(setup, teardown);

TEST(without_a_dataplane_nothing_is_captured) {
	struct own *own = *state;

	assert_int_equal(start(own), -ENOTCONN);
	assert_int_equal(weir_captures_status(own->captures).number, 0);
	weir_captures_stop(own->captures, WEIR_CAPTURE_END_STOPPED);
	assert_int_equal(weir_capture_wanted(own->dataplane), 0);
}

TEST(a_capture_is_withdrawn_with_its_owner) {
	struct own *own = *state;

	weir_captures_bind(own->captures, own->control, NULL);
	assert_int_equal(start(own), 0);
	assert_int_not_equal(weir_capture_wanted(own->dataplane), 0);
	assert_int_equal(start(own), -EBUSY);
	weir_captures_bind(own->captures, NULL, NULL);
	assert_int_equal(weir_capture_wanted(own->dataplane), 0);
	assert_int_equal(weir_captures_status(own->captures).ended, WEIR_CAPTURE_END_NO_DATAPLANE);
}

static uint64_t now_ns(void) {
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

TEST(a_client_that_does_not_read_is_replaced_by_another) {
	const uint64_t unread_ns = WEIR_CAPTURES_UNREAD_MS * UINT64_C(1000000);
	const struct weir_audit_entry *entries[WEIR_AUDIT_ENTRIES];
	struct own *own = *state;
	uint64_t begun_ns, order;
	int r;

	weir_captures_bind(own->captures, own->control, NULL);
	begun_ns = now_ns();
	assert_int_equal(start(own), 0);
	order = weir_capture_wanted(own->dataplane);
	assert_true(weir_capture_is_due(own->dataplane, begun_ns + unread_ns / 2));
	while ((r = start(own)) == -EBUSY) {
		nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
	}
	assert_int_equal(r, 0);
	assert_true(now_ns() - begun_ns >= unread_ns);
	assert_int_not_equal(weir_capture_wanted(own->dataplane), order);
	assert_int_equal(weir_captures_status(own->captures).number, 2);
	assert_int_equal(weir_captures_status(own->captures).ended, WEIR_CAPTURE_END_NONE);
	assert_int_equal(weir_audit_list(own->audit, entries), 1);
	assert_string_equal(entries[0]->why, "the client did not read packets");
}

TEST(workers_end_a_capture_without_a_reader) {
	struct own *own = *state;

	weir_captures_bind(own->captures, own->control, NULL);
	assert_int_equal(start(own), 0);
	assert_true(weir_capture_is_due(own->dataplane, now_ns()));
	assert_false(weir_capture_is_due(
		own->dataplane, now_ns() + (WEIR_CAPTURES_UNREAD_MS + 1) * UINT64_C(1000000)));
}

// --- without memory -------------------------------------------------------------------------

struct read {
	int answers, error;
	uint32_t count, worker;
};

static void on_read(void *context, int error, struct weir_capture_reading *reading) {
	struct read *read = context;

	read->answers++;
	read->error = error;
	read->count = reading != NULL ? reading->count : 0;
	read->worker = read->count > 0 ? reading->packets[0].worker : 0;
}

TEST(a_start_without_memory_leaves_no_order) {
	struct own *own = *state;

	weir_captures_bind(own->captures, own->control, NULL);
	starved_after(0);
	assert_int_equal(start(own), -ENOMEM);
	starved_after(-1);
	assert_int_equal(weir_capture_wanted(own->dataplane), 0);
	assert_int_equal(weir_captures_status(own->captures).number, 0);
	assert_int_equal(start(own), 0);
}

TEST(a_reading_without_memory_loses_no_packet) {
	struct own *own = *state;
	struct weir_capture_record record = {.service = WEIR_SERVICE_NONE,
		.backend = WEIR_BACKEND_NONE,
		.reason = WEIR_CAPTURE_NONE};
	struct weir_tables *tables;
	struct read read = {0};

	assert_int_equal(weir_tables_open(own->control, &tables), 0);
	weir_captures_bind(own->captures, own->control, tables);
	assert_int_equal(start(own), 0);
	record.number = weir_capture_wanted(own->dataplane);
	assert_true(weir_capture_put(&own->dataplane->capture_rings[1],
		&own->dataplane->capture_control->read[1], &record, (const uint8_t *)""));
	starved_after(0);
	weir_captures_read(own->captures, on_read, &read);
	starved_after(-1);
	assert_int_equal(read.answers, 1);
	assert_int_equal(read.error, -ENOMEM);
	assert_int_equal(weir_captures_status(own->captures).packets, 0);
	weir_captures_read(own->captures, on_read, &read);
	assert_int_equal(read.answers, 2);
	assert_int_equal(read.error, 0);
	assert_int_equal(read.count, 1);
	assert_int_equal(read.worker, 1);
	weir_captures_bind(own->captures, NULL, NULL);
	weir_tables_free(tables);
}
