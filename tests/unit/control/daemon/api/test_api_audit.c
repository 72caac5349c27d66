// SPDX-License-Identifier: BSD-3-Clause
//
// Tests of audit.show, and of the log lines with the same contents.
#include "daemon_web.h"

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static const char *text_of(const json_t *object, const char *name) {
	const char *text = json_string_value(json_object_get(object, name));

	return text != NULL ? text : "-";
}

// Returns the newest record. It is borrowed from *holder, which the caller must release.
static const json_t *newest(struct web *web, json_t **holder) {
	json_decref(*holder);
	*holder = lab_result(&web->lab, JSON({"command": "audit.show"}));
	return json_array_get(*holder, json_array_size(*holder) - 1);
}

static const struct row {
	const char *request, *command, *object, *before, *after, *outcome;
} rows[] = {
	{"{\"command\": \"backend.maintenance\", \"backend\": \"w-2\"}", "backend.maintenance",
		"web/w-2", "ready", "maintenance", "done"},
	{"{\"command\": \"backend.drain\", \"backend\": \"w-2\", \"interval_ms\": 600000}",
		"backend.drain", "web/w-2", "maintenance", "drain, deadline in 10m00s", "done"},
	{"{\"command\": \"backend.ready\", \"service\": \"web\", \"backend\": \"w-2\"}",
		"backend.ready", "web/w-2", NULL, "ready", "done"},
	{"{\"command\": \"weight.set\", \"backend\": \"w-2\", \"weight\": 7}", "weight.set",
		"web/w-2", "as configured (300)", "7", "done"},
	{"{\"command\": \"weight.set\", \"backend\": \"w-2\", \"weight\": null}", "weight.set",
		"web/w-2", "7", "as configured (300)", "done"},
	{"{\"command\": \"service.set\", \"service\": \"web\", \"policy\": \"random\"}",
		"service.set", "web", "as configured (maglev)", "random", "done"},
	{"{\"command\": \"service.set\", \"service\": \"web\", \"policy\": null}", "service.set",
		"web", "random", "as configured (maglev)", "done"},
	{"{\"command\": \"worker.steal\", \"stealing\": \"off\"}", "worker.steal", "workers",
		"as configured (on)", "off", "done"},
	{"{\"command\": \"worker.steal\", \"stealing\": null}", "worker.steal", "workers", "off",
		"as configured (on)", "done"},
	{"{\"command\": \"backend.drain\", \"backend\": \"w-1\"}", "backend.drain", "w-1", "-", "-",
		"ambiguous"},
	{"{\"command\": \"weight.set\", \"backend\": \"w-2\", \"weight\": 70000}", "weight.set",
		"web/w-2", "as configured (300)", "-", "bad-request"},
	{"{\"command\": \"config.reload\", \"path\": \"/nowhere\"}", "config.reload", "/nowhere",
		"-", "-", "refused"},
	{"{\"command\": \"config.diff\", \"path\": \"/nowhere\"}", "config.diff", "/nowhere", "-",
		"-", "refused"},
	{"{\"command\": \"backend.drain\", \"backend\": [1]}", "backend.drain", "", "-", "-",
		"bad-request"},
};

TEST_GROUP(lab_own_network);
TEST_GROUP(web_start, web_stop);

TEST(change_is_recorded_with_values_before_and_after) {
	struct web *web = *state;
	json_t *holder = NULL;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct row *row = &rows[i];
		const json_t *entry;

		json_decref(lab_ask(&web->lab, "%s", row->request));
		entry = newest(web, &holder);
		if (strcmp(text_of(entry, "command"), row->command) != 0 ||
			strcmp(text_of(entry, "object"), row->object) != 0 ||
			(row->before != NULL && strcmp(text_of(entry, "before"), row->before)) ||
			strcmp(text_of(entry, "after"), row->after) != 0 ||
			strcmp(text_of(entry, "outcome"), row->outcome) != 0) {
			char *text = json_dumps(entry, 0);

			fail_msg("%s: %s", row->request, text);
		}
		assert_int_equal(
			json_integer_value(json_object_get(entry, "uid")), (json_int_t)geteuid());
		assert_int_equal(
			json_integer_value(json_object_get(entry, "pid")), (json_int_t)getpid());
		assert_int_equal(json_is_null(json_object_get(entry, "why")),
			strcmp(row->outcome, "done") == 0);
	}
	json_decref(holder);
}

TEST(requests_that_change_nothing_are_not_recorded) {
	struct web *web = *state;
	json_t *holder = NULL;
	json_int_t before;

	before = json_integer_value(json_object_get(newest(web, &holder), "serial"));
	json_decref(lab_result(&web->lab, JSON({"command": "backend.show"})));
	json_decref(lab_result(&web->lab, JSON({"command": "config.diff"})));
	json_decref(lab_ask(&web->lab, JSON({"command": "backend.explode"})));
	json_decref(lab_result(
		&web->lab, JSON({"command": "policy.compare", "service": "web", "for_ms": 100})));
	assert_int_equal(
		json_integer_value(json_object_get(newest(web, &holder), "serial")), before);
	json_decref(holder);
}

TEST(change_is_one_line_of_the_log) {
	struct web *web = *state;
	char expected[192];

	json_decref(lab_result(&web->lab,
		JSON({"command": "weight.set", "service": "dns", "backend": "w-1", "weight": 31})));
	snprintf(expected, sizeof(expected),
		"info  audit: weight.set dns/w-1: as configured (100) -> 31 (uid %u, gid %u, pid "
		"%d)\n",
		(unsigned int)geteuid(), (unsigned int)getegid(), (int)getpid());
	assert_true(lab_log_has(&web->lab, expected));
}

TEST(reload_is_recorded_with_its_changes_for_any_origin) {
	struct web *web = *state;
	static const char removed[] = "1 change: remove service dns: 2 binds, 1 backend, maglev "
				      "(no open flows; not kept if it returns: weight 31 of w-1)";
	json_t *holder = NULL;
	const json_t *entry;

	lab_write_config(&web->lab, WEB_SERVICES);
	json_decref(lab_result(&web->lab, JSON({"command": "config.reload"})));
	entry = newest(web, &holder);
	assert_string_equal(text_of(entry, "object"), web->lab.config);
	assert_string_equal(text_of(entry, "after"), removed);
	lab_write_config(&web->lab, WEB_SERVICES ", " DNS_SERVICE);
	assert_int_equal(kill(web->lab.control, SIGHUP), 0);
	LAB_UNTIL(json_is_null(json_object_get(newest(web, &holder), "uid")));
	entry = newest(web, &holder);
	assert_string_equal(text_of(entry, "command"), "config.reload");
	assert_non_null(strstr(text_of(entry, "after"), "add service dns"));
	assert_true(lab_log_has(&web->lab, "(SIGHUP)\n"));
	lab_write(web->lab.config, "{");
	assert_int_equal(kill(web->lab.control, SIGHUP), 0);
	LAB_UNTIL(strcmp(text_of(newest(web, &holder), "outcome"), "refused") == 0);
	json_decref(holder);
}
