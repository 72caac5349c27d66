// SPDX-License-Identifier: BSD-3-Clause
//
// Tests configurations that do not fit the running dataplane, which has too few ids or too little
// memory for them: the previous configuration stays in use.
#include "small_web.h"

#include <signal.h>
#include <unistd.h>

#include "config_running.h"
#include "dataplane_link.h"
#include "segment.h"

#define TOO_LARGE \
	"{\"name\": \"web\", \"binds\": [{\"address\": \"198.51.100.10\", " \
	"\"protocol\": \"tcp\", \"port\": 80}], \"table_size\": 131101, \"backends\": [" \
	"{\"name\": \"w-1\", \"address\": \"10.0.1.11\"}]}"
#define OTHER \
	"{\"name\": \"other\", \"binds\": [{\"address\": \"198.51.100.11\", " \
	"\"protocol\": \"tcp\", \"port\": 80}], \"table_size\": 251, \"backends\": [" \
	"{\"name\": \"o-1\", \"address\": \"10.0.1.21\"}]}"
#define THIRD \
	"{\"name\": \"third\", \"binds\": [{\"address\": \"198.51.100.12\", " \
	"\"protocol\": \"tcp\", \"port\": 80}], \"table_size\": 251, \"backends\": [" \
	"{\"name\": \"t-1\", \"address\": \"10.0.1.31\"}]}"
// the settings of lab_dataplane_start_small
#define LIMITS \
	"{\"ports\": [{\"name\": \"wan\", \"device\": \"net_null0\", " \
	"\"gateway_mac\": \"02:00:00:00:00:01\", \"source_ipv4\": \"192.0.2.1\"}], " \
	"\"workers\": {\"cores\": [0, 1]}, " \
	"\"segment\": {\"max_services\": 64, \"max_backends\": 1024}, \"services\": []}"
#define CHECKED \
	"{\"name\": \"web\", \"binds\": [{\"address\": \"198.51.100.10\", " \
	"\"protocol\": \"tcp\", \"port\": 80}], \"table_size\": 251, \"health_check\": {" \
	"\"type\": \"tcp\", \"port\": 9, \"interval_ms\": 100, \"timeout_ms\": 50}, " \
	"\"backends\": [{\"name\": \"w-1\", \"address\": \"10.0.0.11\"}]}"

TEST_GROUP(lab_own_network);
TEST_EACH(small_start, web_stop);

// weir-control restarts with a configuration that is too large for the running dataplane, and finds
// no stored configuration. It answers every command about the adopted tables.
TEST(commands_are_answered_while_the_configuration_does_not_fit) {
	static const char *const commands[] = {"status", "service.show", "service.waste",
		"backend.show", "backend.drain", "backend.ready", "backend.maintenance",
		"backend.report", "bind.show", "bind.drain", "bind.ready", "canary.plan",
		"canary.start", "canary.show", "canary.stop", "shed.plan", "shed.start",
		"shed.stop", "subset.show", "flow.count", "flow.list", "flow.clear", "flow.steals",
		"affinity.show", "affinity.clear", "stats.show", "metrics.show", "worker.show",
		"health.show", "health.history", "config.diff"};
	static const char *const requests[] = {JSON({"command": "service.set", "service": "web", "policy": "random"}),
		JSON({"command": "weight.set", "backend": "w-1", "weight": 7}),
			JSON({"command": "host.show", "address": "10.0.1.11"}),
				JSON({"command": "host.drain", "address": "10.0.1.11"}),
					JSON({"command": "host.ready", "address": "10.0.1.11"}),
						JSON({"command": "affinity.lookup", "service": "web", "client": "192.0.2.1"}),
							JSON({"command": "policy.compare", "service": "web", "for_ms": 1000})};
	struct web *web = *state;
	char stored[128];

	lab_kill(&web->lab);
	snprintf(stored, sizeof(stored), "%s/control/applied.json", web->lab.run_dir);
	unlink(stored);
	lab_write_config(&web->lab, TOO_LARGE);
	lab_start(&web->lab);
	LAB_UNTIL(times_logged(web, "does not fit the running weir-dataplane") == 1);
	for (size_t i = 0; i < 4 * sizeof(commands) / sizeof(commands[0]); i++) {
		json_decref(lab_ask(&web->lab, "{\"command\": \"%s\"%s%s}", commands[i / 4],
			i % 2 > 0 ? ", \"service\": \"web\"" : "",
			i % 4 > 1 ? ", \"backend\": \"w-1\"" : ""));
	}
	for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
		json_decref(lab_ask(&web->lab, "%s", requests[i]));
	}
	assert_string_equal(
		lab_code(&web->lab, JSON({"command": "shed.start", "backend": "w-1"})), "refused");
}

