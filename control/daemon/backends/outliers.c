// SPDX-License-Identifier: BSD-3-Clause
#include "outliers.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "configured.h"
#include "duration.h"
#include "ejection.h"
#include "plural.h"

#define EXPLANATION_BYTES 64

struct member { // a backend of a service; has the same index as its struct weir_ejection_backend
	uint64_t identity;
	struct weir_address address; // a backend with a new address counts as another machine
	uint64_t ejections;
	uint16_t id;
	uint8_t unreachable; // kind of the last ICMP error, enum weir_unreachable_kind
};

struct watched { // a service with outlier ejection
	char name[WEIR_NAME_BYTES];
	struct weir_ejection_settings settings;
	struct weir_ejection ejection;
	struct weir_ejection_backend *backends;
	struct member *members; // [count], in the order of the service's backends
	uint32_t count;
};

struct place { // position of a backend in the lists; indexed by backend id
	uint32_t service; // index of the service + 1; 0 = the backend cannot be ejected
	uint32_t member;
};

struct weir_outliers {
	struct weir_log *log;
	struct weir_states *states;
	struct weir_tables *tables; // NULL until the first weir_outliers_follow
	struct watched *watched;
	struct place *places; // [ids]
	uint32_t count, ids;
};

int weir_outliers_create(
	struct weir_log *log, struct weir_states *states, struct weir_outliers **ret) {
	struct weir_outliers *outliers = calloc(1, sizeof(*outliers));

	if (outliers == NULL) {
		return -ENOMEM;
	}
	outliers->log = log;
	outliers->states = states;
	*ret = outliers;
	return 0;
}

static void free_watched(struct watched *watched, uint32_t count) {
	for (uint32_t i = 0; i < count; i++) {
		free(watched[i].backends);
		free(watched[i].members);
	}
	free(watched);
}

void weir_outliers_free(struct weir_outliers *outliers) {
	if (outliers == NULL) {
		return;
	}
	free_watched(outliers->watched, outliers->count);
	free(outliers->places);
	free(outliers);
}

// --- configuration --------------------------------------------------------------------------

static bool is_watched(const struct weir_config_service *service) {
	return service->outlier_ejection.enabled && service->backend_count > 1;
}

static struct weir_ejection_settings settings_of(
	const struct weir_config_outlier_ejection *config) {
	return (struct weir_ejection_settings){.interval_ms = config->interval_ms,
		.base_ms = config->base_ejection_ms,
		.max_ms = config->max_ejection_ms,
		.max_percent = config->max_ejection_percent,
		.failure_percent = config->failure_percent,
		.minimum_flows = config->minimum_flows,
		.consecutive_failures = config->consecutive_failures,
		.unreachable_flows = config->unreachable_flows};
}

static struct watched *find_watched(const struct weir_outliers *outliers, const char *name) {
	for (uint32_t i = 0; i < outliers->count; i++) {
		if (strcmp(outliers->watched[i].name, name) == 0) {
			return &outliers->watched[i];
		}
	}
	return NULL;
}

// Returns the index of a backend in the previous list, or former->count if it is not in the list.
// *next: index at which the search starts. The two lists mostly have the same order, so the search
// starts after the backend that was found last.
static uint32_t find_member(
	const struct watched *former, const struct member *member, uint32_t *next) {
	for (uint32_t n = 0; n < former->count; n++) {
		uint32_t i = (*next + n) % former->count;
		const struct member *each = &former->members[i];

		if (each->identity == member->identity &&
			weir_address_equal(&each->address, &member->address)) {
			*next = i + 1;
			return i;
		}
	}
	return former->count;
}

// Fills the lists of a service. Leaves out backends without an id. Returns 0 or -ENOMEM.
static int fill(struct watched *watched, const struct weir_tables *tables,
	const struct weir_config_service *config, const struct watched *former) {
	struct weir_configured of = weir_configured_of(tables, config);
	uint32_t next = 0;

	snprintf(watched->name, sizeof(watched->name), "%s", config->name);
	watched->settings = settings_of(&config->outlier_ejection);
	if (former != NULL) {
		watched->ejection = former->ejection;
	}
	watched->backends = calloc(config->backend_count, sizeof(watched->backends[0]));
	watched->members = calloc(config->backend_count, sizeof(watched->members[0]));
	if (watched->backends == NULL || watched->members == NULL) {
		return -ENOMEM;
	}
	while (weir_configured_next(&of)) {
		struct member *member = &watched->members[watched->count];
		uint32_t at;

		*member = (struct member){.identity = of.backend.identity,
			.address = of.backend.address,
			.id = of.backend.id};
		at = former != NULL ? find_member(former, member, &next) : 0;
		if (former != NULL && at < former->count) {
			watched->backends[watched->count] = former->backends[at];
			member->ejections = former->members[at].ejections;
			member->unreachable = former->members[at].unreachable;
			watched->backends[watched->count].known &=
				former->members[at].id == member->id;
		}
		watched->count++;
	}
	return 0;
}

