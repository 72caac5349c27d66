// SPDX-License-Identifier: BSD-3-Clause
//
// A control process with one service, web, and a dataplane with little room: a heap of 256 KiB and
// 1,024 backend ids. Started for each test.
#pragma once

#include "daemon_web.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROOM "\"table_size\": 16381"
#define WEB(weight) \
	"{\"name\": \"web\", \"binds\": [{\"address\": \"198.51.100.10\", " \
	"\"protocol\": \"tcp\", \"port\": 80}], " ROOM ", \"backends\": [" \
	"{\"name\": \"w-1\", \"address\": \"10.0.1.11\", \"weight\": " weight "}, " \
	"{\"name\": \"w-2\", \"address\": \"10.0.1.12\"}"
#define TWO WEB("100") "]}"

static inline int small_start(void **state) {
	struct web *web = calloc(1, sizeof(*web));

	lab_init(&web->lab);
	lab_write_config(&web->lab, TWO);
	lab_start(&web->lab);
	web->dataplane = lab_dataplane_start_small(&web->lab, 2);
	LAB_UNTIL(lab_attached(&web->lab));
	*state = web;
	return 0;
}

static inline const char *not_published(json_t *answer) {
	assert_true(json_is_true(json_object_get(answer, "ok")));
	return json_string_value(json_object_get(answer, "not_published"));
}

static inline bool all_is_published(struct web *web) {
	json_t *answer = lab_ask(&web->lab, JSON({"command": "stats.show"}));
	bool all = not_published(answer) == NULL;

	assert_null(json_object_get(answer, "published"));
	json_decref(answer);
	return all;
}

// Set a weight. Returns whether it is published.
static inline bool set_weight(struct web *web, int weight) {
	json_t *answer = lab_ask(
		&web->lab, JSON({"command": "weight.set", "backend": "w-1", "weight": %d}), weight);
	bool published = not_published(answer) == NULL;

	assert_int_equal(published, json_object_get(answer, "published") == NULL);
	if (!published) {
		assert_non_null(strstr(not_published(answer), "a worker still uses"));
		assert_true(json_is_false(json_object_get(answer, "published")));
	}
	assert_int_equal(json_integer_value(json_object_get(
				 json_object_get(answer, "result"), "effective_weight")),
		weight);
	json_decref(answer);
	return published;
}

// Count the occurrences of a text in the log.
static inline unsigned int times_logged(const struct web *web, const char *text) {
	char line[1024];
	FILE *file = fopen(web->lab.log, "r");
	unsigned int n = 0;

	assert_non_null(file);
	while (fgets(line, sizeof(line), file) != NULL) {
		n += strstr(line, text) != NULL;
	}
	fclose(file);
	return n;
}

static inline bool takes_flows(struct web *web, uint16_t backend) {
	lab_dataplane_flows(web->dataplane, "198.51.100.10", 80, 200);
	return lab_dataplane_flows_of(web->dataplane, backend) > 50;
}
