// SPDX-License-Identifier: BSD-3-Clause
//
// Changes of a reload, with their costs and warnings.
#include "show_lab.h"

TEST(changes_of_a_reload) {
	expect_shown(weir_show_changes, NULL,
		JSON({"changes": [{"kind": "add", "what": "a", "to": "x"},{"kind": "remove",
			"what": "b", "from": "y"},{"kind": "change", "what": "c", "from": 1,
			"to": null, "note": "later"},{"kind": "add", "what": "d"}, {}]}),
				"+ a: x\n- b: y\n~ c: 1 -> - (later)\n+ d\n? -\n5 changes in -\n");
}

// The cost of a change is shown in parentheses. The costs of removed objects are also shown on
// stderr.
TEST(costs_of_a_reload) {
	const struct weir_cli_options options = {0};
	json_t *result = json_loads(JSON({"file": "/a.json", "agent_keys": {"read": 2, "new": 1,
		"removed": 0}, "changes": [
		{"kind": "remove", "what": "service s backend b", "from": "y", "cost": {"effect":
		"stay", "flows": 2, "text": "2 open flows: TCP stays"}},
		{"kind": "remove", "what": "service t", "cost": {"effect": "stay", "flows": 1,
		"text": "1 open flow: TCP stays"}},
		{"kind": "change", "what": "service s backend c address", "from": 1, "to": 2,
		"cost": {"effect": "move", "flows": 3, "text": "3 open flows: UDP moves"}},
		{"kind": "remove", "what": "service u", "cost": {"effect": "none", "flows": 0,
		"text": "no open flows"}},
		{"kind": "change", "what": "d", "from": 1, "to": 2, "note": "later", "cost":
		{"effect": "break", "flows": 9, "text": "it breaks 9"}}]}),
							0, NULL);
	struct weir_cli cli = {.options = &options};
	char *out, *err;
	size_t bytes;

	assert_non_null(result);
	cli.out = open_memstream(&out, &bytes);
	cli.err = open_memstream(&err, &bytes);
	weir_show_changes(&cli, result);
	fclose(cli.out);
	fclose(cli.err);
	assert_string_equal(out, "- service s backend b: y (2 open flows: TCP stays)\n"
				 "- service t (1 open flow: TCP stays)\n"
				 "~ service s backend c address: 1 -> 2 (3 open flows: UDP moves)\n"
				 "- service u (no open flows)\n"
				 "~ d: 1 -> 2 (later; it breaks 9)\n"
				 "5 changes in /a.json\n"
				 "agent keys: 2 read (1 new, 0 removed)\n");
	assert_string_equal(err,
		"warning: service t has 1 open flow: TCP stays\n"
		"warning: service s backend c address has 3 open flows: UDP moves\n");
	free(out);
	free(err);
	json_decref(result);
}

// Warnings are written to stderr, because stdout contains only changes.
TEST(warnings_of_a_reload) {
	const struct weir_cli_options options = {0};
	json_t *result = json_loads(JSON({"file": "/a.json", "default_file": "/b.json", "changes": [],
		"warnings": [{"line": 3, "column": 7, "path": "a.b", "reason": "is odd"}]}), 0,
		NULL);
	struct weir_cli cli = {.options = &options};
	char *out, *err;
	size_t bytes;

	cli.out = open_memstream(&out, &bytes);
	cli.err = open_memstream(&err, &bytes);
	weir_show_reload(&cli, result);
	fclose(cli.out);
	fclose(cli.err);
	assert_string_equal(out, "no changes in /a.json\n");
	assert_string_equal(err,
		"/a.json:3:7: warning: a.b: is odd\n"
		"/a.json is in use until weir-control restarts or reloads without a "
		"file; then /b.json is used\n");
	free(out);
	free(err);
	json_decref(result);
}
