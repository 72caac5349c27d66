// SPDX-License-Identifier: BSD-3-Clause
//
// Reader: reads the published tables in a worker.
//
// A reader follows the update log. With every burst, the reader adopts a few of the published
// changes, i.e. loads them into private memory: rows first, then selections, then the service
// table, and last the rows of backends that no longer permit new flows.
//
// For a blob the reader keeps a *view*: pointers and counts, copied after their bounds were checked
// against the segment. A backend's row is passed to adopt_row as a copy. Values inside the arrays
// of a view (service ids, indexes of candidates) are compared with the private counts when they are
// used, so that a broken or malicious control process can misdirect packets but not crash a worker.
// Control cannot stall a worker either, because at most WEIR_READER_STEPS changes are adopted at a
// time.
//
// A table that fails its check is refused: the previous table stays in use, and the refusal is
// counted in the segment. The reader reports no quiescent state until control has replaced the
// refused table, so that no table in use is freed. A refused row is counted, and the previous copy
// stays in use.
//
// If there are more changes than the log holds, the reader scans all rows, selections and the
// service table, WEIR_READER_STEPS at a time.
//
// Threads: one reader per worker, used only by that worker. A view is valid until the worker's next
// quiescent report (S5 of layout.h).
#pragma once

#include "grace.h"
#include "segment.h"
#include "view.h"

#define WEIR_READER_STEPS 32u

// Adopt the row of a backend (below max_backends). row is a private copy: consistent, but its
// values are not checked. Returns false to refuse the row.
typedef bool weir_reader_adopt_row(
	void *context, uint16_t backend, const struct weir_backend_row *row);

struct weir_reader {
	struct weir_refusals refusals; // copy of the refusals in the segment
	const struct weir_segment *segment;
	uint32_t worker;
	uint32_t scan; // next position of the full scan; WEIR_READER_NO_SCAN = none in progress
	// Positions in the log. All entries before `seen` are adopted. All rows before
	// `rows_seen` are adopted, except the rows in `closing`. All selections before
	// `selections_seen` are adopted. rows_seen is never behind the other positions.
	uint64_t seen;
	uint64_t rows_seen;
	uint64_t selections_seen;
	bool services_due; // the service table must be read after all selections
	// An adopted selection has ended the UDP flows of its service (WEIR_UDP_DATAGRAM). The
	// owner of the reader clears the flag.
	bool udp_ended;
	// One bit per backend. open: the adopted row permits new flows. closing: the published
	// row no longer permits new flows, but is not adopted yet. Such rows are adopted last,
	// after the selections that no longer contain their backends.
	uint64_t *open, *closing;
	uint32_t closings; // number of bits in closing
	// index of the word in closing where the search for the next bit starts
	uint32_t closing_at;
	uint64_t reported; // last reported token of a grace period
	uint64_t token; // token to report when all changes before `awaited` are adopted; odd
	uint64_t awaited;
	struct weir_services_view services;
	struct weir_selection_view *selection; // [max_services]
	weir_ref refused_services; // reference of the refused table; 0 = none
	weir_ref *refused_selection; // [max_services]
	weir_reader_adopt_row *adopt_row; // NULL = the reader adopts no rows
	void *context;
};
#define WEIR_READER_NO_SCAN UINT32_MAX

// Initialize an offline reader. If adopt_row is NULL, the caller reads rows itself. Returns 0,
// -EINVAL, -ENOMEM.
int weir_reader_init(struct weir_reader *reader, const struct weir_segment *segment,
	uint32_t worker, weir_reader_adopt_row *adopt_row, void *context);
void weir_reader_fini(struct weir_reader *reader);

// Take part in grace periods from now on, and adopt the published changes as weir_reader_settle
// does. The number of changes is not bounded: call before the first packet. [worker]
void weir_reader_online(struct weir_reader *reader);
void weir_reader_offline(struct weir_reader *reader);

// Slow paths: weir_reader_update calls weir_reader_catch_up if there are changes to adopt, and
// weir_reader_quiescent calls weir_reader_report if control waits for a report.
void weir_reader_catch_up(struct weir_reader *reader);
void weir_reader_report(struct weir_reader *reader, uint64_t token);

// Adopt at most WEIR_READER_STEPS changes. Call once per burst and once per iteration. [worker]
static inline void weir_reader_update(struct weir_reader *reader) {
	uint64_t updates = __atomic_load_n(&reader->segment->news->updates, __ATOMIC_ACQUIRE);

	if (__builtin_expect(updates != reader->seen, 0)) {
		weir_reader_catch_up(reader);
	}
}

// Report a quiescent state if control waits for it. Call once per iteration, when no pointer into a
// table is in use. [worker]
static inline void weir_reader_quiescent(struct weir_reader *reader) {
	uint64_t token = weir_grace_token(reader->segment);

	if (__builtin_expect(token != reader->reported, 0)) {
		weir_reader_report(reader, token);
	}
}

// Adopt all published changes up to the first backend whose counters have no memory yet
// (weir_segment_follow). The number of changes is not bounded. [worker, outside of the poll loop]
void weir_reader_settle(struct weir_reader *reader);

// weir_reader_rows returns the position in the update log up to which a reader has adopted rows.
// weir_reader_has_rows returns whether another reader has reached this position. In this case, the
// other reader has read the rows of all backends that the first reader has adopted. [worker]
static inline uint64_t weir_reader_rows(const struct weir_reader *reader) {
	return reader->rows_seen;
}

static inline bool weir_reader_has_rows(const struct weir_reader *reader, uint64_t rows) {
	return reader->scan == WEIR_READER_NO_SCAN && (int64_t)(reader->rows_seen - rows) >= 0;
}

// Reads the current row of a backend (below max_backends); all zeroes if no row was published.
// Returns false if the row is being changed: try again later. The reader itself, weir-control and
// tests use this function.
bool weir_reader_row(
	const struct weir_segment *segment, uint16_t backend, struct weir_backend_row *ret);

// Returns the current slow start of a backend (below max_backends). The values are not checked.
static inline struct weir_policy_share weir_reader_share(
	const struct weir_segment *segment, uint16_t backend) {
	struct weir_policy_share share;

	__atomic_load(&segment->rows[backend].share, &share, __ATOMIC_RELAXED);
	return share;
}

// Returns the adopted service table. [worker]
static inline const struct weir_services_view *weir_reader_services(
	const struct weir_reader *reader) {
	return &reader->services;
}

// Returns the adopted selection of a service (below max_services). [worker]
static inline const struct weir_selection_view *weir_reader_selection(
	const struct weir_reader *reader, uint16_t service) {
	return &reader->selection[service];
}
