// SPDX-License-Identifier: BSD-3-Clause
#include "reader.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backend_row.h"
#include "blob.h"
#include "probes.h"

static uint32_t words_of(uint32_t backends) {
	return (backends + 63) / 64;
}

int weir_reader_init(struct weir_reader *reader, const struct weir_segment *segment,
	uint32_t worker, weir_reader_adopt_row *adopt_row, void *context) {
	struct weir_selection_view *selection;
	uint64_t *bits;
	weir_ref *refused;

	if (worker >= segment->workers) {
		return -EINVAL;
	}
	selection = calloc(segment->max_services, sizeof(*selection));
	refused = calloc(segment->max_services, sizeof(*refused));
	bits = calloc(2 * words_of(segment->max_backends) + 1, sizeof(*bits));
	if (selection == NULL || refused == NULL || bits == NULL) {
		free(selection);
		free(refused);
		free(bits);
		return -ENOMEM;
	}
	*reader = (struct weir_reader){
		.segment = segment,
		.worker = worker,
		.scan = WEIR_READER_NO_SCAN,
		.selection = selection,
		.refused_selection = refused,
		.open = bits,
		.closing = bits + words_of(segment->max_backends),
		.adopt_row = adopt_row,
		.context = context,
	};
	return 0;
}

void weir_reader_fini(struct weir_reader *reader) {
	free(reader->selection);
	free(reader->refused_selection);
	free(reader->open);
	*reader = (struct weir_reader){0};
}

// --- refusals -----------------------------------------------------------------------------

static void show_refusals(const struct weir_reader *reader) {
	struct weir_refusals *to = &reader->segment->refusals[reader->worker];
	const struct weir_refusals *from = &reader->refusals;

	__atomic_store_n(&to->services, from->services, __ATOMIC_RELAXED);
	__atomic_store_n(&to->selections, from->selections, __ATOMIC_RELAXED);
	__atomic_store_n(&to->rows, from->rows, __ATOMIC_RELAXED);
	__atomic_store_n(&to->change, from->change, __ATOMIC_RELAXED);
	__atomic_store_n(&to->ref, from->ref, __ATOMIC_RELAXED);
	__atomic_store_n(&to->refused, from->refused, __ATOMIC_RELEASE);
}

static void refuse(struct weir_reader *reader, uint64_t *counter, uint32_t change, weir_ref ref) {
	(*counter)++;
	reader->refusals.change = change;
	reader->refusals.ref = ref;
	show_refusals(reader);
}

static void begin_scan(struct weir_reader *reader) {
	reader->scan = 0;
	reader->seen = reader->rows_seen - 1; // causes another weir_reader_catch_up
}

// Records whether the current table of a root is refused, and updates the number of roots with
// refused tables. refused: the refused reference of the root, 0 = none; updated. ref: the current
// reference. sound: the current table was accepted.
static void settle_root(struct weir_reader *reader, weir_ref *refused, weir_ref ref, bool sound) {
	weir_ref now = sound ? 0 : ref;

	if ((*refused != 0) != (now != 0)) {
		reader->refusals.refused += now != 0 ? 1 : (uint64_t)-1;
		show_refusals(reader);
		// If other tables are still refused, start a full scan, which finds and reports one
		// of these tables.
		if (now == 0 && reader->refusals.refused > 0 &&
			reader->scan == WEIR_READER_NO_SCAN) {
			begin_scan(reader);
		}
	}
	*refused = now;
}

// --- adoption -----------------------------------------------------------------------------

// A worker reads a root after the root's log entry. The root can already hold a newer reference
// than this entry announced. The tables on which the newer reference depends were published before
// this reference, but their log entries can come after the processed entry. A worker that has
// loaded the reference can also read these log entries. Therefore a worker adopts a selection only
// when it has adopted the rows of all entries that it can read, and the service table only when it
// has also adopted all selections. Otherwise the worker processes the log first, and then reads the
// reference again.

static bool rows_complete(const struct weir_reader *reader) {
	return __atomic_load_n(&reader->segment->news->updates, __ATOMIC_ACQUIRE) ==
	       reader->rows_seen;
}

