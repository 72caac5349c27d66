// SPDX-License-Identifier: BSD-3-Clause
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "reload.h"
#include "starved.h"
#include "test.h"

#define SERVICE(weight) \
	"{\"name\": \"web\", \"binds\": [{\"address\": \"198.51.100.10\", \"protocol\": \"tcp\", " \
	"\"port\": 80}], \"backends\": [{\"name\": \"web-1\", \"address\": \"10.0.0.11\", " \
	"\"weight\": " weight "}]}"
#define CONFIG(port, weight) \
	"{\"ports\": [{\"name\": \"wan\", \"device\": \"net_null0\"" port \
	"}], \"services\": [" SERVICE(weight) "]}"

struct lab {
	char dir[32];
	char file[64];
	struct weir_reload *reload;
};

static void put(const char *file, const char *text) {
	FILE *f = fopen(file, "w");

	fputs(text, f);
	fclose(f);
}

static int setup(void **state) {
	struct lab *lab = calloc(1, sizeof(*lab));
	struct weir_config_errors errors;
	int r;

	strcpy(lab->dir, "/tmp/weir-test-XXXXXX");
	assert_non_null(mkdtemp(lab->dir));
	snprintf(lab->file, sizeof(lab->file), "%s/weir.json", lab->dir);
	put(lab->file, CONFIG("", "100"));
	r = weir_reload_create(lab->file, false, &lab->reload, &errors);
	weir_config_errors_fini(&errors);
	*state = lab;
	return r;
}

static int teardown(void **state) {
	struct lab *lab = *state;

	weir_reload_free(lab->reload);
	unlink(lab->file);
	rmdir(lab->dir);
	free(lab);
	return 0;
}

TEST_EACH(setup, teardown);

TEST(reload_file_is_absolute) {
	static const char *const names[] = {"weir.json", "./weir.json", ".//./weir.json"};
	struct lab *lab = *state;
	char before[256];

	assert_non_null(getcwd(before, sizeof(before)));
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct weir_config_errors errors;
		struct weir_reload *reload;

		assert_int_equal(chdir(lab->dir), 0);
		assert_int_equal(weir_reload_create(names[i], false, &reload, &errors), 0);
		assert_int_equal(chdir(before), 0);
		weir_config_errors_fini(&errors);
		assert_string_equal(weir_reload_file(reload), lab->file);
		assert_string_equal(weir_reload_file_in_use(reload), lab->file);
		weir_reload_free(reload);
	}
}

TEST(reload_commit_uses_the_new_configuration) {
	struct lab *lab = *state;
	struct weir_reload_plan plan;

	put(lab->file, CONFIG("", "50"));
	assert_int_equal(weir_reload_plan(lab->reload, NULL, &plan), 0);
	assert_int_equal(plan.difference.count, 1);
	assert_int_equal(weir_reload_config(lab->reload)->services[0].backends[0].weight, 100);
	weir_reload_commit(lab->reload, &plan);
	weir_reload_plan_fini(&plan);
	assert_int_equal(weir_reload_config(lab->reload)->services[0].backends[0].weight, 50);
}

TEST(reload_plan_alone_changes_nothing) {
	struct lab *lab = *state;
	const struct weir_config *before = weir_reload_config(lab->reload);
	struct weir_reload_plan plan;

	put(lab->file, CONFIG("", "50"));
	assert_int_equal(weir_reload_plan(lab->reload, NULL, &plan), 0);
	weir_reload_plan_fini(&plan);
	assert_ptr_equal(weir_reload_config(lab->reload), before);
	assert_int_equal(before->services[0].backends[0].weight, 100);
}

TEST(reload_invalid_file_is_refused_with_every_error) {
	struct lab *lab = *state;
	struct weir_reload_plan plan;

	put(lab->file, CONFIG(", \"mtu\": 1, \"colour\": 2", "100"));
	assert_true(weir_reload_plan(lab->reload, NULL, &plan) < 0);
	assert_int_equal(plan.errors.count, 2);
	assert_null(plan.config);
	weir_reload_plan_fini(&plan);
}

TEST(reload_missing_file_is_an_error_with_a_reason) {
	struct lab *lab = *state;
	struct weir_reload_plan plan;

	unlink(lab->file);
	assert_int_equal(weir_reload_plan(lab->reload, NULL, &plan), -ENOENT);
	assert_int_equal(plan.errors.count, 1);
	assert_true(plan.errors.error[0].reason[0] != '\0');
	weir_reload_plan_fini(&plan);
}

