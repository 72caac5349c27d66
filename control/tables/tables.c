// SPDX-License-Identifier: BSD-3-Clause
#include "tables.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "service_table.h"
#include "state.h"

#define SERVICE_BUCKETS_MOST 24u // buckets of a service table, per bind; a table rarely has more

static void set_limits(struct weir_state *state, const struct weir_segment *segment) {
	state->service_limit = segment->max_services;
	state->backend_limit = segment->max_backends;
	state->place.workers = segment->workers;
}

// Withdraws the selections of unknown services, because they occupy memory. In addition, a worker
// that refuses an invalid selection never completes a grace period.
static void withdraw_unknown(struct weir_writer *writer, const struct weir_segment *segment,
	const struct weir_state *state) {
	for (uint32_t id = 0; id < segment->max_services; id++) {
		if (state->services[id].stage == WEIR_ID_FREE &&
			segment->roots->selection[id] != 0) {
			weir_writer_publish(writer,
				(struct weir_root){
					.kind = WEIR_BLOB_SELECTION, .service = (uint16_t)id},
				NULL);
		}
	}
}

int weir_tables_open(struct weir_segment *segment, struct weir_tables **ret) {
	struct weir_tables *tables = calloc(1, sizeof(*tables));
	int r;

	if (tables == NULL) {
		return -ENOMEM;
	}
	tables->drain_begun = true; // an earlier process may have begun drains
	r = weir_state_create(&tables->state);
	if (r < 0) {
		goto free_tables;
	}
	if (segment != NULL) {
		r = weir_writer_open(segment, &tables->writer);
		if (r < 0) {
			goto free_state;
		}
		tables->segment = segment;
		tables->epoch = segment->epoch;
		set_limits(tables->state, segment);
		weir_state_adopt(tables->state, segment);
		weir_refusals_begin(tables, segment);
		withdraw_unknown(tables->writer, segment, tables->state);
	}
	*ret = tables;
	return 0;

free_state:
	weir_state_free(tables->state);
free_tables:
	free(tables);
	return r;
}

void weir_tables_free(struct weir_tables *tables) {
	if (tables == NULL) {
		return;
	}
	weir_rebuild_cancel(tables);
	weir_writer_free(tables->writer);
	weir_state_free(tables->state);
	free(tables->kept);
	free(tables);
}

static void describe_busy(const struct weir_tables *tables, char *why, size_t why_bytes) {
	struct weir_writer_usage usage = {.waiting_for = WEIR_WORKERS_MAX};
	char worker[32] = "a worker";

	weir_writer_usage(tables->writer, &usage);
	if (usage.waiting_for < WEIR_WORKERS_MAX) {
		snprintf(worker, sizeof(worker), "worker %u", usage.waiting_for);
	}
	snprintf(why, why_bytes,
		"no memory for new tables: %s still uses replaced tables after %u ms; retry, or "
		"raise segment.heap_bytes",
		worker, WEIR_TABLES_WAIT_MS);
}

static void describe(const struct weir_tables *tables, char *why, size_t why_bytes, int error) {
	switch (error) {
	case -ENOSPC:
		snprintf(why, why_bytes,
			"the tables are larger than segment.heap_bytes: raise segment.heap_bytes, "
			"or lower table_size");
		break;
	case -ENOMEM:
		snprintf(why, why_bytes, "out of memory for the tables");
		break;
	case -EBUSY:
		describe_busy(tables, why, why_bytes);
		break;
	case -EINVAL:
		snprintf(why, why_bytes,
			"a service has more backends than table_size, or table_size is not prime");
		break;
	case -EEXIST:
		snprintf(why, why_bytes, "two services are bound to the same address and port");
		break;
	default:
		snprintf(why, why_bytes, "cannot build the tables: %s", strerror(-error));
	}
}

// --- room ---------------------------------------------------------------------------------

static uint64_t selection_bytes_most(const struct weir_state *state, uint32_t id) {
	const struct weir_config_service *config = state->services[id].config;
	const struct weir_policy_settings few = {0}; // settings of a policy without slots
	uint64_t subset;

	if (state->services[id].stage != WEIR_ID_LIVE || config == NULL) {
		return 0;
	}
	subset = sizeof(struct weir_selection_subset) + 4 * 64 +
		 config->backend_count *
			 (sizeof(struct weir_candidate) + sizeof(struct weir_round)) +
		 ((uint64_t)weir_selection_slots(&few, 0, config->backend_count) +
			 config->table_size) *
			 sizeof(uint16_t);
	return sizeof(struct weir_selection) + subset * state->place.workers;
}

