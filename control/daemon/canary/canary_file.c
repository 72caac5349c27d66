// SPDX-License-Identifier: BSD-3-Clause
#include "canary_file.h"

#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon_options.h"
#include "tables.h"
#include "text_file.h"

#define NAME WEIR_CONTROL_DIR "/canaries.json"
#define VERSION 1
// Maximum size of the file; WEIR_SERVICES_MAX canaries with the longest names take 6 MB.
#define BYTES_MOST (16u << 20)

static const char *const states[] = {
#define X(name, key) [WEIR_CANARY_##name] = key,
	WEIR_CANARY_STATES(X)
#undef X
};

const char *weir_canary_state_name(enum weir_canary_state state) {
	return state < WEIR_CANARY_STATE_COUNT ? states[state] : "unknown";
}

// --- reading --------------------------------------------------------------------------------

static bool read_name(const json_t *object, const char *key, char name[WEIR_CONFIG_NAME_BYTES]) {
	const char *text = json_string_value(json_object_get(object, key));

	if (text == NULL || text[0] == '\0' || strlen(text) >= WEIR_CONFIG_NAME_BYTES) {
		return false;
	}
	memcpy(name, text, strlen(text) + 1);
	return true;
}

static double number(const json_t *object, const char *key) {
	return json_number_value(json_object_get(object, key));
}

static uint64_t count(const json_t *object, const char *key) {
	json_int_t value = json_integer_value(json_object_get(object, key));

	return value > 0 ? (uint64_t)value : 0;
}

static bool read_plan(const json_t *object, struct weir_canary_plan *plan) {
	const json_t *steps = json_object_get(object, "steps");
	char why[WEIR_CANARY_WHY_BYTES];

	*plan = (struct weir_canary_plan){.steps = (uint32_t)json_array_size(steps),
		.every_ms = number(object, "every_ms"),
		.error_ratio = number(object, "max_error_ratio"),
		.latency_ratio = number(object, "max_latency_ratio"),
		.min_requests = number(object, "min_requests")};
	for (uint32_t i = 0; i < plan->steps && i < WEIR_CANARY_STEPS_MOST; i++) {
		plan->percent[i] = json_number_value(json_array_get(steps, i));
	}
	return weir_canary_plan_check(plan, why, sizeof(why)) == 0;
}

static bool read_state(const json_t *object, uint8_t *ret) {
	const char *text = json_string_value(json_object_get(object, "state"));

	for (uint8_t i = 0; text != NULL && i < WEIR_CANARY_STATE_COUNT; i++) {
		if (strcmp(text, states[i]) == 0) {
			*ret = i;
			return true;
		}
	}
	return false;
}

static bool read_record(const json_t *object, struct weir_canary_record *ret) {
	const char *why = json_string_value(json_object_get(object, "why"));
	const json_t *weight = json_object_get(object, "weight");

	*ret = (struct weir_canary_record){.step = (uint32_t)count(object, "step"),
		.weight = json_is_integer(weight) ? (uint32_t)count(object, "weight")
						  : WEIR_WEIGHT_UNSET,
		.started_ms = count(object, "started_ms"),
		.ended_ms = count(object, "ended_ms"),
		.who = {.known = true,
			.uid = (uid_t)count(object, "uid"),
			.gid = (gid_t)count(object, "gid"),
			.pid = (pid_t)count(object, "pid")}};
	snprintf(ret->why, sizeof(ret->why), "%s", why != NULL ? why : "");
	return read_name(object, "service", ret->service) &&
	       read_name(object, "backend", ret->backend) && read_plan(object, &ret->plan) &&
	       read_state(object, &ret->state) && ret->step < ret->plan.steps &&
	       (ret->weight <= WEIR_CANARY_WEIGHT_MOST || ret->weight == WEIR_WEIGHT_UNSET);
}

