// SPDX-License-Identifier: BSD-3-Clause
#include "change_hand.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct list { // list of settings that are discarded
	const char *intro;
	char *text; // buffer of WEIR_CHANGE_HAND_BYTES
	size_t used;
	uint32_t count;
};

__attribute__((format(printf, 2, 3))) static void append(
	struct list *list, const char *format, ...) {
	size_t room = WEIR_CHANGE_HAND_BYTES - list->used, bytes;
	va_list arguments;

	va_start(arguments, format);
	bytes = (size_t)vsnprintf(list->text + list->used, room, format, arguments);
	va_end(arguments);
	list->used += bytes < room ? bytes : room - 1;
}

// Begins another item of the list. Returns false if the list is full; the item is then only
// counted.
static bool begin(struct list *list) {
	if (list->count++ >= WEIR_CHANGE_HAND_MOST) {
		return false;
	}
	if (list->count > 1) {
		append(list, ", ");
	} else {
		append(list, "%s%s", list->used > 0 ? "; " : "", list->intro);
	}
	return true;
}

static bool is(const struct weir_change_hand *hand, enum weir_change_kind kind, const char *key) {
	return hand->change->kind == kind && strcmp(hand->change->key, key) == 0;
}

static bool find(
	const struct weir_change_hand *hand, const char *backend, struct weir_backend_state *ret) {
	int id = weir_tables_backend_find(hand->tables, hand->service, backend);

	return id >= 0 && weir_tables_backend(hand->tables, (uint16_t)id, ret) == 0;
}

static const char *canary_of(const struct weir_change_hand *hand, const char *backend) {
	return hand->keeping_canary != NULL
		       ? hand->keeping_canary(hand->canaries, hand->service, backend)
		       : NULL;
}

// --- removals -----------------------------------------------------------------------------

static void add_state(struct list *list, const struct weir_backend_state *state) {
	char address[64];

	if (state->admin != WEIR_ADMIN_READY && begin(list)) {
		append(list, "%s of %s (%s)",
			state->admin == WEIR_ADMIN_DRAIN ? "drain" : "maintenance", state->name,
			weir_address_format(&state->address, address, sizeof(address)));
	}
}

static void add_weight(const struct weir_change_hand *hand, struct list *list,
	const struct weir_backend_state *state) {
	const char *canary;

	if (state->runtime_weight == WEIR_WEIGHT_UNSET || !begin(list)) {
		return;
	}
	canary = canary_of(hand, state->name);
	append(list, "weight %" PRIu32 " of %s", state->runtime_weight, state->name);
	if (canary != NULL) {
		append(list, " (%s canary)", canary);
	}
}

static void add_bind(
	const struct weir_change_hand *hand, struct list *list, uint16_t service, uint32_t bind) {
	char text[WEIR_BIND_TEXT_BYTES];

	if (weir_tables_bind_is_drained(hand->tables, service, bind) && begin(list)) {
		append(list, "drain of %s",
			weir_bind_format(&hand->from->binds[bind], text, sizeof(text)));
	}
}

static void add_policy(const struct weir_change_hand *hand, struct list *list, uint16_t service) {
	struct weir_service_state state;

	if (weir_tables_service(hand->tables, service, &state) == 0 &&
		state.runtime_policy != WEIR_POLICY_UNSET && begin(list)) {
		append(list, "policy %s", weir_policy_name((enum weir_policy)state.runtime_policy));
	}
}

// Adds all manual settings that are discarded when a service is removed. The list can be too short
// for all backends, so the backends that get no new flows are listed first.
static void add_service(const struct weir_change_hand *hand, struct list *list) {
	const struct weir_config_service *from = hand->from;
	int id = weir_tables_service_find(hand->tables, hand->service);
	struct weir_backend_state state;
	bool drains;

	if (from == NULL || id < 0) {
		return;
	}
	drains = weir_tables_drained_binds(hand->tables, (uint16_t)id) > 0;
	for (uint32_t i = 0; i < from->backend_count; i++) {
		if (find(hand, from->backends[i].name, &state)) {
			add_state(list, &state);
		}
	}
	for (uint32_t i = 0; drains && i < from->bind_count; i++) {
		add_bind(hand, list, (uint16_t)id, i);
	}
	add_policy(hand, list, (uint16_t)id);
	for (uint32_t i = 0; i < from->backend_count; i++) {
		if (find(hand, from->backends[i].name, &state)) {
			add_weight(hand, list, &state);
		}
	}
}

static void add_removed_bind(const struct weir_change_hand *hand, struct list *list) {
	const char *removed = weir_change_bind(hand->change);
	int id = weir_tables_service_find(hand->tables, hand->service);
	char text[WEIR_BIND_TEXT_BYTES];

	if (removed == NULL || hand->from == NULL || id < 0 ||
		weir_tables_drained_binds(hand->tables, (uint16_t)id) == 0) {
		return;
	}
	for (uint32_t i = 0; i < hand->from->bind_count; i++) {
		weir_bind_format(&hand->from->binds[i], text, sizeof(text));
		if (strcmp(text, removed) == 0) {
			add_bind(hand, list, (uint16_t)id, i);
		}
	}
}

