// SPDX-License-Identifier: BSD-3-Clause
#include <errno.h>
#include <stdlib.h>

#include "backend_row.h"
#include "state.h"

// A blob and its root. All blobs of a batch are published together.
struct built {
	struct weir_root root;
	struct weir_blob *blob;
};

struct batch {
	struct built *item;
	uint32_t count;
};

static bool has_no_flows(const struct weir_segment *segment, uint16_t id,
	bool (*sum)(const struct weir_segment *segment, uint16_t id, uint64_t *ret)) {
	uint64_t flows;

	return sum(segment, id, &flows) && flows == 0;
}

// Withdraws the selection of a service that workers can no longer look up, and begins to withdraw
// the backends of the service.
static void withdraw_selection(struct weir_tables *tables, struct weir_state *state, uint16_t id) {
	struct weir_service_entry *service = &state->services[id];
	struct weir_root root = {.kind = WEIR_BLOB_SELECTION, .service = id};

	if (weir_writer_current(tables->writer, root) != NULL) {
		weir_writer_publish(tables->writer, root, NULL);
	}
	service->stage = WEIR_ID_CLEARED;
	service->mark = weir_writer_mark(tables->writer);
	service->slots = 0;
	service->table_slots = 0;
	service->parts = 0;
	service->generation = 0;
	service->listed = 0;
	service->listed_chosen = 0;
	for (uint16_t link = service->first; link != 0; link = state->backends[link - 1].next) {
		struct weir_backend_entry *backend = &state->backends[link - 1];

		backend->in_selection = false;
		backend->listed = false;
		backend->parts = 0;
		if (backend->stage == WEIR_ID_LEAVING) {
			backend->stage = WEIR_ID_UNCHOSEN;
			backend->mark = service->mark;
		}
	}
}

static void advance_services(struct weir_tables *tables, struct weir_state *state) {
	for (uint32_t id = 0; id < state->service_ids; id++) {
		const struct weir_service_entry *service = &state->services[id];

		if ((service->stage != WEIR_ID_UNCHOSEN && service->stage != WEIR_ID_CLEARED) ||
			!weir_writer_passed(tables->writer, service->mark)) {
			continue;
		}
		if (service->stage == WEIR_ID_UNCHOSEN) {
			withdraw_selection(tables, state, (uint16_t)id);
		} else if (service->members == 0 &&
			   has_no_flows(tables->segment, (uint16_t)id, weir_flows_service)) {
			weir_service_id_del(state, (uint16_t)id);
		}
	}
}

// Advances a leaving backend. Returns whether its id was removed from the list of leaving backends.
static bool advance_backend(struct weir_tables *tables, struct weir_state *state, uint16_t id) {
	struct weir_backend_entry *backend = &state->backends[id];

	// Keep the row until the last flow has ended, so that no flow moves.
	if (!has_no_flows(tables->segment, id, weir_flows_backend)) {
		return false;
	}
	if (backend->stage == WEIR_ID_UNCHOSEN) {
		backend->stage = WEIR_ID_CLEARING;
		weir_state_mark_backend(state, id);
		return false;
	}
	weir_backend_id_del(state, id);
	return true;
}

// Maximum number of cache lines of counters that one call reads. Reading the counters of all
// leaving backends for all workers would take milliseconds. The next call continues with the next
// backends.
#define LINES_PER_CALL 8192u

static void advance_backends(struct weir_tables *tables, struct weir_state *state) {
	uint32_t lines = LINES_PER_CALL / tables->segment->workers;
	uint64_t passed = 0; // a mark whose grace period has ended
	uint32_t looked = 0;

	while (looked < lines && looked < state->backends_leaving) {
		struct weir_backend_entry *backend;
		uint16_t id;

		if (state->leaving_next >= state->backends_leaving) {
			state->leaving_next = 0;
		}
		id = state->leaving[state->leaving_next];
		backend = &state->backends[id];
		looked++;
		if ((backend->stage == WEIR_ID_UNCHOSEN || backend->stage == WEIR_ID_CLEARED) &&
			(backend->mark == passed ||
				weir_writer_passed(tables->writer, backend->mark))) {
			passed = backend->mark;
			if (advance_backend(tables, state, id)) {
				continue; // this index of the list now contains another id
			}
		}
		state->leaving_next++;
	}
}