// Adopts the current service table, or refuses it if it is invalid. Returns false if the adoption
// must wait for rows.
static bool adopt_services(struct weir_reader *reader) {
	weir_ref ref = __atomic_load_n(&reader->segment->roots->services, __ATOMIC_ACQUIRE);
	struct weir_services_view view = {0};
	struct weir_blob_extent extent;
	bool sound;

	// When this function is called, selections are adopted up to the same position as rows.
	// Therefore this check also covers selections.
	if (!rows_complete(reader)) {
		return false;
	}
	sound = ref == 0 || weir_blob_services(reader->segment, ref, &extent, &view);
	if (sound) {
		reader->services = view;
	} else {
		refuse(reader, &reader->refusals.services, weir_update(WEIR_UPDATE_SERVICES, 0),
			ref);
	}
	settle_root(reader, &reader->refused_services, ref, sound);
	return true;
}

// Adopts the current selection of a service, or refuses it if it is invalid. Returns false if the
// adoption must wait for rows.
static bool adopt_selection(struct weir_reader *reader, uint16_t service) {
	weir_ref ref =
		__atomic_load_n(&reader->segment->roots->selection[service], __ATOMIC_ACQUIRE);
	struct weir_selection_view view = {0};
	struct weir_blob_extent extent;
	bool sound;

	if (!rows_complete(reader)) {
		return false;
	}
	sound = ref == 0 ||
		weir_blob_selection(reader->segment, service, ref, reader->worker, &extent, &view);
	if (sound) {
		reader->udp_ended |=
			weir_policy_by_datagram(&view.table.settings) &&
			!weir_policy_by_datagram(&reader->selection[service].table.settings);
		reader->selection[service] = view;
	} else {
		refuse(reader, &reader->refusals.selections,
			weir_update(WEIR_UPDATE_SELECTION, service), ref);
	}
	settle_root(reader, &reader->refused_selection[service], ref, sound);
	return true;
}

bool weir_reader_row(
	const struct weir_segment *segment, uint16_t backend, struct weir_backend_row *ret) {
	const struct weir_row_pair *pair = &segment->rows[backend];
	uint64_t version = __atomic_load_n(&pair->version, __ATOMIC_ACQUIRE);
	union {
		struct weir_backend_row row;
		uint64_t words[sizeof(struct weir_backend_row) / 8];
	} copy;
	const uint64_t *from = (const uint64_t *)(const void *)&pair->row[version % 2];

	for (unsigned int i = 0; i < sizeof(copy) / 8; i++) {
		copy.words[i] = __atomic_load_n(&from[i], __ATOMIC_RELAXED);
	}
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	if (__atomic_load_n(&pair->version, __ATOMIC_RELAXED) != version) {
		return false;
	}
	*ret = copy.row;
	return true;
}

static bool has_bit(const uint64_t *bits, uint16_t backend) {
	return bits[backend / 64] >> backend % 64 & 1;
}

static void set_bit(uint64_t *bits, uint16_t backend, bool value) {
	bits[backend / 64] &= ~(1ull << backend % 64);
	bits[backend / 64] |= (uint64_t)value << backend % 64;
}

static void set_closing(struct weir_reader *reader, uint16_t backend, bool closing) {
	reader->closings += (uint32_t)closing - has_bit(reader->closing, backend);
	set_bit(reader->closing, backend, closing);
}

// Adopts the current row of a backend, or refuses it if it is invalid. A row that no longer permits
// new flows is only added to `closing`, unless `last` is set and no other row is due. Returns false
// if the adoption must wait, because the row is being changed, or the backend's counters have no
// memory yet. Then later publications must also wait, so that no adopted table refers to the
// backend. With `last`, also returns false if another row is due.
static bool adopt_row(struct weir_reader *reader, uint16_t backend, bool last) {
	struct weir_backend_row row;
	bool open;

	if (backend >= __atomic_load_n(&reader->segment->counted_backends, __ATOMIC_ACQUIRE)) {
		return false;
	}
	if (reader->adopt_row == NULL) {
		return true;
	}
	if (!weir_reader_row(reader->segment, backend, &row)) {
		return false;
	}
	open = weir_backend_row_is_open(&row);
	if (!open && has_bit(reader->open, backend) && !(last && rows_complete(reader))) {
		set_closing(reader, backend, true);
		return !last;
	}
	set_closing(reader, backend, false);
	if (!reader->adopt_row(reader->context, backend, &row)) {
		refuse(reader, &reader->refusals.rows, weir_update(WEIR_UPDATE_ROW, backend), 0);
	} else {
		set_bit(reader->open, backend, open);
	}
	return true;
}