#define NOTIFY(program) \
	"{\"ports\": [{\"name\": \"wan\", \"device\": \"net_null0\"}], \"notify\": {\"command\": " \
	"[\"" program "\"]}, \"services\": [" SERVICE("100") "]}"
#define EXEC(program) \
	"{\"ports\": [{\"name\": \"wan\", \"device\": \"net_null0\"}], \"services\": " \
	"[\n{\"name\": " \
	"\"web\", \"binds\": [{\"address\": \"198.51.100.10\", \"protocol\": \"tcp\", " \
	"\"port\": 80}], \"health_check\": {\"type\": \"exec\", \"command\": [\"" program \
	"\", \"a\"]}, \"backends\": [{\"name\": \"web-1\", \"address\": \"10.0.0.11\"}]}]}"

static void expect_program(struct lab *lab, const char *file, const char *refused) {
	struct weir_reload_plan plan;
	int r = weir_reload_plan(lab->reload, file, &plan);

	if (refused == NULL) {
		assert_int_equal(r, 0);
	} else {
		assert_int_equal(r, -EPERM);
		assert_int_equal(plan.errors.count, 1);
		assert_non_null(strstr(plan.errors.error[0].reason, refused));
	}
	weir_reload_plan_fini(&plan);
}

// Clients who may reload a file of their own must not choose programs that weir-control runs.
TEST(reload_of_the_file_of_another_user_names_no_new_program) {
	static const char *const texts[] = {NOTIFY("/bin/sh"), EXEC("/bin/sh")};
	struct lab *lab = *state;
	struct weir_reload_plan plan;
	char other[80];

	snprintf(other, sizeof(other), "%s.other", lab->file);
	for (int i = 0; i < 2; i++) {
		put(other, texts[i]);
		assert_int_equal(chmod(other, 0644), 0);
		expect_program(lab, other, NULL);
		assert_int_equal(chmod(other, 0646), 0);
		expect_program(lab, other, "a new program, which only root may choose");
		assert_int_equal(chmod(other, 0644), 0);
		if (geteuid() == 0) {
			assert_int_equal(chown(other, 1234, 0), 0);
			expect_program(lab, other, i == 0 ? "notify.command: a new" : "a new");
			assert_int_equal(chown(other, 0, 1234), 0);
			expect_program(lab, other, NULL);
			assert_int_equal(chmod(other, 0664), 0);
			expect_program(lab, other, "a new program");
		}
		unlink(other);
	}
	put(lab->file, EXEC("/bin/sh")); // the file of weir-control is that of root
	assert_int_equal(chmod(lab->file, 0666), 0);
	expect_program(lab, lab->file, NULL);
	assert_int_equal(weir_reload_plan(lab->reload, NULL, &plan), 0);
	weir_reload_commit(lab->reload, &plan);
	weir_reload_plan_fini(&plan);
	put(other, EXEC("/bin/sh"));
	assert_int_equal(chmod(other, 0666), 0);
	expect_program(lab, other, NULL); // in use
	put(other, EXEC("/bin/bash"));
	expect_program(lab, other, "a new program");
	put(other, CONFIG("", "50"));
	expect_program(lab, other, NULL);
	unlink(other);
}

TEST(reload_never_blocks_on_a_pipe) {
	struct lab *lab = *state;
	struct weir_reload_plan plan;

	unlink(lab->file);
	assert_int_equal(mkfifo(lab->file, 0600), 0);
	alarm(10); // ends the test if it hangs
	assert_int_equal(weir_reload_plan(lab->reload, NULL, &plan), -EINVAL);
	alarm(0);
	assert_string_equal(plan.errors.error[0].reason, "not a regular file");
	weir_reload_plan_fini(&plan);
}

