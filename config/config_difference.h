// SPDX-License-Identifier: BSD-3-Clause
//
// Difference between two configurations, as a list of changes: what a reload would do, or did. It
// follows the table of keys, in the table's order; list elements are matched by their identity, in
// the file's order.
//
// Threads: any. Pure.
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
#define WEIR_CHANGE_TAKEN_BACK "takes back a change that waited for a restart of weir-dataplane"

// What happens to open flows. X(NAME, "effect in JSON")
#define WEIR_CHANGE_EFFECTS(X) \
	X(NONE, "none") /* they go on, or there are none */ \
	X(STAY, "stay") /* with what is removed, until they end */ \
	X(MOVE, "move") /* some or all, to other backends */ \
	X(BREAK, "break") /* some or all end */

enum weir_change_effect {
#define X(name, key) WEIR_CHANGE_##name,
	WEIR_CHANGE_EFFECTS(X)
#undef X
};

// Of a change that needs a restart: what that restart costs, together with all other changes.
struct weir_change_cost {
	enum weir_change_effect effect;
	uint64_t flows; // open flows that stay, move or break
	char *text; // "3 open flows stay until they end"; NULL: costs no flows, or unknown
};

struct weir_change {
	enum weir_change_kind kind;
	bool needs_restart; // read by the dataplane at its start: not applied by a reload
	bool taken_back; // it waited for a restart, and the file has what runs again
	const char *key; // borrowed: of the table of keys; of an element, that of its list
	struct weir_change_cost cost; // set by control, which has the flows
	char *what; // "service web backend web-5 weight"
	char *from; // NULL with WEIR_CHANGE_ADD
	char *to; // NULL with WEIR_CHANGE_REMOVE
};

struct weir_difference {
	struct weir_change *change;
	uint32_t count;
};

// Compare by the configuration's own table, or by another one with two structs read by it. Returns
// 0 or -ENOMEM.
int weir_config_compare(
	const struct weir_config *from, const struct weir_config *to, struct weir_difference *ret);
int weir_difference_compute(const struct weir_json_object *keys, const void *from, const void *to,
	struct weir_difference *ret);
void weir_difference_fini(struct weir_difference *difference); // a zeroed struct is allowed
// Remove the changes that a reload applies.
void weir_difference_keep_restarts(struct weir_difference *difference);
// Add the changes of `waiting` that the difference has nothing of, the other way round and as taken
// back: from what waited to what runs. Takes their texts. Returns 0 or -ENOMEM (nothing is added).
int weir_difference_take_back(struct weir_difference *difference, struct weir_difference *waiting);

// Array of {kind, what, from?, to?, note?, cost?: {effect, flows, text}}. NULL: out of memory.
json_t *weir_difference_json(const struct weir_difference *difference);
// "change service web backend web-1 weight: 100 -> 50", then note and cost in parentheses.
// Truncated to bytes. Returns buffer.
const char *weir_change_format(const struct weir_change *change, char *buffer, size_t bytes);

// Copy everything that needs a restart from `running` into `to`; the rest stays. A list that needs
// a restart gets the elements of `running`; an element that `to` has, too, keeps its values that
// need no restart. Returns 0 or -ENOMEM (to is unchanged).
int weir_config_keep_running(struct weir_config *to, const struct weir_config *running);
int weir_difference_keep_running(
	const struct weir_json_object *keys, void *to, const void *running);