static uint64_t services_bytes_most(const struct weir_config *config) {
	uint64_t binds = 1;

	for (uint32_t i = 0; i < config->service_count; i++) {
		binds += config->services[i].bind_count;
	}
	return sizeof(struct weir_service_table) +
	       binds * (SERVICE_BUCKETS_MOST * sizeof(struct weir_bind) +
			       2 * sizeof(struct weir_bind_range));
}

// Withdraws a table that is invalid or larger than bytes_most. If an invalid table stayed
// published, workers would refuse the table and never complete a grace period. Returns whether the
// table was withdrawn.
static bool withdraw_invalid(
	struct weir_tables *tables, struct weir_root root, weir_ref ref, uint64_t bytes_most) {
	const struct weir_blob *blob = weir_writer_current(tables->writer, root);

	if (ref == 0 || (blob != NULL && blob->lines * 64ull <= bytes_most)) {
		return false;
	}
	weir_writer_publish(tables->writer, root, NULL);
	return true;
}

// Withdraws all invalid tables. larger: true also withdraws tables that are larger than this
// configuration requires.
static bool withdraw_all_invalid(
	struct weir_tables *tables, const struct weir_state *state, bool larger) {
	const struct weir_roots *roots = tables->segment->roots;
	struct weir_root root = {.kind = WEIR_BLOB_SERVICES};
	bool any = withdraw_invalid(tables, root, roots->services,
		larger ? services_bytes_most(tables->config) : UINT64_MAX);

	root.kind = WEIR_BLOB_SELECTION;
	for (uint32_t id = 0; id < tables->segment->max_services; id++) {
		root.service = (uint16_t)id;
		any |= withdraw_invalid(tables, root, roots->selection[id],
			larger ? selection_bytes_most(state, id) : UINT64_MAX);
	}
	return any;
}

// Publishes a configuration. first: true if this is the first configuration of this process, or
// if the current configuration is applied again. In this case, tables of an earlier process may
// fill the heap, and the configuration could never be published. Therefore, if the heap is full
// and `first` is true, invalid and oversized tables are withdrawn, which interrupts their
// services for a grace period.
static int publish_config(struct weir_tables *tables, struct weir_state *state, bool first) {
	int r = weir_publish_state(tables, state);

	if ((r == -ENOSPC || r == -EBUSY) && first &&
		withdraw_all_invalid(tables, state, r == -ENOSPC)) {
		r = -EBUSY;
	}
	if (r == -EBUSY) {
		// After a restart, unpublished memory can be reused only after a grace period.
		weir_writer_synchronize(tables->writer, WEIR_TABLES_WAIT_MS);
		r = weir_publish_state(tables, state);
	}
	return r;
}

// --- configuration ------------------------------------------------------------------------

static uint32_t leaving(const struct weir_state *state) {
	return state->services_leaving + state->backends_leaving;
}

uint32_t weir_tables_waiting(const struct weir_tables *tables, bool *ret_retry) {
	*ret_retry = tables->state->waiting > 0 && leaving(tables->state) != tables->leaving;
	return tables->state->waiting;
}

static void adopt_bind_drains(struct weir_state *state, const struct weir_segment *segment,
	const struct weir_writer *writer) {
	struct weir_services_view view;
	bool any = weir_build_published_services(segment, writer, &view);

	weir_bind_drains_adopt(state, any ? &view : NULL);
}

uint16_t weir_tables_bind_at(const struct weir_tables *tables, const uint8_t address[16],
	uint8_t family, uint8_t protocol, uint16_t port) {
	struct weir_services_view view;

	return tables->segment != NULL &&
			       weir_build_published_services(tables->segment, tables->writer, &view)
		       ? weir_service_lookup(&view, address, family, protocol, port)
		       : WEIR_SERVICE_NONE;
}

void weir_tables_find_hops(
	struct weir_tables *tables, weir_tables_find_hop_fn find, void *context) {
	tables->find_hop = find;
	tables->find_context = context;
}