TEST(reload_of_other_file_applies_until_a_reload_without_a_file) {
	struct lab *lab = *state;
	struct weir_reload_plan plan;
	char other[64];

	snprintf(other, sizeof(other), "%s/other.json", lab->dir);
	put(other, CONFIG("", "7"));
	assert_int_equal(weir_reload_plan(lab->reload, other, &plan), 0);
	assert_string_equal(weir_reload_file_in_use(lab->reload), lab->file);
	weir_reload_commit(lab->reload, &plan);
	weir_reload_plan_fini(&plan);
	assert_string_equal(weir_reload_file_in_use(lab->reload), other);
	assert_string_equal(weir_reload_file(lab->reload), lab->file);
	assert_int_equal(weir_reload_plan(lab->reload, NULL, &plan), 0);
	assert_string_equal(plan.file, lab->file);
	assert_true(plan.difference.count > 0);
	weir_reload_commit(lab->reload, &plan);
	weir_reload_plan_fini(&plan);
	assert_string_equal(weir_reload_file_in_use(lab->reload), lab->file);
	unlink(other);
}

TEST(reload_keeps_the_dataplane_part_until_it_restarts) {
	struct lab *lab = *state;
	const struct weir_config *config;
	struct weir_reload_plan plan;

	put(lab->file, CONFIG(", \"mtu\": 9000, \"gateway_mac\": \"02:00:00:00:00:09\"", "50"));
	for (int again = 0; again < 2; again++) { // a second call reports the same changes
		assert_int_equal(weir_reload_plan(lab->reload, NULL, &plan), 0);
		assert_string_equal(plan.difference.change[0].what, "port wan mtu");
		assert_true(plan.difference.change[0].needs_restart);
		weir_reload_commit(lab->reload, &plan);
		weir_reload_plan_fini(&plan);
		config = weir_reload_config(lab->reload);
		assert_int_equal(config->ports[0].mtu, 1500);
		assert_int_equal(config->services[0].backends[0].weight, 50);
		// Settings of the port that only control uses apply at once.
		assert_true(config->ports[0].has_gateway_mac);
		assert_int_equal(config->ports[0].gateway_mac[5], 9);
	}
	assert_true(weir_reload_waits(lab->reload));
	assert_int_equal(weir_reload_dataplane_started(lab->reload, NULL), 0);
	assert_ptr_equal(weir_reload_config(lab->reload), config);
	assert_int_equal(config->ports[0].mtu, 9000);
	assert_int_equal(config->services[0].backends[0].weight, 50);
	assert_false(weir_reload_waits(lab->reload));
}

static void reload(struct lab *lab, const char *ports, const char *const *expected) {
	struct weir_reload_plan plan;
	char text[1024], line[256];
	uint32_t i = 0;

	snprintf(
		text, sizeof(text), "{\"ports\": [%s], \"services\": [" SERVICE("100") "]}", ports);
	put(lab->file, text);
	assert_int_equal(weir_reload_plan(lab->reload, NULL, &plan), 0);
	assert_int_equal(weir_reload_plan_taken_back(lab->reload, &plan), 0);
	for (; expected[i] != NULL; i++) {
		assert_true(i < plan.difference.count);
		weir_change_format(&plan.difference.change[i], line, sizeof(line));
		assert_string_equal(line, expected[i]);
	}
	assert_int_equal(plan.difference.count, i);
	weir_reload_commit(lab->reload, &plan);
	weir_reload_plan_fini(&plan);
}

// A change is pending until a restart. If a reload finds the running value in the file again, no
// change is pending any more. If it finds another value, a change is still pending.
TEST(reload_takes_back_what_waits) {
#define WAN(mtu) "{\"name\": \"wan\", \"device\": \"net_null0\"" mtu "}"
#define LAN ", {\"name\": \"lan\", \"device\": \"net_null1\"}"
#define RESTART " (needs a restart of weir-dataplane)"
#define BACK " (cancels a change that was pending until a restart of weir-dataplane)"
	static const struct {
		const char *ports;
		const char *changes[4];
	} cases[] = {
		{WAN(", \"mtu\": 9000") LAN, {"change port wan mtu: 1500 -> 9000" RESTART,
						     "add port lan: net_null1" RESTART}},
		{WAN(", \"mtu\": 2000") LAN, {"change port wan mtu: 1500 -> 2000" RESTART,
						     "add port lan: net_null1" RESTART}},
		{WAN(", \"mtu\": 2000"), {"change port wan mtu: 1500 -> 2000" RESTART,
						 "remove port lan: net_null1" BACK}},
		{WAN(""), {"change port wan mtu: 2000 -> 1500" BACK}},
		{WAN(""), {NULL}},
		{"{\"name\": \"lan\", \"device\": \"net_null1\"}",
			{"remove port wan: net_null0" RESTART, "add port lan: net_null1" RESTART}},
		{WAN(""), {"add port wan: net_null0" BACK, "remove port lan: net_null1" BACK}},
		{"{\"name\": \"lan\", \"device\": \"net_null0\"}",
			{"change port lan name: wan -> lan" RESTART}},
		{WAN(""), {"change port lan name: lan -> wan" BACK}},
	};
	struct lab *lab = *state;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		reload(lab, cases[i].ports, cases[i].changes);
	}
	assert_false(weir_reload_waits(lab->reload));
}

