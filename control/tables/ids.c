// SPDX-License-Identifier: BSD-3-Clause
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "hash.h"
#include "state.h"

// Number of list heads in each hash table. Both numbers are powers of two, so that the index of a
// head can be computed with a mask.
#define SERVICE_HEADS 8192u
#define BACKEND_HEADS 65536u

// The seed is fixed, because identities must be equal on all instances of a fleet.
#define IDENTITY_SEED 0x7765697269640001ull

int weir_state_create(struct weir_state **ret) {
	struct weir_state *state = calloc(1, sizeof(*state));

	if (state == NULL) {
		return -ENOMEM;
	}
	state->services = calloc(WEIR_SERVICES_MAX, sizeof(*state->services));
	state->backends = calloc(WEIR_BACKENDS_MAX, sizeof(*state->backends));
	state->service_heads = calloc(SERVICE_HEADS, sizeof(*state->service_heads));
	state->backend_heads = calloc(BACKEND_HEADS, sizeof(*state->backend_heads));
	state->touched_services = calloc(WEIR_SERVICES_MAX, sizeof(*state->touched_services));
	state->touched_backends = calloc(WEIR_BACKENDS_MAX, sizeof(*state->touched_backends));
	state->leaving = calloc(WEIR_BACKENDS_MAX, sizeof(*state->leaving));
	if (state->services == NULL || state->backends == NULL || state->service_heads == NULL ||
		state->backend_heads == NULL || state->touched_services == NULL ||
		state->touched_backends == NULL || state->leaving == NULL) {
		weir_state_free(state);
		return -ENOMEM;
	}
	state->clients = 1;
	state->place.members = 1;
	state->place.workers = 1;
	state->service_limit = WEIR_SERVICES_MAX;
	state->backend_limit = WEIR_BACKENDS_MAX;
	*ret = state;
	return 0;
}

void weir_state_free(struct weir_state *state) {
	if (state == NULL) {
		return;
	}
	free(state->services);
	free(state->backends);
	free(state->service_heads);
	free(state->backend_heads);
	free(state->touched_services);
	free(state->touched_backends);
	free(state->leaving);
	free(state);
}

int weir_state_clone(const struct weir_state *state, struct weir_state **ret) {
	struct weir_state *clone, arrays;
	int r = weir_state_create(&clone);

	if (r < 0) {
		return r;
	}
	arrays = *clone;
	memcpy(arrays.services, state->services, state->service_ids * sizeof(*state->services));
	memcpy(arrays.backends, state->backends, state->backend_ids * sizeof(*state->backends));
	memcpy(arrays.service_heads, state->service_heads,
		SERVICE_HEADS * sizeof(*state->service_heads));
	memcpy(arrays.backend_heads, state->backend_heads,
		BACKEND_HEADS * sizeof(*state->backend_heads));
	memcpy(arrays.touched_services, state->touched_services,
		state->touched_service_count * sizeof(*state->touched_services));
	memcpy(arrays.touched_backends, state->touched_backends,
		state->touched_backend_count * sizeof(*state->touched_backends));
	// Copy the entries of all touched ids, even if the ids are not below service_ids or
	// backend_ids. Their flag `touched` shows that they are already in the list, so no id is
	// added twice.
	for (uint32_t i = 0; i < state->touched_service_count; i++) {
		arrays.services[state->touched_services[i]] =
			state->services[state->touched_services[i]];
	}
	for (uint32_t i = 0; i < state->touched_backend_count; i++) {
		arrays.backends[state->touched_backends[i]] =
			state->backends[state->touched_backends[i]];
	}
	memcpy(arrays.leaving, state->leaving, state->backends_leaving * sizeof(*state->leaving));
	*clone = *state;
	clone->services = arrays.services;
	clone->backends = arrays.backends;
	clone->service_heads = arrays.service_heads;
	clone->backend_heads = arrays.backend_heads;
	clone->touched_services = arrays.touched_services;
	clone->touched_backends = arrays.touched_backends;
	clone->leaving = arrays.leaving;
	*ret = clone;
	return 0;
}

void weir_state_mark_all(struct weir_state *state) {
	for (uint32_t id = 0; id < state->service_ids; id++) {
		if (state->services[id].stage == WEIR_ID_LIVE) {
			state->services[id].dirty = true;
			state->services[id].undecided = true;
		}
	}
	state->all_dirty = true;
	state->services_dirty = true;
	state->undecided = true;
}

