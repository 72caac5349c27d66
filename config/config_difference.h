// SPDX-License-Identifier: BSD-3-Clause
//
// Difference between two configurations: a list of the changes that a reload would make or has
// made. Changes are in the order of the table of keys. Elements of lists are matched by their
// identity, such as their name, and are in the order of the file, removed elements first.
//
// Threads: any; no shared state.
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "config.h"
#include "json_reader.h"

// X(NAME, "kind in JSON")
#define WEIR_CHANGE_KINDS(X) X(ADD, "add") X(REMOVE, "remove") X(CHANGE, "change")

enum weir_change_kind {
#define X(name, key) WEIR_CHANGE_##name,
	WEIR_CHANGE_KINDS(X)
#undef X
};

#define WEIR_CHANGE_RESTART "needs a restart of weir-dataplane"
#define WEIR_CHANGE_TAKEN_BACK "cancels a change that was pending until a restart of weir-dataplane"

// Effect of a change on open flows. X(NAME, "effect in JSON")
#define WEIR_CHANGE_EFFECTS(X) \
	X(NONE, "none") /* flows continue, or there are no flows */ \
	X(STAY, "stay") /* flows stay with the removed object until they end */ \
	X(MOVE, "move") /* some or all flows move to other backends */ \
	X(BREAK, "break") /* some or all flows end */

enum weir_change_effect {
#define X(name, key) WEIR_CHANGE_##name,
	WEIR_CHANGE_EFFECTS(X)
#undef X
};

// The effect of a change on open flows. If the change needs a restart, this is the effect of the
// restart, which applies all such changes together.
struct weir_change_cost {
	enum weir_change_effect effect;
	uint64_t flows; // open flows that stay, move or break
	char *text; // "3 open flows stay until they end"; NULL: no flows, or unknown
};

struct weir_change {
	enum weir_change_kind kind;
	bool needs_restart; // the dataplane reads the value only at its start
	bool taken_back; // the file has the running value again, so no restart is needed
	const char *key; // borrowed from the table of keys; for an element, the key of its list
	struct weir_change_cost cost; // set by weir-control, which has the number of flows
	char *what; // "service web backend web-5 weight"
	// NULL with WEIR_CHANGE_ADD, or for an element without a description (a bind)
	char *from;
	char *to; // NULL with WEIR_CHANGE_REMOVE, or for an element without a description
};

struct weir_difference {
	struct weir_change *change;
	uint32_t count;
};

// Compare two configurations, or two structs that were read with another table of keys. Returns 0
// or -ENOMEM.
int weir_config_compare(
	const struct weir_config *from, const struct weir_config *to, struct weir_difference *ret);
int weir_difference_compute(const struct weir_json_object *keys, const void *from, const void *to,
	struct weir_difference *ret);
void weir_difference_fini(struct weir_difference *difference); // a zeroed struct is allowed
// Remove the changes that a reload applies, and keep the changes that need a restart.
void weir_difference_keep_restarts(struct weir_difference *difference);
// Add the changes that cancel pending changes. waiting: the pending changes, which need a restart.
// A pending change that is not in the difference is cancelled: the file has the running value
// again. The added change is from the pending value to the running value, with taken_back set. The
// texts of a cancelled change are moved out of `waiting`. Returns 0 or -ENOMEM (no change is
// added).
int weir_difference_take_back(struct weir_difference *difference, struct weir_difference *waiting);

// Array of {kind, what, from?, to?, note?, cost?: {effect, flows, text}}. NULL: out of memory.
json_t *weir_difference_json(const struct weir_difference *difference);
// Writes a change as "change service web backend web-1 weight: 100 -> 50", with note and cost in
// parentheses. The text is truncated to the size of the buffer. Returns buffer.
const char *weir_change_format(const struct weir_change *change, char *buffer, size_t bytes);

// Returns the bind that a change adds to a service, or removes from it, such as
// "tcp 198.51.100.10:80"; borrowed. NULL = the change neither adds nor removes a bind.
const char *weir_change_bind(const struct weir_change *change);

// Copies from `running` into `to` all values that need a restart when they change. Other values of
// `to` are unchanged. A list that needs a restart when it changes gets the elements of the list in
// `running`. If an element is in both lists, `to` keeps the values of the element that need no
// restart. Returns 0 or -ENOMEM (`to` is unchanged).
int weir_config_keep_running(struct weir_config *to, const struct weir_config *running);
int weir_difference_keep_running(
	const struct weir_json_object *keys, void *to, const void *running);