// Computes the places of all backends. Returns NULL if out of memory.
static struct place *list_places(const struct watched *watched, uint32_t count, uint32_t ids) {
	struct place *places = calloc(ids > 0 ? ids : 1, sizeof(*places));

	for (uint32_t i = 0; places != NULL && i < count; i++) {
		for (uint32_t k = 0; k < watched[i].count; k++) {
			places[watched[i].members[k].id] = (struct place){i + 1, k};
		}
	}
	return places;
}

// Marks the ejected backends in the tables, and clears the mark of all other backends.
static void write_tables(const struct weir_outliers *outliers) {
	uint32_t ids = weir_tables_backend_ids(outliers->tables);

	for (uint32_t id = 0; id < ids; id++) {
		weir_tables_set_ejected(outliers->tables, (uint16_t)id, false);
	}
	for (uint32_t i = 0; i < outliers->count; i++) {
		const struct watched *watched = &outliers->watched[i];

		for (uint32_t k = 0; k < watched->count; k++) {
			if (weir_ejection_is(&watched->backends[k])) {
				weir_tables_set_ejected(
					outliers->tables, watched->members[k].id, true);
			}
		}
	}
}

int weir_outliers_follow(struct weir_outliers *outliers, struct weir_tables *tables,
	const struct weir_config *config) {
	struct watched *watched;
	struct place *places;
	uint32_t room = 0, count = 0;
	int r = 0;

	for (uint32_t i = 0; i < config->service_count; i++) {
		room += is_watched(&config->services[i]);
	}
	outliers->tables = tables;
	if (room == 0 && outliers->count == 0) {
		return 0;
	}
	watched = calloc(room > 0 ? room : 1, sizeof(*watched));
	r = watched == NULL ? -ENOMEM : 0;
	for (uint32_t i = 0; i < config->service_count && r == 0; i++) {
		const struct weir_config_service *service = &config->services[i];

		if (is_watched(service)) {
			r = fill(&watched[count++], tables, service,
				find_watched(outliers, service->name));
		}
	}
	places = r == 0 ? list_places(watched, count, weir_tables_backend_ids(tables)) : NULL;
	if (places == NULL) {
		free_watched(watched, count);
		watched = NULL;
		count = 0;
		r = -ENOMEM;
	}
	free_watched(outliers->watched, outliers->count);
	free(outliers->places);
	outliers->watched = watched;
	outliers->places = places;
	outliers->count = count;
	outliers->ids = places != NULL ? weir_tables_backend_ids(tables) : 0;
	write_tables(outliers);
	return r;
}

// --- ejection -------------------------------------------------------------------------------

static struct weir_ejection_count count_of(const struct weir_segment *segment, uint16_t id) {
	struct weir_ejection_count count = {0};

	for (uint32_t worker = 0; worker < segment->workers; worker++) {
		const struct weir_share_counters *of =
			weir_segment_backend_counters(segment, worker, id);

		count.established += weir_counter_read(&of->established);
		count.failed += weir_counter_read(&of->errors);
	}
	return count;
}

static void note(const struct weir_outliers *outliers, uint16_t id, enum weir_log_level level,
	const char *what) {
	struct weir_backend_state state;

	if (weir_tables_backend(outliers->tables, id, &state) == 0) {
		weir_log_event(outliers->log, level,
			&(struct weir_log_fields){
				.service = state.service, .backend = state.name, .reason = what},
			"backend %s/%s: %s", state.service, state.name, what);
		weir_states_record(outliers->states, id, "outliers", what);
	}
}

// Describes what was observed before the backend was ejected.
static void explain(const struct weir_ejection_backend *backend, const struct member *member,
	char *text, size_t bytes) {
	uint64_t failed = backend->judged.failed, all = failed + backend->judged.established;

	if (backend->reason == WEIR_EJECTION_UNREACHABLE) {
		snprintf(text, bytes, "%u ICMP error%s, %s", backend->unreachable.messages,
			weir_plural(backend->unreachable.messages),
			weir_unreachable_text((enum weir_unreachable_kind)member->unreachable));
	} else {
		snprintf(text, bytes, "%llu of %llu connection%s failed",
			(unsigned long long)failed, (unsigned long long)all, weir_plural(all));
	}
}

