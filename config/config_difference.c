// SPDX-License-Identifier: BSD-3-Clause
#include "config_difference.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config_keys.h"

// enough for a command of 1,024 bytes, with escapes and quotes
#define TEXT_BYTES 2200
#define WHAT_BYTES 640
// Shown instead of a secret value, because differences are logged and shown to users who cannot
// read the configuration file.
#define HIDDEN "hidden"

struct collector {
	struct weir_difference difference;
	uint32_t room;
	// True inside a renamed element: the new name and all changes in the element need a
	// restart.
	bool renamed;
	bool failed; // out of memory
};

// A struct that is compared: its name in the text of a change, and its old and its new version.
struct pair {
	const char *what;
	const char *from, *to;
};

static void compare_objects(struct collector *collector, const struct weir_json_object *object,
	const struct pair *pair);

// Adds a change. from NULL: the old configuration has no such value. to NULL: the new configuration
// has no such value.
static void note(struct collector *collector, enum weir_change_kind kind,
	const struct weir_json_key *key, const char *what, const char *from, const char *to) {
	struct weir_difference *difference = &collector->difference;
	struct weir_change change = {.kind = kind,
		.needs_restart = collector->renamed || key->needs == WEIR_JSON_NEEDS_RESTART,
		.key = key->key};

	if (difference->count == collector->room) {
		uint32_t room = collector->room * 2 + 16;
		struct weir_change *grown =
			realloc(difference->change, room * sizeof(difference->change[0]));

		if (grown == NULL) {
			collector->failed = true;
			return;
		}
		difference->change = grown;
		collector->room = room;
	}
	change.what = strdup(what);
	change.from = from != NULL ? strdup(from) : NULL;
	change.to = to != NULL ? strdup(to) : NULL;
	if (change.what == NULL || (from != NULL && change.from == NULL) ||
		(to != NULL && change.to == NULL)) {
		collector->failed = true;
	}
	difference->change[difference->count++] = change;
}

static void join(char what[WHAT_BYTES], const char *of, const char *name) {
	snprintf(what, WHAT_BYTES, "%s%s%s", of, of[0] != '\0' ? " " : "", name);
}

// Returns the text of a value in a change; "none" for an empty string, such as a file that is not
// set.
static const char *shown(const struct weir_json_key *key, const char *value) {
	return key->secret ? HIDDEN : value[0] != '\0' ? value : "none";
}

static void compare_value(
	struct collector *collector, const struct weir_json_key *key, const struct pair *pair) {
	char before[TEXT_BYTES], after[TEXT_BYTES], what[WHAT_BYTES];

	key->type->format(key, pair->from, before, sizeof(before));
	key->type->format(key, pair->to, after, sizeof(after));
	if (strcmp(before, after) != 0) {
		join(what, pair->what, key->key);
		note(collector, WEIR_CHANGE_CHANGE, key, key->names_object ? pair->what : what,
			shown(key, before), shown(key, after));
	}
}

// --- lists --------------------------------------------------------------------------------

struct element {
	char identity[WEIR_JSON_IDENTITY_BYTES];
	const char *at;
};

struct list {
	const char *at; // first element of the list
	uint32_t count;
	size_t bytes; // size of an element
	// sorted by identity, so that lists with 10,000 backends are compared quickly
	struct element *sorted;
};

static int order_elements(const void *a, const void *b) {
	return strcmp(((const struct element *)a)->identity, ((const struct element *)b)->identity);
}

static struct list get_list(const struct weir_json_key *key, const char *from) {
	struct list list = {.bytes = key->object->bytes};

	memcpy(&list.at, from + key->offset, sizeof(list.at));
	memcpy(&list.count, from + key->offset2, sizeof(list.count));
	return list;
}

static bool sort_list(struct list *list, const struct weir_json_object *object) {
	list->sorted = calloc(list->count > 0 ? list->count : 1, sizeof(list->sorted[0]));
	if (list->sorted == NULL) {
		return false;
	}
	for (uint32_t i = 0; i < list->count; i++) {
		list->sorted[i].at = list->at + i * list->bytes;
		object->identify(list->sorted[i].at, list->sorted[i].identity,
			sizeof(list->sorted[i].identity));
	}
	qsort(list->sorted, list->count, sizeof(list->sorted[0]), order_elements);
	return true;
}

