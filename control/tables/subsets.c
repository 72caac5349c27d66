// SPDX-License-Identifier: BSD-3-Clause
//
// Subsets: select the backends of a service that this instance uses, or that each of its workers
// uses. Subsets are chosen from the list of all live backends, usable or not. A failed backend
// stays in the list, so that only the subsets that contain it change (U3 of subset.h). When it is
// usable again, it returns to these subsets.
//
// Backups are divided separately, so that they take no places of primary backends. If an instance
// uses backups and primary backends, its subset has additional places for backups, in proportion to
// the usable backends of both kinds.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "state.h"

static int compare_backends(const void *left, const void *right) {
	const struct weir_config_backend *const *a = left;
	const struct weir_config_backend *const *b = right;

	return weir_subset_compare_names((*a)->name, (*b)->name);
}

int weir_subsets_rank(struct weir_state *state, const struct weir_service_entry *service) {
	const struct weir_config_service *config = service->config;
	uint16_t id = (uint16_t)(service - state->services);
	const struct weir_config_backend **order;
	uint32_t ranks[WEIR_TIERS] = {0};

	if (config->subset.algorithm == WEIR_SUBSET_NONE) {
		return 0;
	}
	order = calloc(config->backend_count + 1, sizeof(order[0]));
	if (order == NULL) {
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < config->backend_count; i++) {
		order[i] = &config->backends[i];
	}
	qsort(order, config->backend_count, sizeof(order[0]), compare_backends);
	for (uint32_t i = 0; i < config->backend_count; i++) {
		int backend = weir_backend_id_find(state, id, order[i]->name);

		if (backend >= 0) {
			state->backends[backend].rank = ranks[order[i]->backup]++;
		}
	}
	free(order);
	return 0;
}

// The backends of one tier of a service in canonical order, and scratch memory.
struct list {
	uint32_t count;
	uint16_t *id;
	uint8_t *usable;
	uint8_t *ready; // usable, or would be usable if its tier got new flows
	uint8_t *eligible; // the backend is usable even without panic mode
	uint32_t usables, eligibles;
	uint32_t *order; // [count]
	uint32_t *scratch;
};

static void list_fini(struct list *list) {
	free(list->id);
	free(list->usable);
	free(list->ready);
	free(list->eligible);
	free(list->order);
	free(list->scratch);
}

uint32_t weir_subsets_primaries(const struct weir_service_entry *service) {
	return service->backends > service->counts.backups
		       ? service->backends - service->counts.backups
		       : 0;
}

static uint32_t count_of(const struct weir_service_entry *service, enum weir_tier tier) {
	return tier == WEIR_TIER_BACKUP ? service->counts.backups : weir_subsets_primaries(service);
}

static int list_init(struct list *list, const struct weir_state *state,
	const struct weir_service_entry *service, enum weir_tier tier) {
	bool ranked = service->config->subset.algorithm != WEIR_SUBSET_NONE;
	uint32_t count = count_of(service, tier);
	// Without ranks, the backends are in the order in which they got their ids.
	uint32_t unranked = count;

	if (count == 0) {
		*list = (struct list){.count = 0};
		return 0;
	}
	*list = (struct list){
		.count = count,
		.id = calloc(count + 1, sizeof(list->id[0])),
		.usable = calloc(count + 1, sizeof(list->usable[0])),
		.ready = calloc(count + 1, sizeof(list->ready[0])),
		.eligible = calloc(count + 1, sizeof(list->eligible[0])),
		.order = calloc(count + 1, sizeof(list->order[0])),
		.scratch = calloc(
			weir_subset_scratch_count(count) + count + 1, sizeof(list->scratch[0])),
	};
	if (list->id == NULL || list->usable == NULL || list->ready == NULL ||
		list->eligible == NULL || list->order == NULL || list->scratch == NULL) {
		list_fini(list);
		return -ENOMEM;
	}
	for (uint16_t link = service->first; link != 0; link = state->backends[link - 1].next) {
		const struct weir_backend_entry *backend = &state->backends[link - 1];
		uint32_t at;

		if (backend->stage != WEIR_ID_LIVE ||
			backend->backup != (tier == WEIR_TIER_BACKUP)) {
			continue;
		}
		at = ranked ? backend->rank : --unranked;
		if (at < count) {
			list->id[at] = link - 1;
			list->usable[at] = backend->usable;
			list->ready[at] = service->open.groups[tier] > 0
						  ? backend->usable
						  : backend->eligible && backend->resolved;
			list->eligible[at] = backend->usable && backend->eligible;
			list->usables += backend->usable;
			list->eligibles += list->eligible[at];
		}
	}
	return 0;
}