void weir_state_touch_service(struct weir_state *state, uint16_t id) {
	if (!state->services[id].touched) {
		state->services[id].touched = true;
		state->touched_services[state->touched_service_count++] = id;
	}
}

void weir_state_touch_backend(struct weir_state *state, uint16_t id) {
	if (!state->backends[id].touched) {
		state->backends[id].touched = true;
		state->touched_backends[state->touched_backend_count++] = id;
	}
}

void weir_state_mark_service(struct weir_state *state, uint16_t service) {
	state->services[service].dirty = true;
	state->services[service].undecided = true;
	state->undecided = true;
	weir_state_touch_service(state, service);
}

void weir_state_move_backend(struct weir_state *state, uint16_t backend) {
	struct weir_service_entry *service = &state->services[state->backends[backend].service];

	state->backends[backend].moved = true;
	service->moved = true;
	state->undecided = true;
	weir_state_touch_backend(state, backend);
	weir_state_touch_service(state, state->backends[backend].service);
}

void weir_state_mark_backend(struct weir_state *state, uint16_t backend) {
	state->backends[backend].dirty = true;
	weir_state_touch_backend(state, backend);
}

// Frees an entry. Keeps its flag `touched`, because the id stays in the list of ids that have
// something to publish.
static void clear_service(struct weir_service_entry *service) {
	*service = (struct weir_service_entry){.touched = service->touched};
}

static void clear_backend(struct weir_backend_entry *backend) {
	*backend =
		(struct weir_backend_entry){.touched = backend->touched, .dirty = backend->dirty};
}

// --- leaving backends ---

static void leaving_add(struct weir_state *state, uint16_t id) {
	state->backends[id].leaving_at = (uint16_t)state->backends_leaving;
	state->leaving[state->backends_leaving++] = id;
}

static void leaving_remove(struct weir_state *state, uint16_t id) {
	uint16_t at = state->backends[id].leaving_at;
	uint16_t last = state->leaving[--state->backends_leaving];

	state->leaving[at] = last;
	state->backends[last].leaving_at = at;
}

// --- the list of a service's backends ---

static void list_add(struct weir_state *state, struct weir_service_entry *owner, uint16_t id) {
	state->backends[id].next = owner->first;
	state->backends[id].previous = 0;
	if (owner->first != 0) {
		state->backends[owner->first - 1].previous = id + 1;
	}
	owner->first = id + 1;
}

// Removes a backend from the list of its service. The list is doubly linked, because one change may
// remove thousands of backends.
static void list_remove(struct weir_state *state, struct weir_service_entry *owner, uint16_t id) {
	const struct weir_backend_entry *backend = &state->backends[id];

	if (backend->previous != 0) {
		state->backends[backend->previous - 1].next = backend->next;
	} else {
		owner->first = backend->next;
	}
	if (backend->next != 0) {
		state->backends[backend->next - 1].previous = backend->previous;
	}
}

static uint64_t service_identity(const char *name) {
	return weir_hash_bytes(name, strlen(name), IDENTITY_SEED);
}

static uint64_t backend_identity(
	const struct weir_state *state, uint16_t service, const char *name) {
	return weir_hash_bytes(name, strlen(name), state->services[service].identity);
}

static uint16_t *service_head(const struct weir_state *state, uint64_t identity) {
	return &state->service_heads[identity & (SERVICE_HEADS - 1)];
}

static uint16_t *backend_head(const struct weir_state *state, uint64_t identity) {
	return &state->backend_heads[identity & (BACKEND_HEADS - 1)];
}

int weir_service_id_find(const struct weir_state *state, const char *name) {
	uint16_t link = *service_head(state, service_identity(name));

	while (link != 0) {
		const struct weir_service_entry *service = &state->services[link - 1];

		if (strcmp(service->name, name) == 0) {
			return link - 1;
		}
		link = service->hash_next;
	}
	return -ENOENT;
}

int weir_backend_id_find(const struct weir_state *state, uint16_t service, const char *name) {
	uint16_t link = *backend_head(state, backend_identity(state, service, name));

	while (link != 0) {
		const struct weir_backend_entry *backend = &state->backends[link - 1];

		if (backend->stage == WEIR_ID_LIVE && backend->service == service &&
			strcmp(backend->name, name) == 0) {
			return link - 1;
		}
		link = backend->hash_next;
	}
	return -ENOENT;
}