// --- changes ------------------------------------------------------------------------------

static void look_through_everything(struct weir_reader *reader) {
	reader->rows_seen = __atomic_load_n(&reader->segment->news->updates, __ATOMIC_ACQUIRE);
	reader->selections_seen = reader->rows_seen;
	begin_scan(reader);
}

// Reads an entry of the log. Returns false if control has overwritten the entry, or is possibly
// overwriting it.
static bool read_entry(const struct weir_reader *reader, uint64_t n, uint32_t *ret) {
	const struct weir_segment *segment = reader->segment;
	uint32_t change =
		__atomic_load_n(&segment->updates->update[n % WEIR_UPDATES], __ATOMIC_RELAXED);

	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	if (__atomic_load_n(&segment->news->updates, __ATOMIC_RELAXED) - n >= WEIR_UPDATES) {
		return false;
	}
	*ret = change;
	return true;
}

// Processes the log entry at rows_seen: adopts the row that the entry names, or skips an entry
// about another table. If the entry was overwritten, starts a full scan.
static void row_step(struct weir_reader *reader) {
	uint16_t id;
	uint32_t change;

	if (!read_entry(reader, reader->rows_seen, &change)) {
		look_through_everything(reader);
		return;
	}
	id = (uint16_t)change;
	if (change >> 16 == WEIR_UPDATE_ROW) {
		if (id < reader->segment->max_backends && !adopt_row(reader, id, false)) {
			return;
		}
		reader->selections_seen += reader->selections_seen == reader->rows_seen;
	}
	reader->rows_seen++;
}

// Processes the log entry at selections_seen: adopts the selection that the entry names, records
// that the service table is due, or skips an entry about a row. If the entry was overwritten,
// starts a full scan.
static void selection_step(struct weir_reader *reader) {
	uint16_t id;
	uint32_t change;

	if (!read_entry(reader, reader->selections_seen, &change)) {
		look_through_everything(reader);
		return;
	}
	id = (uint16_t)change;
	if (change >> 16 == WEIR_UPDATE_SERVICES) {
		reader->services_due = true;
	} else if (change >> 16 == WEIR_UPDATE_SELECTION && id < reader->segment->max_services &&
		   !adopt_selection(reader, id)) {
		return;
	}
	reader->selections_seen++;
}

// Returns the number of rows to read in a full scan.
static uint32_t scan_rows(const struct weir_reader *reader) {
	uint32_t rows = __atomic_load_n(&reader->segment->notes->backend_ids, __ATOMIC_RELAXED);

	// The number of ids never decreases. A lower number is invalid; its only effect is that
	// the scan ends early.
	return rows < reader->segment->max_backends ? rows : reader->segment->max_backends;
}

static void scan_selection(struct weir_reader *reader, uint32_t service) {
	if (service >= reader->segment->max_services) {
		reader->services_due = true;
		reader->scan = WEIR_READER_NO_SCAN;
	} else if (adopt_selection(reader, (uint16_t)service)) {
		reader->scan++;
	}
}

// Adopts one of the rows in `closing`, or leaves it there if the adoption must wait. `closing` must
// not be empty.
static void closing_step(struct weir_reader *reader) {
	uint32_t words = words_of(reader->segment->max_backends);

	while (reader->closing[reader->closing_at] == 0) {
		reader->closing_at = (reader->closing_at + 1) % words;
	}
	adopt_row(reader,
		(uint16_t)(reader->closing_at * 64 +
			   (uint32_t)__builtin_ctzll(reader->closing[reader->closing_at])),
		true);
}