static void lists_fini(struct list lists[WEIR_TIERS]) {
	list_fini(&lists[WEIR_TIER_PRIMARY]);
	list_fini(&lists[WEIR_TIER_BACKUP]);
}

static int lists_init(struct list lists[WEIR_TIERS], const struct weir_state *state,
	const struct weir_service_entry *service) {
	int r = list_init(&lists[WEIR_TIER_PRIMARY], state, service, WEIR_TIER_PRIMARY);

	if (r < 0) {
		return r;
	}
	r = list_init(&lists[WEIR_TIER_BACKUP], state, service, WEIR_TIER_BACKUP);
	if (r < 0) {
		list_fini(&lists[WEIR_TIER_PRIMARY]);
	}
	return r;
}

// Returns whether subsetting has no effect: each client (a worker, an instance or a group of
// instances) uses all backends.
static bool is_off(const struct weir_service_entry *service) {
	return service->config == NULL || service->config->subset.algorithm == WEIR_SUBSET_NONE ||
	       (service->config->subset.size >= weir_subsets_primaries(service) &&
		       service->config->subset.size >= service->counts.backups);
}

static uint32_t count_subsets(
	const struct weir_state *state, const struct weir_service_entry *service) {
	bool each = !is_off(service) && service->config->subset.client == WEIR_SUBSET_CLIENT_WORKER;

	return each ? state->place.workers : 1;
}

static struct weir_subset_params params_of(
	const struct weir_state *state, const struct weir_service_entry *service, uint32_t subset) {
	const struct weir_config_subset *config = &service->config->subset;
	struct weir_subset_place place = state->place;

	place.worker = subset;
	return (struct weir_subset_params){.algorithm = config->algorithm,
		.mode = config->mode,
		.size = config->size,
		.salt = config->salt,
		.client = weir_subset_client_index(config->client, &place)};
}

// The number of free places in a subset. The places are filled in order of preference.
struct room {
	uint32_t all;
	uint32_t unhealthy; // places for backends that are usable only because of panic mode
};

// Returns how many backends of a tier a client uses. full: the size of a subset of this tier. If
// primary backends and backups are both used, the ratio of backups to primary backends in a subset
// is the ratio of usable backups to usable primary backends, rounded up.
static uint32_t places_of(const struct weir_service_entry *service,
	const struct list lists[WEIR_TIERS], enum weir_tier tier, uint32_t full) {
	uint64_t primaries = lists[WEIR_TIER_PRIMARY].usables;
	uint64_t places = service->config->subset.size;

	if (tier == WEIR_TIER_PRIMARY || primaries == 0) {
		return full;
	}
	places = (places * lists[WEIR_TIER_BACKUP].usables + primaries - 1) / primaries;
	return places < full ? (uint32_t)places : full;
}

// Returns how many places of a subset may be filled, and how many of them may be filled with
// backends that are usable only because of panic mode. Without the second limit, a subset could
// contain only such backends, which could all be down. The limit reserves the subset's share of all
// eligible backends, rounded up, for eligible backends.
static struct room room_of(const struct list *list, uint32_t size) {
	uint64_t least =
		list->usables > 0
			? ((uint64_t)size * list->eligibles + list->usables - 1) / list->usables
			: size;

	return (struct room){.all = size, .unhealthy = size - (uint32_t)least};
}