int weir_backend_id_find_leaving(const struct weir_state *state, uint16_t service, const char *name,
	const struct weir_address *address) {
	uint16_t link = *backend_head(state, backend_identity(state, service, name));

	while (link != 0) {
		const struct weir_backend_entry *backend = &state->backends[link - 1];

		if (backend->stage != WEIR_ID_LIVE && backend->service == service &&
			strcmp(backend->name, name) == 0 &&
			weir_address_equal(&backend->address, address)) {
			return link - 1;
		}
		link = backend->hash_next;
	}
	return -ENOENT;
}

uint32_t weir_backend_ids_leaving(const struct weir_state *state, uint16_t service,
	const char *name, uint16_t *ids, uint32_t room) {
	uint16_t link = *backend_head(state, backend_identity(state, service, name));
	uint32_t n = 0;

	while (link != 0) {
		const struct weir_backend_entry *backend = &state->backends[link - 1];

		if (backend->stage != WEIR_ID_LIVE && backend->service == service &&
			strcmp(backend->name, name) == 0) {
			if (n < room) {
				ids[n] = link - 1;
			}
			n++;
		}
		link = backend->hash_next;
	}
	return n;
}

int weir_service_id_take(struct weir_state *state, uint16_t id, const char *name) {
	struct weir_service_entry *service;
	uint16_t *head;

	if (id >= state->service_limit || id >= WEIR_SERVICES_MAX) {
		return -ENOSPC;
	}
	service = &state->services[id];
	if (service->stage != WEIR_ID_FREE || weir_service_id_find(state, name) >= 0) {
		return -EEXIST;
	}
	clear_service(service);
	strncpy(service->name, name, sizeof(service->name) - 1);
	service->identity = service_identity(name);
	service->since = state->updates;
	service->runtime_policy = WEIR_POLICY_UNSET;
	service->stage = WEIR_ID_LIVE;
	head = service_head(state, service->identity);
	service->hash_next = *head;
	*head = id + 1;
	if (id >= state->service_ids) {
		state->service_ids = id + 1u;
	}
	weir_state_mark_service(state, id);
	return id;
}

int weir_service_id_add(struct weir_state *state, const char *name) {
	uint32_t id = 0;

	while (id < state->service_ids && state->services[id].stage != WEIR_ID_FREE) {
		id++;
	}
	if (id >= state->service_limit) {
		return -ENOSPC;
	}
	return weir_service_id_take(state, (uint16_t)id, name);
}

int weir_backend_id_take(struct weir_state *state, uint16_t id, uint16_t service, const char *name,
	const struct weir_address *address) {
	struct weir_service_entry *owner = &state->services[service];
	struct weir_backend_entry *backend;
	uint16_t *head;

	if (id >= state->backend_limit || id >= WEIR_BACKENDS_MAX) {
		return -ENOSPC;
	}
	backend = &state->backends[id];
	if (backend->stage != WEIR_ID_FREE || weir_backend_id_find(state, service, name) >= 0) {
		return -EEXIST;
	}
	clear_backend(backend);
	strncpy(backend->name, name, sizeof(backend->name) - 1);
	backend->address = *address;
	backend->identity = backend_identity(state, service, name);
	backend->since = state->updates;
	backend->runtime_weight = WEIR_WEIGHT_UNSET;
	backend->own_weight = WEIR_WEIGHT_UNSET;
	backend->service = service;
	backend->stage = WEIR_ID_LIVE;
	head = backend_head(state, backend->identity);
	backend->hash_next = *head;
	*head = id + 1;
	list_add(state, owner, id);
	owner->backends++;
	owner->members++;
	if (id >= state->backend_ids) {
		state->backend_ids = id + 1u;
	}
	if (id == state->backend_free) {
		state->backend_free = id + 1u;
	}
	weir_state_mark_backend(state, id);
	weir_state_mark_service(state, service);
	return id;
}

int weir_backend_id_add(struct weir_state *state, uint16_t service, const char *name,
	const struct weir_address *address) {
	uint32_t id = state->backend_free;

	while (id < state->backend_ids && state->backends[id].stage != WEIR_ID_FREE) {
		id++;
	}
	state->backend_free = id;
	if (id >= state->backend_limit) {
		return -ENOSPC;
	}
	return weir_backend_id_take(state, (uint16_t)id, service, name, address);
}