// Parse the list of canaries. Returns 0, -EINVAL or -ENOMEM.
static int read_list(const json_t *list, struct weir_canary_record **ret, uint32_t *ret_count) {
	const size_t n = json_array_size(list);
	struct weir_canary_record *records;

	if (!json_is_array(list) || n > WEIR_SERVICES_MAX) {
		return -EINVAL;
	}
	records = calloc(n + 1, sizeof(*records));
	if (records == NULL) {
		return -ENOMEM;
	}
	for (size_t i = 0; i < n; i++) {
		if (!read_record(json_array_get(list, i), &records[i])) {
			free(records);
			return -EINVAL;
		}
	}
	*ret = records;
	*ret_count = (uint32_t)n;
	return 0;
}

int weir_canary_file_read(
	const char *run_dir, struct weir_canary_record **ret, uint32_t *ret_count) {
	char path[PATH_MAX], *text;
	size_t bytes;
	json_t *json;
	int r;

	if (snprintf(path, sizeof(path), "%s/" NAME, run_dir) >= (int)sizeof(path)) {
		return -ENAMETOOLONG;
	}
	r = weir_text_file_read_own(path, BYTES_MOST, &text, &bytes);
	if (r < 0) {
		return r;
	}
	json = json_loadb(text, bytes, 0, NULL);
	free(text);
	r = number(json, "version") == VERSION
		    ? read_list(json_object_get(json, "canaries"), ret, ret_count)
		    : -EINVAL;
	json_decref(json);
	return r;
}

// --- writing --------------------------------------------------------------------------------

static json_t *json_record(const struct weir_canary_record *record) {
	json_t *steps = json_array();

	for (uint32_t i = 0; i < record->plan.steps; i++) {
		json_array_append_new(steps, json_real(record->plan.percent[i]));
	}
	return json_pack("{s:s, s:s, s:o, s:f, s:f, s:f, s:f, s:I, s:s, s:o, s:s, s:I, s:I, s:I, "
			 "s:I, s:I}",
		"service", record->service, "backend", record->backend, "steps", steps, "every_ms",
		record->plan.every_ms, "max_error_ratio", record->plan.error_ratio,
		"max_latency_ratio", record->plan.latency_ratio, "min_requests",
		record->plan.min_requests, "step", (json_int_t)record->step, "state",
		states[record->state], "weight",
		record->weight == WEIR_WEIGHT_UNSET ? json_null()
						    : json_integer((json_int_t)record->weight),
		"why", record->why, "started_ms", (json_int_t)record->started_ms, "ended_ms",
		(json_int_t)record->ended_ms, "uid", (json_int_t)record->who.uid, "gid",
		(json_int_t)record->who.gid, "pid", (json_int_t)record->who.pid);
}

// Returns the text of the file, or NULL if out of memory. The caller frees it.
static char *text_of(const struct weir_canary_record *records, uint32_t records_n) {
	json_t *list = json_array(), *json;
	char *text = NULL;
	bool whole = list != NULL;

	for (uint32_t i = 0; i < records_n; i++) {
		whole &= json_array_append_new(list, json_record(&records[i])) == 0;
	}
	json = json_pack("{s:i, s:o}", "version", VERSION, "canaries", list);
	if (json != NULL && whole) {
		text = json_dumps(json, JSON_INDENT(1));
	}
	json_decref(json);
	return text;
}

int weir_canary_file_write(
	const char *run_dir, const struct weir_canary_record *records, uint32_t records_n) {
	char path[PATH_MAX], *text;
	int r;

	if (records_n > WEIR_SERVICES_MAX) {
		return -E2BIG;
	}
	if (snprintf(path, sizeof(path), "%s/" NAME, run_dir) >= (int)sizeof(path)) {
		return -ENAMETOOLONG;
	}
	text = text_of(records, records_n);
	if (text == NULL) {
		return -ENOMEM;
	}
	r = weir_text_file_replace(path, text);
	free(text);
	return r;
}