static bool same_hop(const struct weir_next_hop *a, const struct weir_next_hop *b) {
	return a->resolved == b->resolved && a->on_link == b->on_link && a->port == b->port &&
	       a->mtu == b->mtu && a->route_mtu == b->route_mtu &&
	       a->source_bits == b->source_bits && memcmp(a->mac, b->mac, sizeof(a->mac)) == 0 &&
	       weir_address_equal(&a->source, &b->source);
}

static void set_hop(struct weir_state *state, uint16_t id, const struct weir_next_hop *found) {
	struct weir_backend_entry *backend = &state->backends[id];
	struct weir_next_hop hop = *found;

	hop.resolved = weir_next_hop_serves(found, &backend->forwarding);
	backend->set |= WEIR_SET_NEXT_HOP;
	if (same_hop(&backend->hop, &hop)) {
		return;
	}
	if (backend->hop.resolved != hop.resolved && backend->stage == WEIR_ID_LIVE) {
		weir_state_move_backend(state, id);
	}
	backend->hop = hop;
	weir_state_mark_backend(state, id);
}

static void find_hops(const struct weir_tables *tables, struct weir_state *state) {
	struct weir_next_hop hop;

	for (uint32_t id = 0; tables->find_hop != NULL && id < state->backend_ids; id++) {
		const struct weir_backend_entry *backend = &state->backends[id];

		if (backend->stage == WEIR_ID_LIVE && !backend->hop.resolved &&
			tables->find_hop(tables->find_context, &backend->address, &hop) &&
			weir_next_hop_serves(&hop, &backend->forwarding)) {
			set_hop(state, (uint16_t)id, &hop);
		}
	}
}

// Sets the limits of the next dataplane, which reads them from this configuration.
static void expect_limits(const struct weir_tables *tables, struct weir_state *state,
	const struct weir_config *config) {
	state->service_limit = config->segment.max_services;
	state->backend_limit = config->segment.max_backends;
	state->place.workers = config->workers.count > 0 ? config->workers.count : 1;
	if (tables->ended && weir_state_has_room(state, config)) {
		// Entries that this configuration removes still have ids until it is applied. The
		// next segment gets new ids.
		state->service_limit = WEIR_SERVICES_MAX;
		state->backend_limit = WEIR_BACKENDS_MAX;
	}
}

// Returns whether entries can wait for ids, because ids of an earlier process may still be in use.
static bool may_wait(const struct weir_tables *tables, const struct weir_config *config) {
	return tables->config == NULL || tables->config == config;
}

int weir_tables_check_ids(const struct weir_tables *tables, const struct weir_config *config,
	char *why, size_t why_bytes) {
	struct weir_state *state;
	int r = weir_state_clone(tables->state, &state);

	if (r < 0) {
		return r;
	}
	if (tables->segment == NULL) {
		expect_limits(tables, state, config);
	}
	r = weir_state_apply(state, config, may_wait(tables, config), why, why_bytes);
	weir_state_free(state);
	return r;
}

int weir_tables_apply(
	struct weir_tables *tables, const struct weir_config *config, char *why, size_t why_bytes) {
	const struct weir_config *previous = tables->config;
	const bool wait = may_wait(tables, config);
	struct weir_state *state;
	int r = weir_state_clone(tables->state, &state);

	if (r < 0) {
		describe(tables, why, why_bytes, r);
		return r;
	}
	if (tables->segment == NULL) {
		expect_limits(tables, state, config);
	}
	weir_rebuild_cancel(tables);
	weir_publish_advance(tables, state);
	r = weir_state_apply(state, config, wait, why, why_bytes);
	if (r < 0) {
		goto keep_former;
	}
	if (previous == NULL && tables->segment != NULL) {
		adopt_bind_drains(state, tables->segment, tables->writer);
	}
	tables->config = config;
	if (tables->writer != NULL) {
		find_hops(tables, state);
		weir_writer_reclaim(tables->writer);
		r = publish_config(tables, state, wait);
		if (r < 0) {
			tables->config = previous;
			describe(tables, why, why_bytes, r);
			goto keep_former;
		}
		weir_writer_reclaim(tables->writer);
	} else {
		weir_publish_advance(tables, state);
		r = weir_eligible_decide_all(state);
		if (r < 0) {
			tables->config = previous;
			describe(tables, why, why_bytes, r);
			goto keep_former;
		}
	}
	weir_state_free(tables->state);
	tables->state = state;
	tables->drain_begun |= state->removing;
	tables->leaving = leaving(state);
	weir_kept_vips_follow(tables, previous);
	return 0;

keep_former:
	weir_state_free(state);
	return r;
}