// A configured service that a new dataplane has no room for is not reported as not configured.
TEST(status_of_a_configuration_that_does_not_fit) {
	struct web *web = *state;
	json_t *status;
	char *text;

	lab_dataplane_stop(web->dataplane);
	lab_kill(&web->lab);
	lab_write_config(&web->lab, TOO_LARGE);
	lab_start(&web->lab);
	web->dataplane = lab_dataplane_start_small(&web->lab, 2);
	LAB_UNTIL(times_logged(web, "does not fit the running weir-dataplane") == 1);
	status = lab_result(&web->lab, JSON({"command": "status"}));
	text = json_dumps(status, 0);
	assert_non_null(
		strstr(text, "\"weir-dataplane has no tables yet: the configuration does not "
			     "fit the running weir-dataplane: "));
	assert_non_null(strstr(text, "; correct the file and reload it, or raise the setting in "
				     "segment and restart weir-dataplane\""));
	assert_non_null(strstr(text, "\"the service is not published yet\""));
	free(text);
	json_decref(status);
}

// Returns whether the configuration that the next weir-control finds contains this text.
static bool is_stored(const struct web *web, const char *text) {
	char path[128], stored[4096] = "";
	FILE *file;

	snprintf(path, sizeof(path), "%s/control/applied.json", web->lab.run_dir);
	file = fopen(path, "r");
	if (file != NULL) {
		(void)!fread(stored, 1, sizeof(stored) - 1, file);
		fclose(file);
	}
	return strstr(stored, text) != NULL;
}

static bool status_has(struct web *web, const char *text) {
	json_t *status = lab_result(&web->lab, JSON({"command": "status"}));
	char *dump = json_dumps(status, 0);
	bool has = strstr(dump, text) != NULL;

	free(dump);
	json_decref(status);
	return has;
}

static bool was_checked(struct web *web) {
	json_t *rows = lab_result(&web->lab, JSON({"command": "health.show"}));
	bool checked = json_is_object(json_object_get(json_array_get(rows, 0), "last"));

	json_decref(rows);
	return checked;
}

// weir-control restarts with a configuration that is too large for the running dataplane. The
// previous configuration stays in use, with its health checks, until a dataplane is started for
// which the file is not too large.
TEST(previous_configuration_stays_if_the_file_does_not_fit) {
	struct web *web = *state;

	lab_write_config(&web->lab, CHECKED);
	assert_string_equal(lab_code(&web->lab, JSON({"command": "config.reload"})), "ok");
	LAB_UNTIL(is_stored(web, "interval_ms"));
	lab_kill(&web->lab);
	lab_write_config(&web->lab, TOO_LARGE);
	lab_start(&web->lab);
	LAB_UNTIL(times_logged(web, "stays in use") == 1);
	LAB_UNTIL(was_checked(web));
	assert_true(all_is_published(web));
	assert_true(status_has(web, "the previous configuration is in use"));
	assert_true(set_weight(web, 7));
	assert_true(is_stored(web, "interval_ms"));
	lab_dataplane_stop(web->dataplane);
	web->dataplane = lab_dataplane_start(&web->lab, 2);
	LAB_UNTIL(!status_has(web, "the previous configuration is in use"));
	LAB_UNTIL(is_stored(web, "131101"));
}

// The file that does not fit lacks a service and a backend. Both stay in use, even if the attempt
// to use the file has withdrawn the table of the service.
TEST(services_that_the_file_lacks_stay_in_use) {
	struct web *web = *state;

	lab_write_config(&web->lab, TWO ", " OTHER);
	assert_string_equal(lab_code(&web->lab, JSON({"command": "config.reload"})), "ok");
	lab_kill(&web->lab);
	lab_write_config(&web->lab, TOO_LARGE);
	lab_start(&web->lab);
	LAB_UNTIL(times_logged(web, "stays in use") == 1);
	assert_true(all_is_published(web));
	lab_dataplane_flows(web->dataplane, "198.51.100.11", 80, 100);
	assert_int_equal(lab_dataplane_flows_of(web->dataplane, 2), 100);
	assert_true(takes_flows(web, 0));
	assert_true(takes_flows(web, 1));
}