static struct weir_config *parse(const char *text) {
	struct weir_config *config = NULL;
	struct weir_config_errors errors;

	assert_int_equal(weir_config_parse(text, strlen(text), &config, &errors), 0);
	weir_config_errors_fini(&errors);
	return config;
}

static void assert_waits(struct lab *lab, const char *expected) {
	struct weir_difference waiting;
	char line[256] = "";

	assert_int_equal(weir_reload_waiting(lab->reload, &waiting), 0);
	assert_int_equal(waiting.count, expected != NULL ? 1 : 0);
	if (expected != NULL) {
		weir_change_format(&waiting.change[0], line, sizeof(line));
		assert_string_equal(line, expected);
	}
	assert_int_equal(weir_reload_waits(lab->reload), expected != NULL);
	weir_difference_fini(&waiting);
}

// A new control process has read the file, but the dataplane still runs with other values.
TEST(reload_keeps_apart_what_runs_after_a_restart_of_control) {
	struct lab *lab = *state;
	struct weir_config *runs =
		parse("{\"ports\": [{\"name\": \"wan\", \"device\": \"net_null0\", \"mtu\": 9000, "
		      "\"gateway_mac\": \"02:00:00:00:00:09\"}], \"services\": []}");
	const struct weir_config *config = weir_reload_config(lab->reload);
	struct weir_reload_plan plan;

	assert_waits(lab, NULL);
	assert_int_equal(weir_reload_dataplane_started(lab->reload, runs), 0);
	assert_int_equal(config->ports[0].mtu, 9000);
	assert_false(config->ports[0].has_gateway_mac); // only control uses this setting
	assert_int_equal(config->services[0].backends[0].weight, 100);
	assert_waits(lab, "change port wan mtu: 9000 -> 1500 (needs a restart of weir-dataplane)");
	assert_int_equal(weir_reload_plan(lab->reload, NULL, &plan), 0);
	assert_int_equal(plan.difference.count, 1);
	assert_true(plan.difference.change[0].needs_restart);
	weir_reload_commit(lab->reload, &plan);
	weir_reload_plan_fini(&plan);
	assert_waits(lab, "change port wan mtu: 9000 -> 1500 (needs a restart of weir-dataplane)");
	// The dataplane is restarted, first still with its former values, then with the values of
	// the file.
	assert_int_equal(weir_reload_dataplane_started(lab->reload, runs), 0);
	assert_waits(lab, "change port wan mtu: 9000 -> 1500 (needs a restart of weir-dataplane)");
	weir_config_free(runs);
	runs = parse(CONFIG("", "7"));
	assert_int_equal(weir_reload_dataplane_started(lab->reload, runs), 0);
	assert_waits(lab, NULL);
	assert_int_equal(weir_reload_config(lab->reload)->ports[0].mtu, 1500);
	assert_int_equal(weir_reload_config(lab->reload)->services[0].backends[0].weight, 100);
	weir_config_free(runs);
}

// The last reload read another file. A restarted dataplane still reads its own file, so the change
// is still pending.
TEST(reload_of_another_file_waits_although_the_dataplane_restarts) {
	struct lab *lab = *state;
	struct weir_config *runs = parse(CONFIG("", "100"));
	struct weir_reload_plan plan;
	char other[64];

	snprintf(other, sizeof(other), "%s/other.json", lab->dir);
	put(other, CONFIG(", \"mtu\": 9000", "100"));
	assert_int_equal(weir_reload_plan(lab->reload, other, &plan), 0);
	weir_reload_commit(lab->reload, &plan);
	weir_reload_plan_fini(&plan);
	assert_int_equal(weir_reload_dataplane_started(lab->reload, runs), 0);
	assert_int_equal(weir_reload_config(lab->reload)->ports[0].mtu, 1500);
	assert_waits(lab, "change port wan mtu: 1500 -> 9000 (needs a restart of weir-dataplane)");
	weir_config_free(runs);
	unlink(other);
}