void weir_service_id_del(struct weir_state *state, uint16_t id) {
	struct weir_service_entry *service = &state->services[id];
	uint16_t *link = service_head(state, service->identity);

	while (*link != id + 1) {
		link = &state->services[*link - 1].hash_next;
	}
	*link = service->hash_next;
	if (service->stage != WEIR_ID_LIVE) {
		state->services_leaving--;
	}
	clear_service(service);
	weir_state_touch_service(state, id);
	while (state->service_ids > 0 &&
		state->services[state->service_ids - 1].stage == WEIR_ID_FREE) {
		state->service_ids--;
	}
}

void weir_backend_id_del(struct weir_state *state, uint16_t id) {
	struct weir_backend_entry *backend = &state->backends[id];
	struct weir_service_entry *owner = &state->services[backend->service];
	uint16_t *link = backend_head(state, backend->identity);

	while (*link != id + 1) {
		link = &state->backends[*link - 1].hash_next;
	}
	*link = backend->hash_next;
	list_remove(state, owner, id);
	owner->members--;
	if (backend->stage == WEIR_ID_LIVE) {
		owner->backends--;
	} else {
		leaving_remove(state, id);
	}
	clear_backend(backend);
	weir_state_mark_backend(state, id);
	while (state->backend_ids > 0 &&
		state->backends[state->backend_ids - 1].stage == WEIR_ID_FREE) {
		state->backend_ids--;
	}
	if (id < state->backend_free) {
		state->backend_free = id;
	}
}

void weir_backend_leave(struct weir_state *state, uint16_t id) {
	struct weir_backend_entry *backend = &state->backends[id];

	backend->stage = WEIR_ID_LEAVING;
	backend->chosen = false;
	backend->usable = false;
	state->services[backend->service].backends--;
	// Set the flags here, because weir_eligible_decide is not called for leaving services.
	backend->flags = WEIR_BACKEND_CLOSED | WEIR_BACKEND_DOWN |
			 state->services[backend->service].down_flags;
	leaving_add(state, id);
	weir_state_mark_backend(state, id);
	weir_state_mark_service(state, backend->service);
}

void weir_backend_revive(struct weir_state *state, uint16_t id) {
	struct weir_backend_entry *backend = &state->backends[id];

	backend->stage = WEIR_ID_LIVE;
	backend->admin = WEIR_ADMIN_READY;
	backend->admin_ms = 0;
	backend->drain = WEIR_DRAIN_NONE;
	backend->drain_until_ns = 0;
	backend->eligible = false;
	backend->slow_start_ms = 0;
	backend->runtime_weight = WEIR_WEIGHT_UNSET;
	backend->own_weight = WEIR_WEIGHT_UNSET;
	backend->auto_weight = 0;
	backend->max_active_flows = 0;
	backend->at_limit = false;
	backend->reported_weight = 0;
	backend->ejected = false;
	backend->set = 0;
	state->services[backend->service].backends++;
	leaving_remove(state, id);
	weir_state_mark_backend(state, id);
	weir_state_mark_service(state, backend->service);
}

void weir_service_leave(struct weir_state *state, uint16_t id) {
	struct weir_service_entry *service = &state->services[id];

	for (uint16_t link = service->first; link != 0; link = state->backends[link - 1].next) {
		if (state->backends[link - 1].stage == WEIR_ID_LIVE) {
			const uint8_t flags = state->backends[link - 1].flags;

			weir_backend_leave(state, link - 1);
			// Backends that were up do not count as down until the drain of the service
			// ends.
			if (service->removal == WEIR_DRAIN_DRAINING) {
				state->backends[link - 1].flags =
					WEIR_BACKEND_CLOSED | (flags & WEIR_BACKEND_DOWN_FLAGS);
			}
		}
	}
	service->stage = WEIR_ID_LEAVING;
	service->config = NULL;
	service->lost_binds = true;
	service->open = (struct weir_openings){.panic = false};
	service->noted_on_backups = false;
	service->eligible = 0;
	service->dirty = false;
	state->services_leaving++;
	state->services_dirty = true;
	weir_state_touch_service(state, id);
}

void weir_service_revive(struct weir_state *state, uint16_t id) {
	struct weir_service_entry *service = &state->services[id];

	service->stage = WEIR_ID_LIVE;
	service->runtime_policy = WEIR_POLICY_UNSET;
	service->policy_set = false;
	service->error_window_ms = 0;
	state->services_leaving--;
	state->services_dirty = true;
	weir_state_mark_service(state, id);
	// Publishing begins the grace periods of leaving backends only if they are touched, so
	// touch all backends of the service.
	for (uint16_t link = service->first; link != 0; link = state->backends[link - 1].next) {
		weir_state_touch_backend(state, link - 1);
	}
}