static void eject(
	struct weir_outliers *outliers, struct watched *watched, uint32_t i, uint64_t now_ms) {
	struct weir_ejection_backend *backend = &watched->backends[i];
	char what[WEIR_STATES_WHY_BYTES], why[EXPLANATION_BYTES], length[WEIR_DURATION_BYTES];
	uint64_t length_ms;

	explain(backend, &watched->members[i], why, sizeof(why));
	length_ms = weir_ejection_begin(&watched->settings, backend, now_ms);
	watched->members[i].ejections++;
	weir_tables_set_ejected(outliers->tables, watched->members[i].id, true);
	snprintf(what, sizeof(what), "ejected for %s: %s, %s",
		weir_duration_text(length_ms, length),
		weir_ejection_reason_text((enum weir_ejection_reason)backend->reason), why);
	note(outliers, watched->members[i].id, WEIR_LOG_WARN, what);
}

// Returns the index of the backend to eject next: of all backends that are to be ejected, the
// backend with the largest share of failures. Returns watched->count if there is no such backend.
static uint32_t worst(const struct watched *watched) {
	uint32_t found = watched->count;
	double most = -1;

	for (uint32_t i = 0; i < watched->count; i++) {
		const struct weir_ejection_backend *backend = &watched->backends[i];
		double share;

		if (backend->reason == WEIR_EJECTION_NONE || weir_ejection_is(backend)) {
			continue;
		}
		share = (double)backend->judged.failed /
			(double)(backend->judged.failed + backend->judged.established);
		if (share > most) {
			most = share;
			found = i;
		}
	}
	return found;
}

static bool look_at(struct weir_outliers *outliers, struct watched *watched, uint64_t now_ms) {
	const struct weir_segment *segment = weir_tables_segment(outliers->tables);
	bool changed = false;
	uint32_t i;

	for (i = 0; i < watched->count; i++) {
		struct weir_ejection_backend *backend = &watched->backends[i];
		struct weir_backend_state state = {0};

		backend->candidate = weir_tables_backend(outliers->tables, watched->members[i].id,
					     &state) == 0 &&
				     state.in_selection;
		backend->count = count_of(segment, watched->members[i].id);
		if (weir_ejection_over(backend, now_ms)) {
			weir_tables_set_ejected(outliers->tables, watched->members[i].id, false);
			note(outliers, watched->members[i].id, WEIR_LOG_INFO, "ejection has ended");
			changed = true;
		}
	}
	weir_ejection_look(
		&watched->settings, &watched->ejection, watched->backends, watched->count, now_ms);
	while ((i = worst(watched)) < watched->count &&
		weir_ejection_allowed(&watched->settings, watched->backends, watched->count)) {
		if (weir_tables_may_eject(outliers->tables, watched->members[i].id)) {
			eject(outliers, watched, i, now_ms);
			changed = true;
		}
		watched->backends[i].reason = WEIR_EJECTION_NONE;
	}
	return changed;
}

bool weir_outliers_second(struct weir_outliers *outliers, uint64_t now_ms) {
	bool changed = false;

	if (outliers->tables == NULL || weir_tables_segment(outliers->tables) == NULL) {
		return false;
	}
	for (uint32_t i = 0; i < outliers->count; i++) {
		changed |= look_at(outliers, &outliers->watched[i], now_ms);
	}
	return changed;
}

// --- status and operators -------------------------------------------------------------------

static struct watched *find_backend(
	const struct weir_outliers *outliers, uint16_t id, uint32_t *ret_index) {
	if (id >= outliers->ids || outliers->places[id].service == 0) {
		return NULL;
	}
	*ret_index = outliers->places[id].member;
	return &outliers->watched[outliers->places[id].service - 1];
}

void weir_outliers_unreachable(struct weir_outliers *outliers, uint16_t id,
	enum weir_unreachable_kind kind, uint32_t flow, uint64_t now_ms) {
	uint32_t i;
	struct watched *watched = find_backend(outliers, id, &i);

	if (watched != NULL) {
		weir_ejection_record_unreachable(
			&watched->settings, &watched->backends[i], flow, now_ms);
		watched->members[i].unreachable = (uint8_t)kind;
	}
}

void weir_outliers_readmit(struct weir_outliers *outliers, uint16_t id) {
	uint32_t i;
	struct watched *watched = find_backend(outliers, id, &i);

	if (watched != NULL && weir_ejection_over(&watched->backends[i], UINT64_MAX)) {
		weir_tables_set_ejected(outliers->tables, id, false);
		note(outliers, id, WEIR_LOG_INFO, "ejection was ended by an operator");
	}
}

int weir_outliers_status(const struct weir_outliers *outliers, uint16_t id, uint64_t now_ms,
	struct weir_outliers_status *ret) {
	uint32_t i;
	const struct watched *watched = find_backend(outliers, id, &i);

	if (watched == NULL) {
		return -ENOENT;
	}
	*ret = (struct weir_outliers_status){.ejections = watched->members[i].ejections};
	if (weir_ejection_is(&watched->backends[i])) {
		uint64_t until_ms = watched->backends[i].until_ms;

		ret->left_ms = until_ms > now_ms ? until_ms - now_ms : 1;
	}
	return 0;
}
