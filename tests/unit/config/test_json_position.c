// SPDX-License-Identifier: BSD-3-Clause
#include <errno.h>
#include <jansson.h>

#include "config_lab.h"
#include "json_position.h"

static const char text[] = "{\n"
			   "  \"a\": 1,\n"
			   "  \"list\": [ {\"x\": \"]}\\\"\"},\n"
			   "\t\t[true, [], {}], -1.5e3 ],\r\n"
			   "  \"object\"  :  {\"b\": null, \"c\": {\"d\": false}}\n"
			   "}\n";

TEST(position_find_gives_line_and_column) {
	static const struct {
		const char *path;
		uint32_t line, column;
	} cases[] = {
		{"", 1, 1},
		{"a", 2, 8},
		{"list", 3, 11},
		{"list[0]", 3, 13},
		{"list[0].x", 3, 19},
		{"list[1]", 4, 3},
		{"list[1][0]", 4, 4},
		{"list[1][1]", 4, 10},
		{"list[1][2]", 4, 14},
		{"list[2]", 4, 19},
		{"object", 5, 16},
		{"object.b", 5, 22},
		{"object.c.d", 5, 39},
	};
	struct weir_json_index index;

	assert_int_equal(weir_json_index_init(&index, text, strlen(text)), 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint32_t node = weir_json_find(&index, cases[i].path);

		assert_true(node < index.count);
		assert_int_equal(index.node[node].line, cases[i].line);
		assert_int_equal(index.node[node].column, cases[i].column);
	}
	weir_json_index_fini(&index);
}

TEST(position_of_keys) {
	struct weir_json_index index;
	uint32_t node;

	assert_int_equal(weir_json_index_init(&index, text, strlen(text)), 0);
	node = weir_json_find(&index, "object");
	assert_int_equal(index.node[node].key_line, 5);
	assert_int_equal(index.node[node].key_column, 3);
	assert_int_equal(index.node[node].key_bytes, 6);
	assert_int_equal(index.node[weir_json_find(&index, "list[1]")].key_line, 0);
	weir_json_index_fini(&index);
}

TEST(position_find_of_a_missing_path) {
	static const char *const paths[] = {"b", "a.x", "a[0]", "list[3]", "list[0].y",
		"list[1][1][0]", "list.x", "object[2]", "[0]", ".", "..", "list[", "list[x]",
		"list[-1]", "list[99999999999999999999]", "]", "object.c.d.e"};
	struct weir_json_index index;

	assert_int_equal(weir_json_index_init(&index, text, strlen(text)), 0);
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		assert_int_equal(weir_json_find(&index, paths[i]), WEIR_JSON_NO_NODE);
	}
	assert_int_equal(weir_json_first(&index, WEIR_JSON_NO_NODE), WEIR_JSON_NO_NODE);
	assert_int_equal(weir_json_sibling(&index, 0, WEIR_JSON_NO_NODE), WEIR_JSON_NO_NODE);
	weir_json_index_fini(&index);
}

// Checks that the index has the same tree of values as jansson, because the reader walks both in
// parallel.
static uint32_t walk(const struct weir_json_index *index, uint32_t node, json_t *json) {
	uint32_t child = weir_json_first(index, node);
	const char *key;
	size_t i;
	json_t *value;

	if (json_is_object(json)) {
		json_object_foreach (json, key, value) {
			const struct weir_json_node *member = &index->node[child];

			assert_true(child < index->count);
			assert_int_equal(member->key_bytes, strlen(key));
			assert_memory_equal(index->text + member->key, key, member->key_bytes);
			walk(index, child, value);
			child = weir_json_sibling(index, node, child);
		}
	} else if (json_is_array(json)) {
		json_array_foreach (json, i, value) {
			assert_int_equal(weir_json_element(index, node, (uint32_t)i), child);
			walk(index, child, value);
			child = weir_json_sibling(index, node, child);
		}
	} else {
		json_t *alone = json_loads(index->text + index->node[node].at,
			JSON_DECODE_ANY | JSON_DISABLE_EOF_CHECK, NULL);

		assert_true(json_equal(alone, json));
		json_decref(alone);
	}
	assert_int_equal(child, WEIR_JSON_NO_NODE);
	return node;
}

TEST(positions_agree_with_the_parser) {
	struct weir_json_index index;
	json_t *json = json_loads(text, 0, NULL);

	assert_non_null(json);
	assert_int_equal(weir_json_index_init(&index, text, strlen(text)), 0);
	walk(&index, 0, json);
	weir_json_index_fini(&index);
	json_decref(json);
}

TEST(position_deep_and_wide) {
	static char deep[4001], wide[20001];
	struct weir_json_index index;

	memset(deep, '[', 2000);
	memset(deep + 2000, ']', 2000);
	assert_int_equal(weir_json_index_init(&index, deep, 4000), 0);
	assert_int_equal(index.count, 2000);
	weir_json_index_fini(&index);
	for (size_t i = 1; i < 20000; i += 2) {
		memcpy(wide + i, "1,", 2);
	}
	wide[0] = '[';
	wide[20000] = ']';
	assert_int_equal(weir_json_index_init(&index, wide, 20001), 0);
	assert_int_equal(index.count, 10001);
	assert_int_equal(weir_json_element(&index, 0, 9999), 10000);
	weir_json_index_fini(&index);
}

// The scanner is used only for text that a parser has accepted, but it must terminate for any text.
TEST(position_refuses_invalid_json) {
	static const char *const bad[] = {"", "  ", "{", "[", "[1", "{\"a\"", "{\"a\":", "{\"a\":1",
		"{a:1}", "{1}", "\"abc", "\"abc\\", "[\"", "]", "}", ",", ":", "{\"a\" 1}"};
	struct weir_json_index index = {.count = 99};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(weir_json_index_init(&index, bad[i], strlen(bad[i])), -EINVAL);
		assert_int_equal(index.count, 99);
	}
}