// A reload ends the use of the stored configuration.
TEST(reload_replaces_the_stored_configuration) {
	struct web *web = *state;

	LAB_UNTIL(is_stored(web, "16381"));
	lab_kill(&web->lab);
	lab_write_config(&web->lab, TOO_LARGE);
	lab_start(&web->lab);
	LAB_UNTIL(times_logged(web, "stays in use") == 1);
	assert_string_equal(lab_code(&web->lab, JSON({"command": "config.reload"})), "refused");
	assert_true(status_has(web, "the previous configuration is in use"));
	lab_write_config(&web->lab, CHECKED);
	assert_string_equal(lab_code(&web->lab, JSON({"command": "config.reload"})), "ok");
	assert_false(status_has(web, "the previous configuration is in use"));
	LAB_UNTIL(is_stored(web, "interval_ms"));
}

// weir-control is killed directly after a reload. The next process uses the reloaded configuration
// if its file does not fit.
TEST(reloaded_configuration_is_stored_before_the_reply) {
	struct web *web = *state;

	LAB_UNTIL(is_stored(web, "16381"));
	lab_write_config(&web->lab, CHECKED);
	assert_string_equal(lab_code(&web->lab, JSON({"command": "config.reload"})), "ok");
	assert_true(is_stored(web, "interval_ms"));
}

// A configuration is reloaded while no dataplane runs, and the next dataplane has no room for it.
// It does not replace the stored configuration.
TEST(configuration_without_room_is_not_stored) {
	struct web *web = *state;
	uint64_t since;

	LAB_UNTIL(is_stored(web, "16381"));
	lab_dataplane_stop(web->dataplane);
	LAB_UNTIL(!lab_attached(&web->lab));
	lab_write_config(&web->lab, TOO_LARGE);
	assert_string_equal(lab_code(&web->lab, JSON({"command": "config.reload"})), "ok");
	web->dataplane = lab_dataplane_start_small(&web->lab, 2);
	LAB_UNTIL(times_logged(web, "does not fit the running weir-dataplane") == 1);
	since = lab_now_ms();
	LAB_UNTIL(lab_now_ms() - since > 1500);
	assert_true(is_stored(web, "16381"));
}

// weir-control reloads another file before a dataplane is started. If this file does not fit, the
// log and the status name this file.
TEST(reason_names_the_other_file_that_was_reloaded) {
	struct web *web = *state;
	char other[128], text[192];

	LAB_UNTIL(is_stored(web, "16381"));
	lab_dataplane_stop(web->dataplane);
	lab_kill(&web->lab);
	lab_write_config(&web->lab, TOO_LARGE);
	snprintf(other, sizeof(other), "%s.other", web->lab.config);
	assert_int_equal(rename(web->lab.config, other), 0);
	lab_write_config(&web->lab, TWO);
	lab_start(&web->lab);
	assert_string_equal(
		lab_code(&web->lab, JSON({"command": "config.reload", "path": "%s"}), other), "ok");
	web->dataplane = lab_dataplane_start_small(&web->lab, 2);
	LAB_UNTIL(times_logged(web, "stays in use") == 1);
	snprintf(text, sizeof(text), "%s does not fit the running weir-dataplane", other);
	assert_true(status_has(web, text));
	assert_true(all_is_published(web));
	unlink(other);
}

// Writes a configuration with these limits.
static void write_limited(
	const struct web *web, int max_backends, uint64_t heap_bytes, const char *services) {
	lab_write(web->lab.config,
		"{\"ports\": [{\"name\": \"wan\", \"device\": \"net_null0\", "
		"\"gateway_mac\": \"02:00:00:00:00:01\", \"source_ipv4\": \"192.0.2.1\"}], "
		"\"workers\": {\"cores\": [0, 1]}, \"segment\": {\"max_services\": 64, "
		"\"max_backends\": %d, \"heap_bytes\": %llu}, \"services\": [%s]}",
		max_backends, (unsigned long long)heap_bytes, services);
}

