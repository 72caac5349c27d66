// SPDX-License-Identifier: BSD-3-Clause
//
// API handler of subsets: subset.show.
#include <stdlib.h>
#include <string.h>

#include "api_commands.h"
#include "api_show.h"
#include "daemon.h"

// Maximum number of members in one reply. A service with many workers and large subsets could have
// millions of members.
#define MEMBERS_MAX 10000u

static json_t *name_of(const struct weir_daemon *daemon, uint16_t backend) {
	const char *name = weir_tables_backend_name(daemon->tables, backend);

	return name != NULL ? json_string(name) : json_null();
}

static const char *state_of(const struct weir_subset_member *member) {
	return member->unusable                        ? "unusable"
	       : member->replaces != WEIR_BACKEND_NONE ? "replacement"
						       : "member";
}

static json_t *json_members(
	const struct weir_daemon *daemon, const struct weir_subset_member *members, uint32_t n) {
	json_t *list = json_array();

	for (uint32_t i = 0; i < n; i++) {
		struct weir_backend_state state = {.admin = UINT8_MAX, .health = UINT8_MAX};

		weir_tables_backend(daemon->tables, members[i].backend, &state);
		json_array_append_new(list,
			json_pack("{s:o, s:s, s:s, s:s, s:o}", "backend",
				name_of(daemon, members[i].backend), "state", state_of(&members[i]),
				"admin", weir_api_admin_name(state.admin), "health",
				weir_api_health_name(state.health), "replaces",
				name_of(daemon, members[i].replaces)));
	}
	return list;
}

// Returns a subset of this instance as JSON. members: buffer with room for all backends. room:
// number of members that still fit into the answer, reduced by this function; NULL = list no
// members, only counts.
static json_t *json_one(const struct weir_daemon *daemon, uint16_t service,
	const struct weir_subset_state *state, uint32_t subset, uint32_t *room,
	struct weir_subset_member *members) {
	int n = weir_tables_subset_members(daemon->tables, service, subset, members);
	uint32_t unusable = 0, replacements = 0;
	json_t *one;

	for (int i = 0; i < n; i++) {
		unusable += members[i].unusable;
		replacements += members[i].replaces != WEIR_BACKEND_NONE;
	}
	one = n < 0 ? NULL
		    : json_pack("{s:o, s:I, s:I, s:I, s:I}", "worker",
			      state->subsets > 1 ? json_integer(subset) : json_null(), "client",
			      (json_int_t)state->params.client + subset, "in_use",
			      (json_int_t)n - unusable, "unusable", (json_int_t)unusable,
			      "replacements", (json_int_t)replacements);
	if (one != NULL && room != NULL) {
		uint32_t shown = (uint32_t)n < *room ? (uint32_t)n : *room;

		*room -= shown;
		json_object_set_new(one, "members", json_members(daemon, members, shown));
		json_object_set_new(one, "members_omitted", json_integer(n - (json_int_t)shown));
	}
	return one;
}

// Returns statistics of the numbers of clients of all usable backends; null if all numbers are 0.
static json_t *json_summary(const struct weir_subset_count *counts, uint32_t n) {
	uint32_t least = UINT32_MAX, most = 0, usable = 0;
	uint64_t sum = 0;

	for (uint32_t i = 0; i < n; i++) {
		if (counts[i].usable) {
			usable++;
			sum += counts[i].clients;
			least = counts[i].clients < least ? counts[i].clients : least;
			most = counts[i].clients > most ? counts[i].clients : most;
		}
	}
	return sum == 0 ? json_null()
			: json_pack("{s:I, s:f, s:I}", "least", (json_int_t)least, "mean",
				  (double)sum / usable, "most", (json_int_t)most);
}

static void add_clients(const struct weir_daemon *daemon, uint16_t service,
	const struct weir_subset_state *state, json_t *object) {
	struct weir_subset_count *counts = calloc(state->backends + 1, sizeof(counts[0]));
	int n = counts != NULL ? weir_tables_subset_counts(daemon->tables, service, counts) : 0;
	bool counted = state->clients * state->backends <= WEIR_SUBSET_PAIRS_MAX;
	json_t *list = json_array();

	for (int i = 0; i < n; i++) {
		json_array_append_new(list,
			json_pack("{s:o, s:b, s:o}", "backend", name_of(daemon, counts[i].backend),
				"usable", (int)counts[i].usable, "clients",
				counted ? json_integer(counts[i].clients) : json_null()));
	}
	json_object_set_new(object, "clients_of_a_backend",
		counted ? json_summary(counts, n > 0 ? (uint32_t)n : 0) : json_null());
	json_object_set_new(object, "clients_of_backends", list);
	free(counts);
}

static json_t *json_service(struct weir_daemon *daemon, uint16_t service, bool in_full) {
	struct weir_service_state now = {.panic = false};
	struct weir_subset_member *members;
	struct weir_subset_state state;
	uint32_t room = MEMBERS_MAX;
	json_t *object, *subsets;

	if (weir_tables_subset(daemon->tables, service, &state) < 0) {
		return NULL;
	}
	members = calloc(state.backends + 1, sizeof(members[0]));
	if (members == NULL) {
		return NULL;
	}
	subsets = json_array();
	for (uint32_t i = 0; i < state.subsets; i++) {
		json_array_append_new(subsets,
			json_one(daemon, service, &state, i, in_full ? &room : NULL, members));
	}
	free(members);
	weir_tables_service(daemon->tables, service, &now);
	object = json_pack("{s:s, s:s, s:o, s:o, s:I, s:s, s:I, s:I, s:b, s:o}", "service",
		weir_tables_service_name(daemon->tables, service), "algorithm",
		weir_subset_name(state.params.algorithm), "mode",
		state.params.algorithm == WEIR_SUBSET_DETERMINISTIC
			? json_string(weir_subset_mode_name(state.params.mode))
			: json_null(),
		"size", state.params.size > 0 ? json_integer(state.params.size) : json_null(),
		"salt", (json_int_t)state.params.salt, "client_is",
		weir_subset_client_name(state.client), "clients", (json_int_t)state.clients,
		"backends", (json_int_t)state.backends, "panic", (int)now.panic, "subsets",
		subsets);
	if (object != NULL && in_full) {
		add_clients(daemon, service, &state, object);
	}
	return object;
}

void weir_api_subset_show(struct weir_daemon *daemon, struct weir_api_call *call) {
	const char *service = weir_api_text(call, "service");
	const struct weir_config *config = weir_reload_config(daemon->reload);
	json_t *list;

	if (!weir_api_has_tables(daemon, call) ||
		(service != NULL && weir_api_find_service(daemon, call) < 0)) {
		return;
	}
	list = json_array();
	for (uint32_t i = 0; i < config->service_count; i++) {
		const char *name = config->services[i].name;
		int id = weir_tables_service_find(daemon->tables, name);

		if (id >= 0 && (service == NULL || strcmp(service, name) == 0)) {
			json_array_append_new(
				list, json_service(daemon, (uint16_t)id, service != NULL));
		}
	}
	weir_api_answer(call, list);
}