// Each allocation fails in turn. Afterwards, either all values are unchanged, or all values are
// new.
TEST(reload_without_memory_keeps_what_runs) {
	struct lab *lab = *state;
	struct weir_config *runs = parse(CONFIG(", \"mtu\": 9000", "100"));
	int r = -ENOMEM;
	long n;

	for (n = 0; r < 0; n++) {
		starved_after(n);
		r = weir_reload_dataplane_started(lab->reload, runs);
		starved_after(-1);
		assert_true(r == 0 || r == -ENOMEM);
		assert_int_equal(weir_reload_config(lab->reload)->port_count, 1);
	}
	assert_true(n > 5);
	assert_waits(lab, "change port wan mtu: 9000 -> 1500 (needs a restart of weir-dataplane)");
	weir_config_free(runs);
}

// client_id, clients, member and members of the instance change at once, even if another change
// in the file needs a restart of the dataplane.
TEST(reload_applies_the_position_of_the_instance) {
	struct lab *lab = *state;
	const struct weir_config_instance *instance;
	struct weir_reload_plan plan;

	for (int wait = 0; wait < 2; wait++) {
		char text[1024];

		snprintf(text, sizeof(text),
			"{\"instance\": {\"name\": \"%s\", \"client_id\": 1, \"clients\": 4, "
			"\"member\": %d, \"members\": 3}, \"ports\": [{\"name\": \"wan\", "
			"\"device\": \"net_null0\"}], \"services\": [" SERVICE("100") "]}",
			wait ? "lb-9" : "weir", 1 + wait);
		put(lab->file, text);
		assert_int_equal(weir_reload_plan(lab->reload, NULL, &plan), 0);
		weir_reload_commit(lab->reload, &plan);
		weir_reload_plan_fini(&plan);
		instance = &weir_reload_config(lab->reload)->instance;
		assert_int_equal(instance->client_id, 1);
		assert_int_equal(instance->clients, 4);
		assert_int_equal(instance->member, 1 + wait);
		assert_int_equal(instance->members, 3);
		assert_string_equal(instance->name, "weir");
	}
	assert_int_equal(weir_reload_dataplane_started(lab->reload, NULL), 0);
	assert_string_equal(weir_reload_config(lab->reload)->instance.name, "lb-9");
	assert_int_equal(weir_reload_config(lab->reload)->instance.member, 2);
}

TEST(reload_create_reports_errors) {
	struct lab *lab = *state;
	struct weir_config_errors errors;
	struct weir_reload *reload = NULL;

	put(lab->file, "{");
	assert_true(weir_reload_create(lab->file, false, &reload, &errors) < 0);
	assert_null(reload);
	assert_int_equal(errors.count, 1);
	weir_config_errors_fini(&errors);
}

// Each allocation of a plan fails in turn. The file also changes settings of the dataplane. The
// error is "out of memory", not an error in the file.
TEST(reload_without_memory_reports_it) {
	struct lab *lab = *state;
	struct weir_reload_plan plan;
	char why[256];
	int r;

	put(lab->file, CONFIG(", \"mtu\": 9000", "50"));
	for (long n = 0;; n++) {
		starved_after(n);
		r = weir_reload_plan(lab->reload, NULL, &plan);
		starved_after(-1);
		if (r == 0) {
			assert_true(n > 10);
			break;
		}
		assert_int_equal(r, -ENOMEM);
		weir_reload_explain(&plan, r, "nobody", why, sizeof(why));
		assert_ptr_equal(strstr(why, "out of memory while reading "), why);
		weir_reload_plan_fini(&plan);
	}
	assert_int_equal(plan.difference.count, 2);
	weir_reload_plan_fini(&plan);
	put(lab->file, "{");
	r = weir_reload_plan(lab->reload, NULL, &plan);
	weir_reload_explain(&plan, r, "nobody", why, sizeof(why));
	assert_non_null(strstr(why, "weir.json has 1 error, in line 1"));
	weir_reload_plan_fini(&plan);
	put(lab->file, "{\"ports\": [],\n\"colour\": 1, \"services\": []}");
	r = weir_reload_plan(lab->reload, NULL, &plan);
	weir_reload_explain(&plan, r, "nobody", why, sizeof(why));
	assert_non_null(strstr(why, "weir.json has "));
	assert_non_null(strstr(why, " errors, the first in line "));
	weir_reload_plan_fini(&plan);
	r = weir_reload_plan(lab->reload, "/nonexistent/a.json", &plan);
	weir_reload_explain(&plan, r, "nobody", why, sizeof(why));
	assert_string_equal(why, "/nonexistent/a.json: cannot read: No such file or directory");
	weir_reload_plan_fini(&plan);
	weir_reload_explain(
		&(struct weir_reload_plan){.file = "/a.json"}, -EACCES, "nobody", why, sizeof(why));
	assert_string_equal(
		why, "user nobody cannot read /a.json: grant the user or its group read access");
}