static uint32_t count_backends(struct web *web) {
	json_t *rows = lab_result(&web->lab, JSON({"command": "backend.show"}));
	uint32_t count = (uint32_t)json_array_size(rows);

	json_decref(rows);
	return count;
}

// Writes a configuration with `count` backends, of which all but two have a name and an address
// with this number.
static void write_backends(struct web *web, int count, int number) {
	size_t used = 0, room = 200000;
	char *text = calloc(1, room);

	used += (size_t)snprintf(text, room, "%s", WEB("100"));
	for (int i = 2; i < count; i++) {
		used += (size_t)snprintf(text + used, room - used,
			", {\"name\": \"x%d-%d\", \"address\": \"10.%d.%d.%d\"}", number, i, number,
			i / 256, i % 256);
	}
	snprintf(text + used, room - used, "]}");
	lab_write_config(&web->lab, text);
	free(text);
}

// Restarts the dataplane with more backend ids, and reloads a configuration with `count` backends.
static void use_backends(struct web *web, int count, int number) {
	lab_dataplane_stop(web->dataplane);
	LAB_UNTIL(!lab_attached(&web->lab));
	web->dataplane = lab_dataplane_start_big(&web->lab, 2);
	LAB_UNTIL(lab_attached(&web->lab));
	write_backends(web, count, number);
	assert_string_equal(lab_code(&web->lab, JSON({"command": "config.reload"})), "ok");
}

// A dataplane is started with fewer backend ids than the configuration in use needs. weir-control
// reads the file again, which fits.
TEST(file_is_read_again_for_a_dataplane_with_fewer_ids) {
	struct web *web = *state;

	use_backends(web, 1025, 1);
	lab_write_config(&web->lab, TWO);
	lab_dataplane_stop(web->dataplane);
	web->dataplane = lab_dataplane_start_small(&web->lab, 2);
	LAB_UNTIL(lab_attached(&web->lab) && count_backends(web) == 2);
	assert_int_equal(times_logged(web, "audit: config.reload"), 2);
	LAB_UNTIL(takes_flows(web, 0));
}

// A reload is refused, because the dataplane has fewer ids than the file allows. The file is in use
// after the dataplane has restarted with more ids, without another reload.
TEST(refused_file_is_read_again_for_a_dataplane_with_more_ids) {
	struct web *web = *state;
	json_t *answer;

	write_backends(web, 1025, 1);
	answer = lab_ask(&web->lab, JSON({"command": "config.reload"}));
	assert_string_equal(json_string_value(json_object_get(answer, "code")), "refused");
	assert_non_null(strstr(json_string_value(json_object_get(answer, "error")),
		"the file has larger limits: restart weir-dataplane, then weir-control reloads the "
		"file"));
	json_decref(answer);
	assert_true(status_has(web, "then weir-control reloads the file; the previous "
				    "configuration is in use"));
	answer = lab_result(&web->lab, JSON({"command": "version"}));
	assert_non_null(strstr(json_string_value(json_object_get(answer, "config_unused")),
		"does not fit the running"));
	json_decref(answer);
	assert_int_equal(count_backends(web), 2);
	lab_dataplane_stop(web->dataplane);
	LAB_UNTIL(!lab_attached(&web->lab));
	web->dataplane = lab_dataplane_start_big(&web->lab, 2);
	LAB_UNTIL(lab_attached(&web->lab) && count_backends(web) == 1025);
	assert_int_equal(times_logged(web, "audit: config.reload"), 2);
	answer = lab_result(&web->lab, JSON({"command": "version"}));
	assert_true(json_is_null(json_object_get(answer, "config_unused")));
	json_decref(answer);
	assert_false(status_has(web, "the previous configuration is in use"));
}

// Without a reload that was refused, weir-control does not read the file again. "config diff" says
// that it is to be reloaded.
TEST(file_that_was_only_compared_is_not_read_again) {
	struct web *web = *state;
	json_t *answer;
	char *text;

	write_backends(web, 1025, 1);
	answer = lab_result(&web->lab, JSON({"command": "config.diff"}));
	text = json_dumps(json_object_get(answer, "warnings"), 0);
	assert_non_null(strstr(text, "restart weir-dataplane, then reload the file\""));
	free(text);
	json_decref(answer);
	lab_dataplane_stop(web->dataplane);
	LAB_UNTIL(!lab_attached(&web->lab));
	web->dataplane = lab_dataplane_start_big(&web->lab, 2);
	LAB_UNTIL(lab_attached(&web->lab));
	LAB_UNTIL(takes_flows(web, 0));
	assert_int_equal(count_backends(web), 2);
}