static const char *find_element(const struct list *list, const struct element *wanted) {
	const struct element *found =
		bsearch(wanted, list->sorted, list->count, sizeof(list->sorted[0]), order_elements);

	return found != NULL ? found->at : NULL;
}

// Makes the name of an element, such as "service web", from the kind of object and its identity.
static void name_element(char what[WHAT_BYTES], const char *of,
	const struct weir_json_object *object, const char *identity) {
	char name[2 * WEIR_JSON_IDENTITY_BYTES];

	snprintf(name, sizeof(name), "%s %s", object->name, identity);
	join(what, of, name);
}

static void note_element(struct collector *collector, const struct weir_json_key *key,
	enum weir_change_kind kind, const char *of, const struct element *element) {
	char what[WHAT_BYTES], text[TEXT_BYTES];
	const char *described = NULL;

	name_element(what, of, key->object, element->identity);
	if (key->object->describe != NULL) {
		key->object->describe(element->at, text, sizeof(text));
		described = text;
	}
	note(collector, kind, key, what, kind == WEIR_CHANGE_REMOVE ? described : NULL,
		kind == WEIR_CHANGE_ADD ? described : NULL);
}

static bool has(const struct list *list, const char *identity) {
	struct element element;

	snprintf(element.identity, sizeof(element.identity), "%s", identity);
	return find_element(list, &element) != NULL;
}

// If the element `at` was renamed, returns its element in the other list, otherwise NULL. The
// caller has checked that the other list has no element with the name of `at`. The element was
// renamed if both lists have an element with the same description at this index, and each of the
// two names is in one list only. Elements of unordered lists, and elements without a description,
// are never treated as renamed.
static const char *renamed_as(const struct weir_json_object *object, const struct list *list,
	const struct list *other, const char *at) {
	const size_t offset = (size_t)(at - list->at);
	char name[WEIR_JSON_IDENTITY_BYTES], text[TEXT_BYTES], other_text[TEXT_BYTES];
	const char *there;

	if (!object->ordered || object->describe == NULL || offset / list->bytes >= other->count) {
		return NULL;
	}
	there = other->at + offset;
	object->identify(there, name, sizeof(name));
	object->describe(at, text, sizeof(text));
	object->describe(there, other_text, sizeof(other_text));
	return has(list, name) || strcmp(text, other_text) != 0 ? NULL : there;
}

// Adds a change for each index at which the two lists have different elements. Changes for added
// and removed elements already exist, so this function skips lists of different length, and indexes
// with an added or removed element.
static void compare_order(struct collector *collector, const struct weir_json_key *key,
	const char *of, const struct list *from, const struct list *to) {
	char before[WEIR_JSON_IDENTITY_BYTES], after[WEIR_JSON_IDENTITY_BYTES];
	char what[WHAT_BYTES], number[32];

	for (uint32_t i = 0; from->count == to->count && i < from->count; i++) {
		key->object->identify(from->at + i * from->bytes, before, sizeof(before));
		key->object->identify(to->at + i * to->bytes, after, sizeof(after));
		if (strcmp(before, after) != 0 && has(to, before) && has(from, after)) {
			snprintf(number, sizeof(number), "number %u", i);
			name_element(what, of, key->object, number);
			note(collector, WEIR_CHANGE_CHANGE, key, what, before, after);
		}
	}
}

static void compare_elements(struct collector *collector, const struct weir_json_key *key,
	const char *of, const struct list *from, const struct list *to) {
	const struct weir_json_object *object = key->object;
	const bool renamed = collector->renamed; // the list is inside a renamed element
	struct element element;
	char what[WHAT_BYTES];

	for (uint32_t i = 0; i < from->count; i++) {
		element.at = from->at + i * from->bytes;
		object->identify(element.at, element.identity, sizeof(element.identity));
		if (find_element(to, &element) == NULL &&
			renamed_as(object, from, to, element.at) == NULL) {
			note_element(collector, key, WEIR_CHANGE_REMOVE, of, &element);
		}
	}
	for (uint32_t i = 0; i < to->count; i++) {
		struct pair pair = {.what = what};

		element.at = to->at + i * to->bytes;
		object->identify(element.at, element.identity, sizeof(element.identity));
		pair.from = find_element(from, &element);
		if (pair.from == NULL) {
			pair.from = renamed_as(object, to, from, element.at);
			collector->renamed |= pair.from != NULL;
		}
		pair.to = element.at;
		if (pair.from == NULL) {
			note_element(collector, key, WEIR_CHANGE_ADD, of, &element);
		} else {
			name_element(what, of, object, element.identity);
			compare_objects(collector, object, &pair);
			collector->renamed = renamed;
		}
	}
}