// Frees the ids of leaving entries. Call only if no dataplane uses these ids.
static void drop_leaving(struct weir_state *state) {
	for (uint32_t id = 0; id < state->backend_ids; id++) {
		if (state->backends[id].stage > WEIR_ID_LIVE) {
			weir_backend_id_del(state, (uint16_t)id);
		}
	}
	for (uint32_t id = 0; id < state->service_ids; id++) {
		if (state->services[id].stage > WEIR_ID_LIVE) {
			weir_service_id_del(state, (uint16_t)id);
		}
	}
}

void weir_publish_advance(struct weir_tables *tables, struct weir_state *state) {
	if (tables->writer == NULL) {
		// Keep the ids if a dataplane was attached before, because it can reconnect and may
		// still have flows, unless a later dataplane has started.
		if (tables->epoch == 0 || tables->ended) {
			drop_leaving(state);
		}
		return;
	}
	state->updates = __atomic_load_n(&tables->segment->news->updates, __ATOMIC_RELAXED);
	if (state->backends_leaving > 0) {
		advance_backends(tables, state);
	}
	if (state->services_leaving > 0) {
		advance_services(tables, state);
	}
}

static void add(
	struct batch *batch, enum weir_blob_kind kind, uint16_t service, struct weir_blob *blob) {
	if (blob != NULL) {
		batch->item[batch->count].root.kind = kind;
		batch->item[batch->count].root.service = service;
		batch->item[batch->count].blob = blob;
		batch->count++;
	}
}

// Gets the n-th service that may have something to publish. Returns false if there are at most n
// such services.
static bool nth_service(const struct weir_state *state, uint32_t n, uint16_t *ret) {
	uint32_t count = state->all_dirty ? state->service_ids : state->touched_service_count;

	if (n >= count) {
		return false;
	}
	*ret = state->all_dirty ? (uint16_t)n : state->touched_services[n];
	return true;
}

// Builds all marked blobs, in the order in which they are published: first the selections, then the
// service table.
static int build_batch(struct weir_tables *tables, struct weir_state *state, struct batch *batch) {
	struct weir_blob *blob;
	uint16_t id;
	int r;

	for (uint32_t i = 0; nth_service(state, i, &id); i++) {
		if (!state->services[id].dirty) {
			continue;
		}
		r = weir_build_selection(tables, state, id, &blob);
		if (r < 0) {
			return r;
		}
		add(batch, WEIR_BLOB_SELECTION, id, blob);
	}
	if (state->services_dirty) {
		r = weir_build_services(tables, state, &blob);
		if (r < 0) {
			return r;
		}
		add(batch, WEIR_BLOB_SERVICES, 0, blob);
	}
	return 0;
}

// Decides whether and when to rebuild the selection of a service in which backends have moved to
// another group. Returns 1 if this publication must build the selection. Returns 0 if no build is
// needed, or if the selection is marked as stale, to be rebuilt later in steps. Returns -ENOMEM if
// out of memory. at_once: number of selections that this publication already builds.
static int decide_moved(
	const struct weir_tables *tables, struct weir_state *state, uint16_t id, uint32_t at_once) {
	struct weir_service_entry *service = &state->services[id];
	bool slow_start = service->slow_start;

	service->moved = false;
	if (service->undecided) {
		int r = weir_eligible_decide(state, id);

		if (r < 0) {
			return r;
		}
		if (service->divided || slow_start || service->slow_start) {
			return 1; // weights or subsets may have changed
		}
	}
	if (!weir_eligible_differ(service)) {
		service->stale = false;
		return 0;
	}
	service->stale = weir_build_may_wait(tables, state, id, at_once);
	state->stale |= service->stale;
	return service->stale ? 0 : 1;
}