// Adopts the ids of a segment that another process has written, then applies the configuration.
static int adopt_segment(struct weir_tables *tables, const struct weir_segment *segment,
	struct weir_writer *writer, struct weir_state **ret) {
	struct weir_state *state;
	char why[256];
	int r = weir_state_create(&state);

	if (r < 0) {
		return r;
	}
	set_limits(state, segment);
	state->now_ms = tables->state->now_ms;
	weir_state_adopt(state, segment);
	withdraw_unknown(writer, segment, state);
	weir_state_retain(state, tables->state);
	if (tables->config != NULL) {
		r = weir_state_apply(state, tables->config, true, why, sizeof(why));
		if (r < 0) {
			weir_state_free(state);
			return r;
		}
		adopt_bind_drains(state, segment, writer);
	}
	weir_state_inherit(state, tables->state);
	*ret = state;
	return 0;
}

// Continues with the previous dataplane, which may still have flows of removed backends.
static int resume(struct weir_state *state, const struct weir_segment *segment) {
	if (state->service_ids > segment->max_services ||
		state->backend_ids > segment->max_backends) {
		return -ENOSPC;
	}
	set_limits(state, segment);
	for (uint32_t id = 0; id < state->service_ids; id++) {
		state->services[id].generation = 0;
		weir_former_changed(state, (uint16_t)id);
		if (state->services[id].stage > WEIR_ID_LEAVING) {
			state->services[id].stage = WEIR_ID_LEAVING;
		}
	}
	for (uint32_t id = 0; id < state->backend_ids; id++) {
		if (state->backends[id].stage > WEIR_ID_LEAVING) {
			state->backends[id].stage = WEIR_ID_LEAVING;
		}
	}
	weir_state_mark_all(state);
	return 0;
}

static void unbind(struct weir_tables *tables) {
	weir_rebuild_cancel(tables);
	weir_writer_free(tables->writer);
	tables->drain_begun = true; // the next segment may contain drains
	tables->writer = NULL;
	tables->segment = NULL;
}

int weir_tables_rebind(struct weir_tables *tables, struct weir_segment *segment) {
	struct weir_state *state = NULL;
	struct weir_writer *writer;
	int r;

	unbind(tables);
	if (segment == NULL) {
		return 0;
	}
	r = weir_writer_open(segment, &writer);
	if (r < 0) {
		return r;
	}
	if (segment->epoch == tables->epoch) {
		r = resume(tables->state, segment);
		if (r < 0) {
			weir_writer_free(writer);
			return r;
		}
		withdraw_unknown(writer, segment, tables->state);
	} else {
		tables->ended = true;
		r = adopt_segment(tables, segment, writer, &state);
		if (r < 0) {
			weir_writer_free(writer);
			return r;
		}
		weir_state_free(tables->state);
		tables->state = state;
		if (tables->epoch != 0) {
			tables->recount_ms = state->now_ms + WEIR_TABLES_RECOUNT_MS;
		}
	}
	tables->segment = segment;
	tables->writer = writer;
	tables->epoch = segment->epoch;
	tables->ended = false;
	weir_refusals_begin(tables, segment);
	r = weir_tables_publish(tables);
	return r < 0 ? r : 0;
}

static struct weir_backend_entry *live_backend(struct weir_tables *tables, uint16_t id) {
	struct weir_state *state = tables->state;

	if (id >= state->backend_ids || state->backends[id].stage != WEIR_ID_LIVE) {
		return NULL;
	}
	return &state->backends[id];
}

int weir_tables_set_health(struct weir_tables *tables, uint16_t id, enum weir_health_state health) {
	struct weir_backend_entry *backend = live_backend(tables, id);

	if (backend == NULL) {
		return -ENOENT;
	}
	backend->set |= WEIR_SET_HEALTH;
	if (backend->health != health) {
		weir_backend_set_health(backend, health);
		weir_state_move_backend(tables->state, id);
	}
	return 0;
}