static void compare_lists(
	struct collector *collector, const struct weir_json_key *key, const struct pair *pair) {
	struct list from = get_list(key, pair->from), to = get_list(key, pair->to);

	if (sort_list(&from, key->object) && sort_list(&to, key->object)) {
		compare_elements(collector, key, pair->what, &from, &to);
	} else {
		collector->failed = true;
	}
	if (key->object->ordered && !collector->failed) {
		compare_order(collector, key, pair->what, &from, &to);
	}
	free(from.sorted);
	free(to.sorted);
}

// ------------------------------------------------------------------------------------------

// Writes all values of an object as one text, such as "port 4777, interval_ms 500".
static void describe_values(
	const struct weir_json_object *object, const char *at, char text[TEXT_BYTES]) {
	char value[TEXT_BYTES];
	size_t used = 0;

	text[0] = '\0';
	for (uint32_t i = 0; i < object->count && used < TEXT_BYTES; i++) {
		const struct weir_json_key *key = &object->key[i];

		if (key->type->format != NULL) {
			key->type->format(key, at, value, sizeof(value));
		}
		if (key->type->format != NULL && value[0] != '\0') {
			used += (size_t)snprintf(text + used, TEXT_BYTES - used, "%s%s %s",
				used > 0 ? ", " : "", key->key, value);
		}
	}
}

// Returns the struct of a key with an object; NULL = the file lacks the object.
static const char *get_struct(const struct weir_json_key *key, const char *from) {
	const struct weir_json_object *object = key->object;
	const char *at = from + key->offset;

	if (key->type == &weir_json_type_optional) {
		memcpy(&at, from + key->offset, sizeof(at));
	}
	return at != NULL && object->is_absent != NULL && object->is_absent(at) ? NULL : at;
}

static void compare_structs(
	struct collector *collector, const struct weir_json_key *key, const struct pair *pair) {
	const struct weir_json_object *object = key->object;
	char what[WHAT_BYTES], text[TEXT_BYTES];
	const struct pair inside = {
		.what = what, .from = get_struct(key, pair->from), .to = get_struct(key, pair->to)};
	const bool absent = inside.from == NULL, removed = inside.to == NULL;

	join(what, pair->what, key->key);
	if (absent != removed) {
		if (object->describe != NULL) {
			object->describe(absent ? inside.to : inside.from, text, sizeof(text));
		} else {
			describe_values(object, absent ? inside.to : inside.from, text);
		}
		note(collector, absent ? WEIR_CHANGE_ADD : WEIR_CHANGE_REMOVE, key, what,
			absent ? NULL : text, absent ? text : NULL);
	} else if (!absent) {
		compare_objects(collector, object, &inside);
	}
}

static void compare_objects(struct collector *collector, const struct weir_json_object *object,
	const struct pair *pair) {
	for (uint32_t i = 0; i < object->count; i++) {
		const struct weir_json_key *key = &object->key[i];

		if (key->type == &weir_json_type_struct || key->type == &weir_json_type_optional) {
			compare_structs(collector, key, pair);
		} else if (key->type == &weir_json_type_list) {
			compare_lists(collector, key, pair);
		} else if (key->type->format != NULL) {
			compare_value(collector, key, pair);
		}
	}
}

int weir_difference_compute(const struct weir_json_object *keys, const void *from, const void *to,
	struct weir_difference *ret) {
	const struct pair pair = {.what = "", .from = from, .to = to};
	struct collector collector = {0};

	compare_objects(&collector, keys, &pair);
	if (collector.failed) {
		weir_difference_fini(&collector.difference);
		return -ENOMEM;
	}
	*ret = collector.difference;
	return 0;
}