// Decides which backends must be in the selections of marked services. Returns the maximum number
// of blobs to build, or -ENOMEM.
static int decide(const struct weir_tables *tables, struct weir_state *state) {
	uint16_t id;
	int n = 1;

	weir_eligible_move(state);
	for (uint32_t i = 0; nth_service(state, i, &id); i++) {
		struct weir_service_entry *service = &state->services[id];
		int r = 0;

		if (service->dirty) {
			r = weir_eligible_decide(state, id);
		} else if (service->stage == WEIR_ID_LIVE &&
			   (service->moved || service->undecided)) {
			r = decide_moved(tables, state, id, (uint32_t)n - 1);
			service->dirty = r > 0;
		}
		if (r < 0) {
			return r;
		}
		n += service->dirty;
	}
	return n;
}

// --- publication by stores ---

// Publishes the row of a backend, in one of two passes. Rows that close an open backend are
// published after the selections (closing = true). All other rows are published before the
// selections, because the selections refer to them.
//
// Closing rows are published last, because all backends of a service may have been replaced. If
// closing rows were published first, workers would find no open backend until the new selection is
// published, or for longer if control exits before that.
static void publish_backend(
	struct weir_tables *tables, struct weir_state *state, uint16_t id, bool closing) {
	const struct weir_backend_entry *backend = &state->backends[id];
	struct weir_backend_row row;
	bool was_open, is_open;

	if (!closing) {
		weir_identity_store_backend(tables->segment, state, id);
	}
	if (!state->all_dirty && !backend->dirty) {
		return;
	}
	weir_build_row(tables, state, id, &row);
	was_open = weir_backend_row_is_open(weir_writer_row(tables->writer, id));
	is_open = weir_backend_row_is_open(&row);
	if (closing == (was_open && !is_open)) {
		if (was_open != is_open && backend->stage != WEIR_ID_FREE) {
			weir_former_changed(state, backend->service);
		}
		// A reused id must not inherit the share of the id's previous backend.
		weir_writer_publish_share(tables->writer, id, backend->share);
		weir_writer_publish_row(tables->writer, id, &row);
	}
}

static void publish_backends(
	struct weir_tables *tables, struct weir_state *state, uint32_t backends, bool closing) {
	for (uint32_t i = 0; i < backends; i++) {
		publish_backend(tables, state,
			state->all_dirty ? (uint16_t)i : state->touched_backends[i], closing);
	}
}

static void publish_services(
	struct weir_tables *tables, const struct weir_state *state, uint32_t services) {
	for (uint32_t i = 0; i < services; i++) {
		weir_identity_store_service(tables->segment, state,
			state->all_dirty ? (uint16_t)i : state->touched_services[i]);
	}
}

void weir_publish_selection(struct weir_tables *tables, uint16_t id, struct weir_blob *blob) {
	weir_former_published(tables->segment, tables->state, id);
	weir_writer_publish(tables->writer,
		(struct weir_root){.kind = WEIR_BLOB_SELECTION, .service = id}, blob);
	weir_parts_count(tables, tables->state, id);
}

static void finish_service(struct weir_tables *tables, struct weir_state *state, uint16_t id) {
	struct weir_service_entry *service = &state->services[id];

	service->touched = false;
	if (service->dirty) {
		weir_parts_count(tables, state, id);
		service->dirty = false;
		service->stale = false;
	}
	if (service->stage == WEIR_ID_LEAVING && !weir_removal_holds(service)) {
		service->stage = WEIR_ID_UNCHOSEN;
		service->mark = weir_writer_mark(tables->writer);
	}
}

static void finish_backend(struct weir_state *state, uint16_t id, uint64_t mark) {
	struct weir_backend_entry *backend = &state->backends[id];

	backend->dirty = false;
	backend->touched = false;
	if (backend->stage == WEIR_ID_LEAVING &&
		state->services[backend->service].stage == WEIR_ID_LIVE) {
		backend->stage = WEIR_ID_UNCHOSEN;
		backend->mark = mark;
	} else if (backend->stage == WEIR_ID_CLEARING) {
		backend->stage = WEIR_ID_CLEARED;
		backend->mark = mark;
	}
}

