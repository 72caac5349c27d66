// SPDX-License-Identifier: BSD-3-Clause
//
// Kept VIPs: the VIPs of removed services whose flows continue after the deadline of the drain.
// Until the deadline, the published service table contains these VIPs. After the deadline, they are
// stored only here, in the memory of this process.
#include <stdlib.h>

#include "state.h"

// Gets the removed binds of a service. The caller frees *ret_binds, which is NULL if there are no
// removed binds or if out of memory. Returns the number of binds.
static uint32_t copy_removed(
	const struct weir_tables *tables, uint16_t id, struct weir_config_bind **ret_binds) {
	const uint32_t room =
		id < tables->state->service_ids ? tables->state->services[id].removed_binds : 0;

	*ret_binds = room > 0 ? calloc(room, sizeof(**ret_binds)) : NULL;
	return *ret_binds != NULL ? weir_tables_removed_binds(tables, id, *ret_binds, room) : 0;
}

static bool is_kept(const struct weir_tables *tables, const struct weir_kept_vip *vip) {
	const struct weir_service_entry *service = &tables->state->services[vip->service];

	return vip->service < tables->state->service_ids && service->stage != WEIR_ID_FREE &&
	       service->stage != WEIR_ID_LIVE && service->identity == vip->identity;
}

// Returns whether a VIP is one of the kept VIPs of a service. The search starts at the index
// `from`.
static bool has_kept(const struct weir_tables *tables, uint32_t from, uint16_t id,
	const struct weir_address *address) {
	for (uint32_t i = from; i < tables->kept_count; i++) {
		const struct weir_kept_vip *vip = &tables->kept[i];

		if (vip->service == id && is_kept(tables, vip) &&
			weir_address_equal(&vip->address, address)) {
			return true;
		}
	}
	return false;
}

static void forget_others(struct weir_tables *tables) {
	uint32_t n = 0;

	for (uint32_t i = 0; i < tables->kept_count; i++) {
		if (is_kept(tables, &tables->kept[i])) {
			tables->kept[n++] = tables->kept[i];
		}
	}
	tables->kept_count = n;
}

// Stores the VIPs of a service. Returns false if out of memory.
static bool note(
	struct weir_tables *tables, uint16_t id, const struct weir_config_service *service) {
	const uint32_t first = tables->kept_count;
	struct weir_kept_vip *grown =
		realloc(tables->kept, (tables->kept_count + service->bind_count) * sizeof(*grown));

	if (grown == NULL) {
		return false;
	}
	tables->kept = grown;
	for (uint32_t i = 0; i < service->bind_count; i++) {
		if (!has_kept(tables, first, id, &service->binds[i].address)) {
			tables->kept[tables->kept_count++] =
				(struct weir_kept_vip){.address = service->binds[i].address,
					.identity = tables->state->services[id].identity,
					.service = id};
		}
	}
	return true;
}

void weir_kept_vips_follow(struct weir_tables *tables, const struct weir_config *former) {
	forget_others(tables);
	for (uint32_t i = 0; former != NULL && i < former->service_count; i++) {
		int id = weir_service_id_find(tables->state, former->services[i].name);

		if (id >= 0 && tables->state->services[id].stage != WEIR_ID_LIVE &&
			!note(tables, (uint16_t)id, &former->services[i])) {
			return;
		}
	}
}

bool weir_tables_has_lost(
	const struct weir_tables *tables, uint16_t id, const struct weir_address *address) {
	struct weir_config_bind *binds;
	const uint32_t count = copy_removed(tables, id, &binds);
	bool has = has_kept(tables, 0, id, address);

	for (uint32_t i = 0; i < count && !has; i++) {
		has = weir_address_equal(&binds[i].address, address);
	}
	free(binds);
	return has;
}
