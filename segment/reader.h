// SPDX-License-Identifier: BSD-3-Clause
//
// Reader: how a worker reads the published tables.
//
// A reader follows the update log: with every burst it takes over a few of the changes that were
// published since, rows first, then selections, then the service table, into private memory. Of a
// blob it keeps a *view*: pointers and counts, copied after their bounds were checked against the
// segment. Of a backend's row it hands a copy to its user. Values inside the arrays of a view
// (service ids, indexes of candidates) are compared with the private counts when they are used, so
// that a broken or malicious control process can misdirect packets but not crash a worker; nor
// stall it, as at most WEIR_READER_STEPS changes are taken over at a time.
//
// A table that fails its check is refused: the one before stays in use, the refusal is counted in
// the segment, and the reader reports no quiescent state until control has replaced the refused
// table; so nothing that is in use is freed. A refused row is counted, and the copy before stays.
//
// With more changes than the log holds, the reader looks through all rows, selections and the
// service table, as many at a time.
//
// Threads: one reader per worker, that worker only. A view is valid until the worker's next
// quiescent report (S5).
#pragma once

#include "grace.h"
#include "segment.h"
#include "view.h"

#define WEIR_READER_STEPS 32u

// Take over the row of a backend (below max_backends). row is a private copy, whole but unchecked.
// Returns false to refuse it.
typedef bool weir_reader_adopt_row(
	void *context, uint16_t backend, const struct weir_backend_row *row);

struct weir_reader {
	struct weir_refusals refusals; // what the segment shows
	const struct weir_segment *segment;
	uint32_t worker;
	uint32_t scan; // next of the look through everything; WEIR_READER_NO_SCAN = none is under
		       // way
	// Entries of the log: all that they are about is taken over; their rows are; their rows and
	// selections are. The second one runs ahead.
	uint64_t seen;
	uint64_t rows_seen;
	uint64_t selections_seen;
	bool services_due; // the service table is to be looked at, after all selections
	uint64_t reported; // grace period token
	uint64_t token; // to be reported when `awaited` changes have been taken over; odd
	uint64_t awaited;
	struct weir_services_view services;
	struct weir_selection_view *selection; // [max_services]
	weir_ref refused_services; // that is refused now; 0 = none
	weir_ref *refused_selection; // [max_services]
	weir_reader_adopt_row *adopt_row; // NULL = the user has no use for rows
	void *context;
};
#define WEIR_READER_NO_SCAN UINT32_MAX

// The reader is offline. adopt_row NULL: the user reads rows itself. Returns 0, -EINVAL, -ENOMEM.
int weir_reader_init(struct weir_reader *reader, const struct weir_segment *segment,
	uint32_t worker, weir_reader_adopt_row *adopt_row, void *context);
void weir_reader_fini(struct weir_reader *reader);

// Take over everything that is published and take part in grace periods from then on. Not bounded:
// before the first packet. [worker]
void weir_reader_online(struct weir_reader *reader);
void weir_reader_offline(struct weir_reader *reader);

// Slow halves of the two below.
void weir_reader_catch_up(struct weir_reader *reader);
void weir_reader_report(struct weir_reader *reader, uint64_t token);

// Take over changes, at most WEIR_READER_STEPS. Once per burst and once per turn. [worker]
static inline void weir_reader_update(struct weir_reader *reader) {
	uint64_t updates = __atomic_load_n(&reader->segment->news->updates, __ATOMIC_ACQUIRE);

	if (__builtin_expect(updates != reader->seen, 0)) {
		weir_reader_catch_up(reader);
	}
}

// No pointer into a table is in use: report it, if control waits for that. Once per turn. [worker]
static inline void weir_reader_quiescent(struct weir_reader *reader) {
	uint64_t token = weir_grace_token(reader->segment);

	if (__builtin_expect(token != reader->reported, 0)) {
		weir_reader_report(reader, token);
	}
}

// Take over all that is published now, however much, up to the first backend whose counters have no
// memory yet (weir_segment_follow). [worker, outside of its turns]
void weir_reader_settle(struct weir_reader *reader);

// How far a reader has taken over rows, and whether one (of another worker) has come so far: then
// it knows all backends that the first one knew. [worker]
static inline uint64_t weir_reader_rows(const struct weir_reader *reader) {
	return reader->rows_seen;
}

static inline bool weir_reader_has_rows(const struct weir_reader *reader, uint64_t rows) {
	return reader->scan == WEIR_READER_NO_SCAN && (int64_t)(reader->rows_seen - rows) >= 0;
}

// The row of a backend (below max_backends) as it is now; all zeroes when none was published.
// Returns false when it is being changed: try again later. Used by adoption, control and tests.
bool weir_reader_row(
	const struct weir_segment *segment, uint16_t backend, struct weir_backend_row *ret);

// The slow start of a backend (below max_backends) as it is now: any values.
static inline struct weir_policy_share weir_reader_share(
	const struct weir_segment *segment, uint16_t backend) {
	struct weir_policy_share share;

	__atomic_load(&segment->rows[backend].share, &share, __ATOMIC_RELAXED);
	return share;
}

// What was taken over. [worker]
static inline const struct weir_services_view *weir_reader_services(
	const struct weir_reader *reader) {
	return &reader->services;
}

// service < max_services.
static inline const struct weir_selection_view *weir_reader_selection(
	const struct weir_reader *reader, uint16_t service) {
	return &reader->selection[service];
}