// Call when everything is published. Clears the marks, and starts the grace periods of leaving
// entries.
static void finish(struct weir_tables *tables, struct weir_state *state, uint32_t backends) {
	uint64_t mark = state->backends_leaving > 0 ? weir_writer_mark(tables->writer) : 0;
	uint16_t id;

	for (uint32_t i = 0; nth_service(state, i, &id); i++) {
		finish_service(tables, state, id);
	}
	for (uint32_t i = 0; i < backends; i++) {
		finish_backend(
			state, state->all_dirty ? (uint16_t)i : state->touched_backends[i], mark);
	}
	for (uint32_t i = 0; i < state->touched_service_count; i++) {
		state->services[state->touched_services[i]].touched = false;
	}
	for (uint32_t i = 0; i < state->touched_backend_count; i++) {
		state->backends[state->touched_backends[i]].touched = false;
	}
	state->touched_service_count = 0;
	state->touched_backend_count = 0;
	state->all_dirty = false;
	state->services_dirty = false;
}

static uint32_t at_most(uint32_t value, uint32_t most) {
	return value < most ? value : most;
}

int weir_publish_state(struct weir_tables *tables, struct weir_state *state) {
	const struct weir_segment *segment = tables->segment;
	uint32_t services, backends, published;
	struct batch batch = {0};
	int r, most;

	if (!state->all_dirty && !state->services_dirty && state->touched_service_count == 0 &&
		state->touched_backend_count == 0) {
		return 0;
	}
	most = decide(tables, state);
	if (most < 0) {
		return most;
	}
	r = weir_writer_reserve(tables->writer, state->service_ids, state->backend_ids);
	if (r < 0) {
		return r;
	}
	batch.item = calloc((size_t)most, sizeof(*batch.item));
	if (batch.item == NULL) {
		return -ENOMEM;
	}
	r = build_batch(tables, state, &batch);
	if (r < 0) {
		for (uint32_t i = 0; i < batch.count; i++) {
			weir_writer_discard(tables->writer, batch.item[i].blob);
		}
		free(batch.item);
		return r;
	}
	services = state->touched_service_count;
	backends = state->touched_backend_count;
	// Store the identities of all ids that were ever used, because the stored identities may be
	// invalid.
	if (state->all_dirty) {
		services = at_most(segment->notes->service_ids, segment->max_services);
		backends = at_most(segment->notes->backend_ids, segment->max_backends);
	}
	publish_services(tables, state, services);
	publish_backends(tables, state, backends, false);
	for (uint32_t i = 0; i < batch.count; i++) {
		if (batch.item[i].root.kind == WEIR_BLOB_SELECTION) {
			weir_former_published(segment, state, batch.item[i].root.service);
		}
		weir_writer_publish(tables->writer, batch.item[i].root, batch.item[i].blob);
	}
	publish_backends(tables, state, backends, true);
	published = services + backends + batch.count;
	free(batch.item);
	finish(tables, state, backends);
	return (int)published;
}

// Returns whether the row of a backend can be published before the selection. This is always
// possible if the row opens the backend. If the row closes the backend, the published selection
// must still have enough open backends (weir_build_serves), and the service must not have several
// subsets, because all backends of one subset could close.
static bool row_may_precede(const struct weir_state *state, uint16_t id) {
	const struct weir_backend_entry *backend = &state->backends[id];
	const struct weir_service_entry *service = &state->services[backend->service];

	return backend->dirty && backend->stage == WEIR_ID_LIVE &&
	       ((backend->flags & WEIR_BACKEND_CLOSED) == 0 ||
		       (service->subsets <= 1 && weir_build_serves(service->listed,
							 service->listed_chosen, service->chosen)));
}

void weir_publish_rows(struct weir_tables *tables) {
	struct weir_state *state = tables->state;

	// Publish nothing if the published rows may belong to another process or segment.
	if (state->all_dirty) {
		return;
	}
	for (uint32_t i = 0; i < state->touched_backend_count; i++) {
		uint16_t id = state->touched_backends[i];

		if (row_may_precede(state, id)) {
			publish_backend(tables, state, id, false);
			publish_backend(tables, state, id, true);
		}
	}
}