// --- changes ------------------------------------------------------------------------------

static const struct weir_config_backend *find_backend(
	const struct weir_config_service *service, const char *name) {
	for (uint32_t i = 0; service != NULL && i < service->backend_count; i++) {
		if (strcmp(service->backends[i].name, name) == 0) {
			return &service->backends[i];
		}
	}
	return NULL;
}

// Adds a text about a weight that was set at run time: either the configured weight replaces it, or
// a canary keeps it. Called only if the configured weight or the address of the backend changes.
static void replace_weight(const struct weir_change_hand *hand, struct list *list) {
	const struct weir_config_backend *backend;
	struct weir_backend_state state;
	const char *canary;

	if (!find(hand, hand->backend, &state) || state.runtime_weight == WEIR_WEIGHT_UNSET) {
		return;
	}
	canary = canary_of(hand, hand->backend);
	backend = find_backend(hand->to, hand->backend);
	if (canary != NULL) {
		append(list, "the %s canary keeps weight %" PRIu32, canary, state.runtime_weight);
		if (strcmp(canary, "rolled-back") == 0) {
			append(list, "; to end this, run \"weirctl weight set %s/%s configured\"",
				hand->service, hand->backend);
		} else {
			append(list, " until it ends");
		}
	} else if (backend != NULL && backend->weight_auto) {
		append(list, "replaces the weight set by hand: %" PRIu32 " -> auto",
			state.runtime_weight);
	} else if (backend != NULL) {
		append(list, "replaces the weight set by hand: %" PRIu32 " -> %" PRIu32,
			state.runtime_weight, backend->weight);
	}
}

// Adds a text if the configured policy replaces a policy set at run time: the configured policy
// changes, or the configured settings are not valid for the policy set at run time.
static void replace_policy(const struct weir_change_hand *hand, struct list *list) {
	const struct weir_config_service *service = hand->to;
	int id = weir_tables_service_find(hand->tables, hand->service);
	struct weir_service_state state;

	if (service == NULL || id < 0 ||
		weir_tables_service(hand->tables, (uint16_t)id, &state) < 0 ||
		state.runtime_policy == WEIR_POLICY_UNSET ||
		(service->policy.name == (enum weir_policy)state.configured_policy &&
			weir_config_policy_misfit(
				service, (enum weir_policy)state.runtime_policy) == NULL)) {
		return;
	}
	append(list, "replaces the policy set by hand: %s -> %s",
		weir_policy_name((enum weir_policy)state.runtime_policy),
		weir_policy_name(service->policy.name));
}

// Returns whether a change affects the policy of the service, or a setting of the policy.
static bool is_of_policy(const struct weir_change_hand *hand) {
	size_t bytes = strlen("service ") + strlen(hand->service);
	const char *what = hand->change->what;

	return hand->change->kind == WEIR_CHANGE_CHANGE && hand->service[0] != '\0' &&
	       strlen(what) > bytes && strncmp(what + bytes, " policy", strlen(" policy")) == 0;
}

static void add_change(const struct weir_change_hand *hand, struct list *list) {
	const bool address = is(hand, WEIR_CHANGE_CHANGE, "address");
	struct weir_backend_state state;

	if (is_of_policy(hand)) {
		replace_policy(hand, list);
	}
	if (hand->backend[0] == '\0') {
		return;
	}
	if (address || is(hand, WEIR_CHANGE_CHANGE, "weight")) {
		replace_weight(hand, list);
	}
	// a backend with another address is another server, so its state is reset
	if (address && find(hand, hand->backend, &state)) {
		add_state(list, &state);
	}
}

const char *weir_change_hand_text(
	const struct weir_change_hand *hand, char text[WEIR_CHANGE_HAND_BYTES]) {
	// What is removed keeps its state until it has no flows: a drain goes on until then.
	struct list list = {.text = text,
		.intro = hand->change->kind == WEIR_CHANGE_REMOVE ? "not kept if it returns: "
								  : "ends: "};
	struct weir_backend_state state;

	text[0] = '\0';
	if (is(hand, WEIR_CHANGE_REMOVE, "services")) {
		add_service(hand, &list);
	} else if (is(hand, WEIR_CHANGE_REMOVE, "binds")) {
		add_removed_bind(hand, &list);
	} else if (is(hand, WEIR_CHANGE_REMOVE, "backends")) {
		if (find(hand, hand->backend, &state)) {
			add_state(&list, &state);
			add_weight(hand, &list, &state);
		}
	} else {
		add_change(hand, &list);
	}
	if (list.count > WEIR_CHANGE_HAND_MOST) {
		append(&list, " and %" PRIu32 " more", list.count - WEIR_CHANGE_HAND_MOST);
	}
	return text;
}
