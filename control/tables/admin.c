// SPDX-License-Identifier: BSD-3-Clause
//
// The administrative state and the drain of a backend. Operators set both.
#include <errno.h>

#include "state.h"

static struct weir_backend_entry *any_backend(struct weir_tables *tables, uint16_t id) {
	struct weir_backend_entry *backend = &tables->state->backends[id];

	return id < tables->state->backend_ids && backend->stage != WEIR_ID_FREE ? backend : NULL;
}

// Sets the administrative state of a backend. The backend may also be leaving: if an operator
// drains a host, backends of the host that were removed from the configuration are drained as
// well.
static int set_admin(struct weir_tables *tables, uint16_t id, enum weir_admin_state admin,
	enum weir_drain_phase phase, uint64_t until_ns) {
	struct weir_backend_entry *backend = any_backend(tables, id);

	if (backend == NULL) {
		return -ENOENT;
	}
	backend->set |= WEIR_SET_ADMIN;
	tables->drain_begun |= phase == WEIR_DRAIN_DRAINING;
	if (backend->drain_until_ns != until_ns) {
		backend->drain_until_ns = until_ns;
		weir_state_touch_backend(tables->state, id);
	}
	if (backend->stage == WEIR_ID_LIVE &&
		(backend->admin != admin ||
			(backend->drain == WEIR_DRAIN_DROPPED) != (phase == WEIR_DRAIN_DROPPED))) {
		weir_state_move_backend(tables->state, id);
	}
	if (backend->admin != admin) {
		backend->admin_ms = tables->state->now_ms;
	}
	if (backend->admin != admin || backend->drain != phase) {
		backend->admin = (uint8_t)admin;
		backend->drain = (uint8_t)phase;
		weir_state_touch_backend(tables->state, id);
	}
	return 0;
}

int weir_tables_set_admin(struct weir_tables *tables, uint16_t id, enum weir_admin_state admin) {
	return set_admin(tables, id, admin, WEIR_DRAIN_NONE, 0);
}

int weir_tables_set_drain(
	struct weir_tables *tables, uint16_t id, enum weir_drain_phase phase, uint64_t until_ns) {
	return set_admin(tables, id,
		phase == WEIR_DRAIN_DROPPED ? WEIR_ADMIN_MAINTENANCE : WEIR_ADMIN_DRAIN, phase,
		until_ns);
}

int weir_tables_end_drain(
	struct weir_tables *tables, uint16_t id, enum weir_drain_phase phase, uint64_t left) {
	struct weir_backend_entry *backend = any_backend(tables, id);

	if (backend == NULL) {
		return -ENOENT;
	}
	backend->drain_left = left;
	return weir_tables_set_drain(tables, id, phase, backend->drain_until_ns);
}