// Adopts the next change, in the order of publication. updates: number of changes published so far.
// Returns false if nothing is left to adopt.
static bool step(struct weir_reader *reader, uint64_t updates) {
	bool scan = reader->scan != WEIR_READER_NO_SCAN;
	uint32_t rows = scan ? scan_rows(reader) : 0;

	if (scan && reader->scan < rows) {
		reader->scan += adopt_row(reader, (uint16_t)reader->scan, false);
	} else if (updates - reader->selections_seen >= WEIR_UPDATES) {
		look_through_everything(reader);
	} else if (reader->rows_seen != updates) {
		row_step(reader);
	} else if (scan) {
		scan_selection(reader, reader->scan - rows);
	} else if (reader->selections_seen != updates) {
		selection_step(reader);
	} else if (reader->services_due) {
		reader->services_due = !adopt_services(reader);
	} else if (reader->closings > 0) {
		closing_step(reader);
	} else {
		return false;
	}
	return true;
}

void weir_reader_catch_up(struct weir_reader *reader) {
	const struct weir_news *news = reader->segment->news;

	for (unsigned int i = 0; i < WEIR_READER_STEPS; i++) {
		uint64_t updates = __atomic_load_n(&news->updates, __ATOMIC_ACQUIRE);

		if (!step(reader, updates)) {
			reader->seen = updates;
			WEIR_PROBE_ADOPTION(reader->worker, updates);
			return;
		}
	}
}

void weir_reader_settle(struct weir_reader *reader) {
	const struct weir_segment *segment = reader->segment;
	// If control publishes changes faster than this loop adopts them, the poll loop adopts
	// the remaining changes later.
	uint64_t turns =
		4 * (uint64_t)(segment->max_backends + segment->max_services + WEIR_UPDATES) /
			WEIR_READER_STEPS +
		4;

	while (turns-- > 0) {
		uint64_t rows_seen = reader->rows_seen;
		uint64_t selections_seen = reader->selections_seen;
		uint32_t scan = reader->scan, closings = reader->closings;

		weir_reader_catch_up(reader);
		if (scan == reader->scan && rows_seen == reader->rows_seen &&
			selections_seen == reader->selections_seen && !reader->services_due &&
			closings == reader->closings) {
			return; // complete, or the remaining changes wait for memory
		}
	}
}

// --- grace periods ------------------------------------------------------------------------

void weir_reader_report(struct weir_reader *reader, uint64_t token) {
	// Wait for one token at a time. If each newer token replaced the awaited token, the
	// reader might never report any token.
	if (reader->token == reader->reported) {
		reader->token = token;
		reader->awaited =
			__atomic_load_n(&reader->segment->news->updates, __ATOMIC_ACQUIRE);
	}
	weir_reader_catch_up(reader);
	if (reader->refusals.refused > 0 || reader->scan != WEIR_READER_NO_SCAN ||
		reader->services_due || reader->closings > 0 ||
		(int64_t)(reader->selections_seen - reader->awaited) < 0) {
		return;
	}
	weir_grace_report(reader->segment, reader->worker, reader->token);
	reader->reported = reader->token;
}

// Drops all adopted tables of an offline reader, and its marks of refused tables. While a reader is
// offline, control can free the tables.
static void forget(struct weir_reader *reader) {
	uint32_t services = reader->segment->max_services;

	reader->services = (struct weir_services_view){0};
	memset(reader->selection, 0, services * sizeof(reader->selection[0]));
	memset(reader->refused_selection, 0, services * sizeof(reader->refused_selection[0]));
	memset(reader->open, 0, 2 * words_of(reader->segment->max_backends) * sizeof(uint64_t));
	reader->closings = 0;
	reader->refused_services = 0;
	reader->refusals.refused = 0;
	show_refusals(reader);
}

void weir_reader_online(struct weir_reader *reader) {
	forget(reader);
	weir_grace_online(reader->segment, reader->worker);
	reader->reported = reader->token = __atomic_load_n(
		&reader->segment->quiescence[reader->worker].token, __ATOMIC_RELAXED);
	look_through_everything(reader);
	weir_reader_settle(reader);
}

void weir_reader_offline(struct weir_reader *reader) {
	weir_grace_offline(reader->segment, reader->worker);
}