int weir_config_compare(
	const struct weir_config *from, const struct weir_config *to, struct weir_difference *ret) {
	return weir_difference_compute(&weir_config_keys, from, to, ret);
}

static void free_change(struct weir_change *change) {
	free(change->what);
	free(change->from);
	free(change->to);
	free(change->cost.text);
}

void weir_difference_keep_restarts(struct weir_difference *difference) {
	uint32_t kept = 0;

	for (uint32_t i = 0; i < difference->count; i++) {
		if (difference->change[i].needs_restart) {
			difference->change[kept++] = difference->change[i];
		} else {
			free_change(&difference->change[i]);
		}
	}
	difference->count = kept;
}

// Returns whether the difference contains a change that needs a restart, of this value or of an
// object that contains this value.
static bool waits_still(const struct weir_difference *difference, const char *what) {
	for (uint32_t i = 0; i < difference->count; i++) {
		const struct weir_change *change = &difference->change[i];
		const size_t length = strlen(change->what);

		if (change->needs_restart && strncmp(change->what, what, length) == 0 &&
			(what[length] == '\0' || what[length] == ' ')) {
			return true;
		}
	}
	return false;
}

static struct weir_change reversed(const struct weir_change *change) {
	return (struct weir_change){.kind = change->kind == WEIR_CHANGE_ADD ? WEIR_CHANGE_REMOVE
					    : change->kind == WEIR_CHANGE_REMOVE
						    ? WEIR_CHANGE_ADD
						    : WEIR_CHANGE_CHANGE,
		.taken_back = true,
		.key = change->key,
		.what = change->what,
		.from = change->to,
		.to = change->from};
}

int weir_difference_take_back(struct weir_difference *difference, struct weir_difference *waiting) {
	const uint32_t before = difference->count;
	struct weir_change *grown;
	uint32_t kept = 0;

	if (waiting->count == 0) {
		return 0;
	}
	grown = realloc(difference->change, ((size_t)before + waiting->count) * sizeof(*grown));
	if (grown == NULL) {
		return -ENOMEM;
	}
	difference->change = grown;
	for (uint32_t i = 0; i < waiting->count; i++) {
		struct weir_change *change = &waiting->change[i];

		if (waits_still(difference, change->what)) {
			waiting->change[kept++] = *change;
		} else {
			free(change->cost.text);
			grown[difference->count++] = reversed(change);
		}
	}
	waiting->count = kept;
	return 0;
}

void weir_difference_fini(struct weir_difference *difference) {
	for (uint32_t i = 0; i < difference->count; i++) {
		free_change(&difference->change[i]);
	}
	free(difference->change);
	*difference = (struct weir_difference){0};
}

// --- texts --------------------------------------------------------------------------------

static const char *kind_name(enum weir_change_kind kind) {
	switch (kind) {
#define X(name, key) \
	case WEIR_CHANGE_##name: \
		return key;
		WEIR_CHANGE_KINDS(X)
#undef X
	}
	return "change";
}

static const char *effect_name(enum weir_change_effect effect) {
	switch (effect) {
#define X(name, key) \
	case WEIR_CHANGE_##name: \
		return key;
		WEIR_CHANGE_EFFECTS(X)
#undef X
	}
	return "none";
}

// Returns the note that is shown after a change, or NULL.
static const char *note_of(const struct weir_change *change) {
	return change->needs_restart ? WEIR_CHANGE_RESTART
	       : change->taken_back  ? WEIR_CHANGE_TAKEN_BACK
				     : NULL;
}

static json_t *cost_json(const struct weir_change_cost *cost) {
	return cost->text == NULL
		       ? NULL
		       : json_pack("{s:s, s:I, s:s}", "effect", effect_name(cost->effect), "flows",
				 (json_int_t)cost->flows, "text", cost->text);
}

json_t *weir_difference_json(const struct weir_difference *difference) {
	json_t *list = json_array();

	for (uint32_t i = 0; i < difference->count; i++) {
		const struct weir_change *change = &difference->change[i];
		json_t *item = json_pack("{s:s, s:s, s:s*, s:s*, s:s*, s:o*}", "kind",
			kind_name(change->kind), "what", change->what, "from", change->from, "to",
			change->to, "note", note_of(change), "cost", cost_json(&change->cost));

		if (json_array_append_new(list, item) < 0) {
			json_decref(list);
			return NULL;
		}
	}
	return list;
}