#define VIA(via) "\"health_check\": {\"type\": \"tcp\", \"via\": \"" via "\"},"
#define WHY "\"data-path\" needs weir-control to be started with --data-path-checks"

static void put_checks(const char *file, const char *first, const char *second) {
	FILE *f = fopen(file, "w");

	fprintf(f,
		"{\"ports\": [{\"name\": \"wan\", \"device\": \"net_null0\"}], \"services\": [\n"
		"{\"name\": \"a\", %s \"binds\": [{\"address\": \"198.51.100.10\", "
		"\"protocol\": \"tcp\", \"port\": 80}], \"backends\": [{\"name\": \"a-1\", "
		"\"address\": \"10.0.0.11\"}]},\n"
		"{\"name\": \"b\", %s \"binds\": [{\"address\": \"198.51.100.10\", "
		"\"protocol\": \"tcp\", \"port\": 81}], \"backends\": [{\"name\": \"b-1\", "
		"\"address\": \"10.0.0.12\"}]}]}",
		first, second);
	fclose(f);
}

// Control cannot do health checks via the data path, so the file is refused. The default seed in
// this file would only cause a warning.
TEST(reload_without_the_ability_refuses_checks_via_the_data_path) {
	struct lab *lab = *state;
	struct weir_reload_plan plan;
	struct weir_config_errors errors;
	struct weir_reload *reload = NULL;

	put_checks(lab->file, VIA("data-path"), VIA("data-path"));
	assert_int_equal(weir_reload_plan(lab->reload, NULL, &plan), -EOPNOTSUPP);
	assert_int_equal(plan.errors.count, 2);
	assert_int_equal(plan.errors.warning_count, 0);
	assert_int_equal(plan.errors.error[0].line, 2);
	assert_string_equal(plan.errors.error[1].path, "services[1].health_check.via");
	assert_non_null(strstr(plan.errors.error[1].reason, WHY));
	weir_reload_plan_fini(&plan);
	assert_true(weir_reload_create(lab->file, false, &reload, &errors) < 0);
	assert_int_equal(errors.count, 2);
	weir_config_errors_fini(&errors);
	assert_int_equal(weir_reload_create(lab->file, true, &reload, &errors), 0);
	weir_config_errors_fini(&errors);
	put_checks(lab->file, VIA("direct"), VIA("data-path"));
	assert_int_equal(weir_reload_plan(reload, NULL, &plan), 0);
	assert_int_equal(plan.difference.count, 1);
	weir_reload_plan_fini(&plan);
	assert_int_equal(weir_reload_plan(lab->reload, NULL, &plan), -EOPNOTSUPP);
	assert_int_equal(plan.errors.count, 1);
	assert_string_equal(plan.errors.error[0].path, "services[1].health_check.via");
	weir_reload_plan_fini(&plan);
	weir_reload_free(reload);
}