int weir_tables_set_weight(struct weir_tables *tables, uint16_t id, uint32_t weight) {
	struct weir_backend_entry *backend = live_backend(tables, id);

	if (backend == NULL) {
		return -ENOENT;
	}
	backend->set |= WEIR_SET_WEIGHT;
	if (backend->runtime_weight != weight) {
		backend->runtime_weight = weight;
		weir_state_touch_backend(tables->state, id);
		weir_state_mark_service(tables->state, backend->service);
	}
	return 0;
}

int weir_tables_set_next_hop(
	struct weir_tables *tables, uint16_t id, const struct weir_next_hop *hop) {
	// Flows of a leaving backend continue while its row exists.
	if (id >= tables->state->backend_ids || tables->state->backends[id].stage == WEIR_ID_FREE) {
		return -ENOENT;
	}
	set_hop(tables->state, id, hop);
	return 0;
}

int weir_tables_set_ejected(struct weir_tables *tables, uint16_t id, bool ejected) {
	struct weir_backend_entry *backend = live_backend(tables, id);

	if (backend == NULL) {
		return -ENOENT;
	}
	if (backend->ejected != ejected) {
		backend->ejected = ejected;
		weir_state_move_backend(tables->state, id);
	}
	return 0;
}

bool weir_tables_may_eject(const struct weir_tables *tables, uint16_t id) {
	const struct weir_state *state = tables->state;

	return id < state->backend_ids && state->backends[id].stage == WEIR_ID_LIVE &&
	       weir_eligible_may_eject(state, id);
}

bool weir_tables_wait(struct weir_tables *tables) {
	return tables->writer != NULL && weir_writer_reclaim(tables->writer) > 0;
}

int weir_tables_publish(struct weir_tables *tables) {
	int published;

	weir_publish_advance(tables, tables->state);
	if (tables->writer == NULL) {
		return tables->config != NULL ? weir_eligible_decide_all(tables->state) : 0;
	}
	weir_writer_reclaim(tables->writer);
	if (tables->config == NULL) {
		return 0;
	}
	published = weir_publish_state(tables, tables->state);
	if (published < 0) {
		weir_publish_rows(tables);
	} else if (tables->drain_begun) {
		tables->drain_begun = false;
		tables->drain_mark = weir_writer_mark(tables->writer);
	}
	weir_writer_reclaim(tables->writer);
	return published;
}

uint64_t weir_tables_moves(const struct weir_tables *tables) {
	return tables->segment != NULL ? weir_flows_moves(tables->segment) : 0;
}

bool weir_tables_counts_drains(const struct weir_tables *tables, uint64_t moves) {
	return tables->writer != NULL && !tables->drain_begun &&
	       weir_tables_recount_left_ms(tables) == 0 &&
	       weir_flows_are_whole(tables->segment, moves) &&
	       weir_writer_passed(tables->writer, tables->drain_mark);
}

uint64_t weir_tables_recount_left_ms(const struct weir_tables *tables) {
	const uint64_t now_ms = tables->state->now_ms;

	return now_ms < tables->recount_ms ? tables->recount_ms - now_ms : 0;
}

void weir_tables_recount_since(struct weir_tables *tables, uint64_t age_ms) {
	if (age_ms < WEIR_TABLES_RECOUNT_MS) {
		tables->recount_ms = tables->state->now_ms + WEIR_TABLES_RECOUNT_MS - age_ms;
	}
}

void weir_tables_clock(struct weir_tables *tables, uint64_t now_ms) {
	weir_slow_start_tick(tables->state, now_ms);
}

void weir_tables_tick(struct weir_tables *tables) {
	weir_tables_publish(tables);
	weir_former_tick(tables);
}

// --- members ------------------------------------------------------------------------------

struct weir_writer *weir_tables_writer(struct weir_tables *tables) {
	return tables->writer;
}

const struct weir_segment *weir_tables_segment(const struct weir_tables *tables) {
	return tables->segment;
}

const struct weir_config *weir_tables_config(const struct weir_tables *tables) {
	return tables->config;
}