const char *weir_change_bind(const struct weir_change *change) {
	static const char of_service[] = "service ", of_bind[] = " bind ";
	const char *bind;

	if (strncmp(change->what, of_service, strlen(of_service)) != 0) {
		return NULL;
	}
	bind = strstr(change->what + strlen(of_service), of_bind); // the service may be named bind
	return bind != NULL ? bind + strlen(of_bind) : NULL;
}

const char *weir_change_format(const struct weir_change *change, char *buffer, size_t bytes) {
	// a changed secret is shown once
	const bool both =
		change->from != NULL && change->to != NULL && strcmp(change->from, change->to) != 0;
	const char *before =
		change->from != NULL && (both || change->to == NULL) ? change->from : "";
	const char *after = change->to != NULL ? change->to : "";
	const char *note_text = note_of(change) != NULL ? note_of(change) : "";
	const char *cost = change->cost.text != NULL ? change->cost.text : "";

	snprintf(buffer, bytes, "%s %s%s%s%s%s%s%s%s%s%s", kind_name(change->kind), change->what,
		change->from != NULL || change->to != NULL ? ": " : "", before, both ? " -> " : "",
		after, note_text[0] != '\0' || cost[0] != '\0' ? " (" : "", note_text,
		note_text[0] != '\0' && cost[0] != '\0' ? "; " : "", cost,
		note_text[0] != '\0' || cost[0] != '\0' ? ")" : "");
	return buffer;
}

// --- the running configuration ------------------------------------------------------------

// Copies some values of an object, but no lists. restart: true = only the values that need a
// restart when they change, false = only the other values.
static void copy_values(
	const struct weir_json_object *object, char *to, const char *from, bool restart) {
	for (uint32_t i = 0; i < object->count; i++) {
		const struct weir_json_key *key = &object->key[i];

		if (key->type == &weir_json_type_struct) {
			copy_values(key->object, to + key->offset, from + key->offset, restart);
		} else if (key->type != &weir_json_type_list &&
			   (key->needs == WEIR_JSON_NEEDS_RESTART) == restart) {
			memcpy(to + key->offset, from + key->offset, key->bytes);
			memcpy(to + key->offset2, from + key->offset2, key->type->bytes2);
		}
	}
}

// Replaces the list `key` of `to` with the list of `from`. For elements that are in both lists,
// `to` keeps the values that need no restart when they change. Elements can be copied with memcpy:
// tests ensure that no element of such a list contains a list.
static int take_list(const struct weir_json_key *key, char *to, const char *from) {
	const struct weir_json_object *object = key->object;
	struct list wanted = get_list(key, to), running = get_list(key, from);
	char *copy = calloc(running.count > 0 ? running.count : 1, running.bytes);
	struct element element;

	if (copy == NULL || !sort_list(&wanted, object)) {
		free(copy);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < running.count; i++) {
		char *at = copy + i * running.bytes;
		const char *former;

		memcpy(at, running.at + i * running.bytes, running.bytes);
		object->identify(at, element.identity, sizeof(element.identity));
		former = find_element(&wanted, &element);
		if (former != NULL) {
			copy_values(object, at, former, false);
		}
	}
	free(wanted.sorted);
	free((void *)(uintptr_t)wanted.at);
	memcpy(to + key->offset, &copy, sizeof(copy));
	memcpy(to + key->offset2, &running.count, sizeof(running.count));
	return 0;
}

int weir_difference_keep_running(
	const struct weir_json_object *keys, void *to, const void *running) {
	// Only one list in the table of keys needs a restart when it changes. Therefore `to` is
	// still unchanged if take_list() fails.
	for (uint32_t i = 0; i < keys->count; i++) {
		const struct weir_json_key *key = &keys->key[i];

		if (key->type == &weir_json_type_list && key->needs == WEIR_JSON_NEEDS_RESTART &&
			take_list(key, to, running) < 0) {
			return -ENOMEM;
		}
	}
	copy_values(keys, to, running, true);
	return 0;
}

int weir_config_keep_running(struct weir_config *to, const struct weir_config *running) {
	return weir_difference_keep_running(&weir_config_keys, to, running);
}