// The option for checks via the data path is on, as in the systemd unit. But the host has no TUN
// devices.
TEST(reload_without_tun_devices_refuses_checks_via_the_data_path) {
	struct lab *lab = *state;
	struct weir_reload_plan plan;
	struct weir_config_errors errors;
	struct weir_reload *reload = NULL;

	put_checks(lab->file, VIA("direct"), VIA("direct"));
	assert_int_equal(weir_reload_create(lab->file, true, &reload, &errors), 0);
	weir_config_errors_fini(&errors);
	assert_int_equal(weir_reload_without_data_path(reload), 0);
	put_checks(lab->file, VIA("direct"), VIA("data-path"));
	assert_int_equal(weir_reload_plan(reload, NULL, &plan), -EOPNOTSUPP);
	weir_reload_plan_fini(&plan);
	weir_reload_free(reload);
	assert_int_equal(weir_reload_create(lab->file, true, &reload, &errors), 0);
	weir_config_errors_fini(&errors);
	assert_int_equal(weir_reload_without_data_path(reload), -EOPNOTSUPP);
	weir_reload_free(reload);
}

// --- the stored configuration -------------------------------------------------------------

static int plan_stored(struct lab *lab, struct weir_reload_plan *plan) {
	weir_reload_plan_fini(plan);
	return weir_reload_plan_stored(lab->reload, lab->dir, plan);
}

static uint32_t weight_of(const struct weir_config *config) {
	return config->services[0].backends[0].weight;
}

TEST(configuration_in_use_is_stored_once) {
	struct lab *lab = *state;
	struct weir_reload_plan plan = {0};
	char dir[64], stored[96];
	struct stat status;

	snprintf(dir, sizeof(dir), "%s/control", lab->dir);
	snprintf(stored, sizeof(stored), "%s/applied.json", dir);
	assert_int_equal(weir_reload_store(lab->reload, lab->dir), -ENOENT);
	assert_int_equal(mkdir(dir, 0700), 0);
	assert_int_equal(plan_stored(lab, &plan), -ENOENT);
	assert_int_equal(weir_reload_store(lab->reload, lab->dir), 0);
	assert_int_equal(stat(stored, &status), 0);
	assert_int_equal(status.st_mode & 0777, 0600);
	put(lab->file, CONFIG("", "7"));
	weir_reload_plan_fini(&plan);
	assert_int_equal(weir_reload_plan(lab->reload, NULL, &plan), 0);
	weir_reload_commit(lab->reload, &plan);
	assert_int_equal(plan_stored(lab, &plan), 0);
	assert_int_equal(weight_of(plan.config), 100);
	assert_int_equal(weir_reload_store(lab->reload, lab->dir), 0);
	assert_int_equal(plan_stored(lab, &plan), 0);
	assert_int_equal(weight_of(plan.config), 7);
	weir_reload_commit(lab->reload, &plan);
	assert_string_equal(weir_reload_file(lab->reload), lab->file);
	assert_string_equal(weir_reload_file_in_use(lab->reload), lab->file);
	assert_int_equal(unlink(stored), 0);
	assert_int_equal(weir_reload_store(lab->reload, lab->dir), 0); // it was stored already
	assert_int_equal(plan_stored(lab, &plan), -ENOENT);
	put(stored, "{\"services\": 1}");
	assert_int_equal(plan_stored(lab, &plan), -EINVAL);
	weir_reload_plan_fini(&plan);
	unlink(stored);
	rmdir(dir);
}

// A stored configuration does not change what waits for a restart of the dataplane.
TEST(stored_configuration_keeps_the_waiting_changes) {
	struct lab *lab = *state;
	struct weir_difference waiting;
	struct weir_reload_plan plan = {0};
	char dir[64], stored[96];

	snprintf(dir, sizeof(dir), "%s/control", lab->dir);
	snprintf(stored, sizeof(stored), "%s/applied.json", dir);
	assert_int_equal(mkdir(dir, 0700), 0);
	assert_int_equal(weir_reload_store(lab->reload, lab->dir), 0);
	put(lab->file, CONFIG(", \"mtu\": 1400", "7"));
	assert_int_equal(weir_reload_plan(lab->reload, NULL, &plan), 0);
	weir_reload_commit(lab->reload, &plan);
	assert_true(weir_reload_waits(lab->reload));
	assert_int_equal(plan_stored(lab, &plan), 0);
	weir_reload_commit(lab->reload, &plan);
	weir_reload_plan_fini(&plan);
	assert_int_equal(weight_of(weir_reload_config(lab->reload)), 100);
	assert_int_equal(weir_reload_waiting(lab->reload, &waiting), 0);
	assert_int_equal(waiting.count, 1);
	weir_difference_fini(&waiting);
	unlink(stored);
	rmdir(dir);
}