static bool take(const struct list *list, struct room *room, uint32_t at) {
	bool is_unhealthy = !list->eligible[at];

	if (!list->usable[at] || room->all == 0 || (is_unhealthy && room->unhealthy == 0)) {
		return false;
	}
	room->all--;
	room->unhealthy -= is_unhealthy;
	return true;
}

// Fills one subset with the first backends for which the subset has a place. The next few usable
// backends are spares. Backends up to the last spare are not marked `far`, because the subset may
// need them soon. While backups are not used, a subset has no places for them, only spares.
static void fill_subset(struct weir_state *state, const struct weir_service_entry *service,
	uint32_t subset, const struct list lists[WEIR_TIERS], enum weir_tier tier) {
	const struct list *list = &lists[tier];
	struct weir_subset_params params = params_of(state, service, subset);
	uint32_t size = weir_subset_order(&params, list->count, list->order, list->scratch);
	uint32_t spares =
		size / 10 > WEIR_SUBSET_SPARES_LEAST ? size / 10 : WEIR_SUBSET_SPARES_LEAST;
	uint32_t places = places_of(service, lists, tier, size);
	struct room room;

	if (service->open.groups[tier] == 0) {
		spares += size;
		places = 0;
	}
	room = room_of(list, places);

	for (uint32_t i = 0; i < list->count && (room.all > 0 || spares > 0); i++) {
		uint32_t at = list->order[i];
		struct weir_backend_entry *backend = &state->backends[list->id[at]];
		bool full = room.all == 0;

		backend->far = false;
		if (take(list, &room, at)) {
			backend->subsets |= 1ull << subset;
		} else if (full) {
			spares -= list->ready[at];
		}
	}
}

int weir_subsets_decide(struct weir_state *state, struct weir_service_entry *service) {
	uint32_t subsets = count_subsets(state, service);
	bool off = is_off(service);
	struct list lists[WEIR_TIERS];
	int r = off ? 0 : lists_init(lists, state, service);

	if (r < 0) {
		return r;
	}
	service->subsets = subsets;
	state->far_changed |= !off || service->divided;
	service->divided = !off;
	for (uint16_t link = service->first; link != 0; link = state->backends[link - 1].next) {
		struct weir_backend_entry *backend = &state->backends[link - 1];

		backend->subsets = off && backend->usable ? 1 : 0;
		backend->far = !off;
	}
	for (uint32_t subset = 0; subset < subsets && !off; subset++) {
		fill_subset(state, service, subset, lists, WEIR_TIER_PRIMARY);
		fill_subset(state, service, subset, lists, WEIR_TIER_BACKUP);
	}
	if (!off) {
		lists_fini(lists);
	}
	return 0;
}

// --- for the API --------------------------------------------------------------------------

static const struct weir_service_entry *configured(const struct weir_tables *tables, uint16_t id) {
	const struct weir_state *state = tables->state;

	return id < state->service_ids && state->services[id].stage == WEIR_ID_LIVE &&
			       state->services[id].config != NULL
		       ? &state->services[id]
		       : NULL;
}

int weir_tables_subset(
	const struct weir_tables *tables, uint16_t id, struct weir_subset_state *ret) {
	const struct weir_service_entry *service = configured(tables, id);
	const struct weir_state *state = tables->state;
	uint64_t clients = state->clients;

	if (service == NULL) {
		return -ENOENT;
	}
	if (service->config->subset.client != WEIR_SUBSET_CLIENT_GROUP) {
		clients *= state->place.members;
	}
	if (service->config->subset.client == WEIR_SUBSET_CLIENT_WORKER) {
		clients *= state->place.workers;
	}
	*ret = (struct weir_subset_state){
		.params = params_of(state, service, 0),
		.client = service->config->subset.client,
		.off = is_off(service),
		.subsets = count_subsets(state, service),
		.clients = clients,
		.backends = service->backends,
	};
	return 0;
}