// A refused file other than that of the start of weir-control is not read again.
TEST(other_refused_file_is_not_read_again) {
	struct web *web = *state;
	char other[128];

	write_backends(web, 1025, 1);
	snprintf(other, sizeof(other), "%s.other", web->lab.config);
	assert_int_equal(rename(web->lab.config, other), 0);
	lab_write_config(&web->lab, TWO);
	assert_string_equal(lab_code(
		&web->lab, JSON({"command": "config.reload", "path": "%s"}), other), "refused");
	unlink(other);
	assert_false(status_has(web, "the previous configuration is in use"));
	lab_dataplane_stop(web->dataplane);
	LAB_UNTIL(!lab_attached(&web->lab));
	web->dataplane = lab_dataplane_start_big(&web->lab, 2);
	LAB_UNTIL(lab_attached(&web->lab));
	LAB_UNTIL(takes_flows(web, 0));
	assert_int_equal(times_logged(web, "audit: config.reload"), 1);
}

// Replaces the dataplane by a small one, which has stored its limits when weir-control attaches.
static void restart_with_limits(struct web *web) {
	char *limits = weir_config_running_text(LIMITS, strlen(LIMITS));

	assert_non_null(limits);
	lab_dataplane_stop(web->dataplane);
	assert_int_equal(kill(web->lab.control, SIGSTOP), 0);
	web->dataplane = lab_dataplane_start_small(&web->lab, 2);
	assert_int_equal(
		weir_config_running_write(web->lab.run_dir,
			lab_dataplane_segment(web->dataplane)->epoch, (uid_t)-1, (gid_t)-1, limits),
		0);
	assert_int_equal(kill(web->lab.control, SIGCONT), 0);
	free(limits);
}

// The same with a file all of whose backends are new.
TEST(new_backends_do_not_wait_for_ids_of_a_dataplane_that_has_ended) {
	struct web *web = *state;
	use_backends(web, 1025, 1);
	write_backends(web, 600, 2);
	restart_with_limits(web);
	LAB_UNTIL(lab_attached(&web->lab) && count_backends(web) == 600);
	LAB_UNTIL(all_is_published(web));
	weir_config_running_remove(web->lab.run_dir);
}

// The same with a file that does not fit either. The reason names the settings, and a reload of a
// configuration that fits is applied.
TEST(reason_names_the_settings_if_a_dataplane_has_fewer_ids) {
	struct web *web = *state;

	use_backends(web, 1025, 1);
	lab_dataplane_stop(web->dataplane);
	web->dataplane = lab_dataplane_start_small(&web->lab, 2);
	LAB_UNTIL(times_logged(web, "its segment.max_services or segment.max_backends is too small "
				    "for the configuration") == 1);
	assert_false(lab_attached(&web->lab));
	assert_true(status_has(web, "weir-control cannot attach to weir-dataplane: "));
	assert_true(status_has(web, "is too small for the configuration: raise it and restart "
				    "weir-dataplane"));
	lab_write_config(&web->lab, TWO);
	assert_string_equal(lab_code(&web->lab, JSON({"command": "config.reload"})), "ok");
	LAB_UNTIL(lab_attached(&web->lab));
	LAB_UNTIL(takes_flows(web, 0));
}

// A dataplane is started with fewer ids than the configuration in use and the file need, and has
// stored its limits. The file is read once, not at each attempt to attach.
TEST(file_that_does_not_fit_is_read_once_for_a_dataplane) {
	struct web *web = *state;
	uint64_t since;

	use_backends(web, 1025, 1);
	write_backends(web, 1025, 2);
	restart_with_limits(web);
	LAB_UNTIL(times_logged(web, "its segment.max_services or segment.max_backends is too small "
				    "for the configuration") == 1);
	since = lab_now_ms();
	LAB_UNTIL(lab_now_ms() - since > 2 * WEIR_LINK_REFUSED_RETRY_MS);
	assert_int_equal(times_logged(web, "reload refused"), 1);
	weir_config_running_remove(web->lab.run_dir);
}

