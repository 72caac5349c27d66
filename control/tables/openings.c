// SPDX-License-Identifier: BSD-3-Clause
//
// Openings: decides which backends of a service may get new flows, from the numbers of backends in
// each group. The result is the eligible primary backends, the eligible backups, or both. In panic
// mode, backends that are not eligible may also get new flows.
#include "panic.h"
#include "state.h"

// Returns the number of backends in service. Does not count backends that an operator or their own
// report has taken out of service, or that were never healthy. Therefore a reload that more than
// doubles the number of backends causes no panic.
static uint32_t in_service(const uint32_t in_group[WEIR_GROUPS]) {
	return in_group[WEIR_GROUP_ELIGIBLE] + in_group[WEIR_GROUP_MAYBE_UP];
}

static bool has_any(const uint32_t in_group[WEIR_GROUPS]) {
	return in_service(in_group) + in_group[WEIR_GROUP_LAST_RESORT] > 0;
}

static bool is_panic(const struct weir_config_service *config, const uint32_t *in_group) {
	uint32_t all = in_service(in_group);

	return has_any(in_group) && weir_panic(in_group[WEIR_GROUP_ELIGIBLE], all > 0 ? all : 1,
					    config->panic_threshold_percent);
}

// Returns the number of groups of a tier that may get new flows, if the tier is used.
static uint8_t groups_of(const uint32_t *in_group, bool panic) {
	return !panic                              ? WEIR_GROUP_ELIGIBLE + 1
	       : in_group[WEIR_GROUP_ELIGIBLE] > 0 ? WEIR_GROUP_MAYBE_UP + 1
						   : WEIR_GROUP_LAST_RESORT + 1;
}

// Without an eligible backup, the backups are used only if no primary backend could get flows even
// in panic mode.
//
// With an eligible backup, there is no panic mode while enough primary backends or enough backups
// are eligible: healthy backups are used before backends that fail their checks.
struct weir_openings weir_openings_decide(
	const struct weir_config_service *config, const struct weir_group_counts *counts) {
	const uint32_t *primary = counts->in_group[WEIR_TIER_PRIMARY];
	const uint32_t *backup = counts->in_group[WEIR_TIER_BACKUP];
	const uint32_t eligible = primary[WEIR_GROUP_ELIGIBLE];
	struct weir_openings open = {.groups = {WEIR_GROUP_ELIGIBLE + 1, 0}};

	if (config == NULL) {
		return open;
	}
	if (backup[WEIR_GROUP_ELIGIBLE] > 0) {
		open.on_backups = eligible == 0 || weir_panic(eligible, counts->primaries,
							   config->backup_below_percent);
		open.panic = open.on_backups && is_panic(config, backup);
		open.groups[WEIR_TIER_BACKUP] = open.on_backups ? groups_of(backup, open.panic) : 0;
		open.groups[WEIR_TIER_PRIMARY] = eligible > 0 ? groups_of(primary, open.panic) : 0;
	} else {
		open.on_backups = !has_any(primary) && has_any(backup);
		open.panic = is_panic(config, open.on_backups ? backup : primary);
		open.groups[open.on_backups] =
			groups_of(open.on_backups ? backup : primary, open.panic);
		open.groups[!open.on_backups] = 0;
	}
	return open;
}

bool weir_tables_takeover(struct weir_tables *tables, uint16_t *ret_service) {
	struct weir_state *state = tables->state;

	for (uint32_t id = 0; state->takeover && id < state->service_ids; id++) {
		struct weir_service_entry *service = &state->services[id];

		if (service->stage == WEIR_ID_LIVE &&
			service->noted_on_backups != service->open.on_backups) {
			service->noted_on_backups = service->open.on_backups;
			*ret_service = (uint16_t)id;
			return true;
		}
	}
	state->takeover = false;
	return false;
}