bool weir_tables_backend_is_far(const struct weir_tables *tables, uint16_t id) {
	return id < tables->state->backend_ids && tables->state->backends[id].far;
}

bool weir_tables_far_changed(struct weir_tables *tables) {
	bool changed = tables->state->far_changed;

	tables->state->far_changed = false;
	return changed;
}

// Lists the members and the substitutes of a subset. The n-th substitute replaces the n-th unusable
// member, both in order of preference (U3 of subset.h).
static uint32_t list_members(
	const struct list *list, uint32_t size, uint32_t places, struct weir_subset_member *ret) {
	struct room room = room_of(list, places);
	uint32_t n = 0, away = 0;

	for (uint32_t i = 0; i < list->count && (i < size || room.all > 0); i++) {
		uint32_t at = list->order[i];
		bool taken = take(list, &room, at);

		if (i >= size && !taken) {
			continue;
		}
		ret[n] = (struct weir_subset_member){
			.backend = list->id[at], .replaces = WEIR_BACKEND_NONE, .unusable = !taken};
		if (i >= size) {
			while (!ret[away].unusable) {
				away++;
			}
			ret[n].replaces = ret[away++].backend;
		}
		n++;
	}
	return n;
}

int weir_tables_subset_members(const struct weir_tables *tables, uint16_t id, uint32_t subset,
	struct weir_subset_member *ret) {
	const struct weir_service_entry *service = configured(tables, id);
	struct weir_subset_params params;
	struct list lists[WEIR_TIERS];
	uint32_t n = 0;
	int r;

	if (service == NULL) {
		return -ENOENT;
	}
	r = lists_init(lists, tables->state, service);
	if (r < 0) {
		return r;
	}
	params = params_of(tables->state, service, subset);
	for (int tier = 0; tier <= (service->open.on_backups ? WEIR_TIER_BACKUP : 0); tier++) {
		const struct list *list = &lists[tier];
		uint32_t size = weir_subset_order(&params, list->count, list->order, list->scratch);
		uint32_t places = places_of(service, lists, (enum weir_tier)tier, size);

		n += list_members(list, tier == WEIR_TIER_BACKUP ? places : size, places, ret + n);
	}
	lists_fini(lists);
	return (int)n;
}

static void count_clients(const struct weir_service_entry *service,
	const struct weir_subset_state *subset, const struct list lists[WEIR_TIERS],
	enum weir_tier tier, struct weir_subset_count *counts) {
	const struct list *list = &lists[tier];
	struct weir_subset_params params = subset->params;

	for (params.client = 0; params.client < subset->clients; params.client++) {
		uint32_t size = weir_subset_order(&params, list->count, list->order, list->scratch);
		struct room room = room_of(list, places_of(service, lists, tier, size));

		for (uint32_t i = 0; i < list->count && room.all > 0; i++) {
			counts[list->order[i]].clients += take(list, &room, list->order[i]);
		}
	}
}

int weir_tables_subset_counts(
	const struct weir_tables *tables, uint16_t id, struct weir_subset_count *ret) {
	const struct weir_service_entry *service = configured(tables, id);
	struct weir_subset_state subset;
	struct list lists[WEIR_TIERS];
	uint32_t n = 0;
	int r;

	if (service == NULL) {
		return -ENOENT;
	}
	weir_tables_subset(tables, id, &subset);
	r = lists_init(lists, tables->state, service);
	if (r < 0) {
		return r;
	}
	for (int tier = 0; tier < WEIR_TIERS; tier++) {
		const struct list *list = &lists[tier];

		for (uint32_t i = 0; i < list->count; i++) {
			ret[n + i] = (struct weir_subset_count){
				.backend = list->id[i], .usable = list->usable[i] != 0};
		}
		if (subset.clients * service->backends <= WEIR_SUBSET_PAIRS_MAX) {
			count_clients(service, &subset, lists, (enum weir_tier)tier, ret + n);
		}
		n += list->count;
	}
	lists_fini(lists);
	return (int)n;
}