// A reload is refused while no dataplane runs, because the last one had fewer ids than the file
// allows. "config diff" warns of this, and the file is in use after the start of a dataplane.
TEST(file_with_larger_limits_is_read_again_when_a_dataplane_starts) {
	struct web *web = *state;
	char *text;
	json_t *answer;

	lab_kill(&web->lab);
	write_limited(web, 3, 1 << 20, TWO);
	lab_start(&web->lab);
	LAB_UNTIL(lab_attached(&web->lab));
	lab_dataplane_stop(web->dataplane);
	LAB_UNTIL(!lab_attached(&web->lab));
	write_limited(web, 1024, 1 << 20, TWO ", " OTHER ", " THIRD);
	answer = lab_result(&web->lab, JSON({"command": "config.diff"}));
	text = json_dumps(json_object_get(answer, "warnings"), 0);
	assert_non_null(strstr(text, "a reload of this file is refused: "));
	assert_non_null(strstr(text, "restart weir-dataplane, then reload the file\""));
	free(text);
	json_decref(answer);
	answer = lab_ask(&web->lab, JSON({"command": "config.reload"}));
	assert_non_null(strstr(json_string_value(json_object_get(answer, "error")),
		"the file has larger limits: restart weir-dataplane, then weir-control reloads the "
		"file"));
	json_decref(answer);
	assert_true(status_has(web, " does not fit the last weir-dataplane: "));
	web->dataplane = lab_dataplane_start_small(&web->lab, 2);
	LAB_UNTIL(lab_attached(&web->lab) && count_backends(web) == 4);
	assert_false(status_has(web, "the previous configuration is in use"));
}

// A file that did not fit has an error after an edit. The reason is the error, and the file is in
// use, corrected, after a restart of the dataplane.
TEST(reason_is_the_error_in_a_file_that_did_not_fit) {
	struct web *web = *state;

	write_backends(web, 1025, 1);
	assert_string_equal(lab_code(&web->lab, JSON({"command": "config.reload"})), "refused");
	assert_true(status_has(web, "no free backend id"));
	lab_write(web->lab.config, "{");
	assert_string_equal(lab_code(&web->lab, JSON({"command": "config.reload"})), "refused");
	assert_false(status_has(web, "no free backend id"));
	assert_true(
		status_has(web, " has 1 error, in line 1; the previous configuration is in use"));
	write_backends(web, 1025, 1);
	lab_dataplane_stop(web->dataplane);
	LAB_UNTIL(!lab_attached(&web->lab));
	web->dataplane = lab_dataplane_start_big(&web->lab, 2);
	LAB_UNTIL(lab_attached(&web->lab) && count_backends(web) == 1025);
	assert_false(status_has(web, "the previous configuration is in use"));
}

// The tables are too large for the heap, and the file raises another limit: a restart of the
// dataplane, which breaks connections, would not help.
TEST(restart_is_no_remedy_if_the_limit_that_was_reached_stays) {
	static const char huge[] =
		"{\"name\": \"web\", \"binds\": [{\"address\": \"198.51.100.10\", \"protocol\": "
		"\"tcp\", \"port\": 80}], \"table_size\": 1048573, \"backends\": [{\"name\": "
		"\"w-1\", \"address\": \"10.0.1.11\"}]}";
	struct web *web = *state;
	json_t *answer;
	const char *why;

	lab_dataplane_stop(web->dataplane);
	LAB_UNTIL(!lab_attached(&web->lab));
	web->dataplane = lab_dataplane_start_tight(&web->lab, 2);
	LAB_UNTIL(lab_attached(&web->lab));
	write_limited(web, 2048, 1 << 20, huge);
	answer = lab_ask(&web->lab, JSON({"command": "config.reload"}));
	why = json_string_value(json_object_get(answer, "error"));
	assert_non_null(strstr(why, "the tables are larger than segment.heap_bytes"));
	assert_null(strstr(why, "restart"));
	json_decref(answer);
	write_limited(web, 1024, 4 << 20, huge);
	answer = lab_ask(&web->lab, JSON({"command": "config.reload"}));
	why = json_string_value(json_object_get(answer, "error"));
	assert_non_null(strstr(why, "the tables are larger than segment.heap_bytes"));
	assert_non_null(strstr(why, "restart weir-dataplane, then weir-control reloads the file"));
	json_decref(answer);
}
