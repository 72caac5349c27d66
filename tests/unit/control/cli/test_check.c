// SPDX-License-Identifier: BSD-3-Clause
//
// Arguments of the test: a valid configuration, an invalid configuration, and a file with the
// errors that are expected for the invalid configuration.
#include <fcntl.h>
#include <jansson.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "cli_lab.h"

TEST_ARGUMENT(good_file);
TEST_ARGUMENT(broken_file);
TEST_ARGUMENT(expected_file);

// A service that causes no warning.
#define A_SERVICE \
	"\"instance\": {\"hash_seed\": \"0x8f1d2c3b4a596877\"}, \"services\": [{\"name\": " \
	"\"web\", \"binds\": [{\"address\": \"198.51.100.10\", \"protocol\": \"tcp\", " \
	"\"port\": 80}], \"health_check\": {\"type\": \"none\"}, \"backends\": [{\"name\": " \
	"\"a\", \"address\": \"10.0.0.1\"}]}]}\n"

TEST(valid_file_is_ok_without_daemon) {
	struct outcome outcome = RUN("/nonexistent", "config", "check", (char *)good_file);
	char expected[600];

	assert_int_equal(outcome.status, 0);
	snprintf(expected, sizeof(expected),
		"\n%s: ok (ports: 1, workers: 1, services: 1, backends: 4, warnings: 2)\n",
		good_file);
	expect_contains(outcome.out, expected);
	snprintf(expected, sizeof(expected), "%s:4:14: warning: instance.hash_seed: is the default",
		good_file);
	assert_memory_equal(outcome.out, expected, strlen(expected));
	free_outcome(&outcome);
}

TEST(strict_makes_warnings_errors) {
	struct outcome outcome =
		RUN("/nonexistent", "config", "check", "--strict", (char *)good_file);
	char expected[600];

	assert_int_equal(outcome.status, 1);
	snprintf(expected, sizeof(expected), "%s:4:14: instance.hash_seed: is the default",
		good_file);
	assert_memory_equal(outcome.out, expected, strlen(expected));
	snprintf(expected, sizeof(expected), "\n%s:11: warning: ports[0].device: interface lb0",
		good_file); // this host has no such interface
	assert_memory_equal(strchr(outcome.out, '\n'), expected, strlen(expected));
	assert_ptr_equal(
		strchr(strchr(outcome.out, '\n') + 1, '\n'), outcome.out + strlen(outcome.out) - 1);
	assert_string_equal(outcome.err, "");
	free_outcome(&outcome);
	// An invalid file is also an error with --strict.
	outcome = RUN("/nonexistent", "config", "check", (char *)broken_file, "--strict");
	assert_int_equal(outcome.status, 1);
	free_outcome(&outcome);
	outcome = RUN("/nonexistent", "config", "diff", "--strict");
	assert_int_equal(outcome.status, 2);
	expect_contains(outcome.err, "--strict is not an option of config diff");
	free_outcome(&outcome);
}

TEST(strict_accepts_a_file_without_warnings) {
	char path[] = "/tmp/weir-test-XXXXXX";
	FILE *file = fdopen(mkstemp(path), "w");
	struct outcome outcome;

	assert_non_null(file);
	fprintf(file, "{\"ports\": [{\"name\": \"wan\", \"device\": \"net_null0\"}], " A_SERVICE);
	fclose(file);
	outcome = RUN("/nonexistent", "config", "check", "--strict", path);
	unlink(path);
	assert_int_equal(outcome.status, 0);
	expect_contains(outcome.out, ": ok (ports: 1, workers: 1, services: 1, backends: 1)\n");
	free_outcome(&outcome);
}

TEST(a_file_without_services_is_accepted_with_a_warning) {
	char path[] = "/tmp/weir-test-XXXXXX", expected[160];
	FILE *file = fdopen(mkstemp(path), "w");
	struct outcome outcome;

	assert_non_null(file);
	fprintf(file, "{\"ports\": [{\"name\": \"wan\", \"device\": \"net_null0\"}],\n"
		      "\"services\": []}\n");
	fclose(file);
	outcome = RUN("/nonexistent", "config", "check", path);
	assert_int_equal(outcome.status, 0);
	snprintf(expected, sizeof(expected),
		"%s:2:13: warning: services: is empty: nothing is forwarded", path);
	expect_contains(outcome.out, expected);
	expect_contains(outcome.out, "services: 0, backends: 0, warnings: 1)\n");
	free_outcome(&outcome);
	outcome = RUN("/nonexistent", "config", "check", "--strict", path);
	unlink(path);
	assert_int_equal(outcome.status, 1);
	free_outcome(&outcome);
}

// An interface that does not exist is only a warning, even with --strict, because the file may be
// for another host.
TEST(interface_that_does_not_exist_is_a_warning) {
	static const char *const words[][2] = {{"--json", NULL}, {"--strict", "--json"}};
	char path[] = "/tmp/weir-test-XXXXXX";
	FILE *file = fdopen(mkstemp(path), "w");
	struct outcome outcome;

	assert_non_null(file);
	fprintf(file, "{\"ports\": [\n"
		      "{\"name\": \"a\", \"device\": \"net_af_xdp0,iface=lo\", "
		      "\"queues\": 3},\n"
		      "{\"name\": \"b\", \"device\": \"net_af_xdp1,start_queue=1,iface=none-7\"},\n"
		      "{\"name\": \"c\", \"device\": \"net_tap0,iface=none-8\"}],\n" A_SERVICE);
	fclose(file);
	for (size_t i = 0; i < 2; i++) {
		json_t *result;
		const json_t *warnings, *first;

		outcome = RUN("/nonexistent", "config", "check", path, (char *)words[i][0],
			(char *)words[i][1]);
		assert_int_equal(outcome.status, 0);
		result = json_loads(outcome.out, 0, NULL);
		warnings = json_object_get(result, "warnings");
		first = json_array_get(warnings, 0);
		assert_int_equal(json_array_size(warnings), 2);
		assert_string_equal(
			json_string_value(json_object_get(first, "path")), "ports[0].queues");
		expect_contains(json_string_value(json_object_get(first, "reason")),
			"interface lo has 1 queue, fewer than 3, and weir-dataplane would not "
			"start; lower \"queues\", or run \"ethtool -L lo combined 3\"");
		first = json_array_get(warnings, 1);
		assert_int_equal(json_integer_value(json_object_get(first, "line")), 3);
		assert_string_equal(
			json_string_value(json_object_get(first, "path")), "ports[1].device");
		expect_contains(json_string_value(json_object_get(first, "reason")),
			"interface none-7 does not exist on this host, and weir-dataplane would "
			"not start; interfaces: ");
		json_decref(result);
		free_outcome(&outcome);
	}
	outcome = RUN("/nonexistent", "config", "check", path);
	unlink(path);
	expect_contains(outcome.out, ":3: warning: ports[1].device: interface none-7 does not");
	expect_contains(outcome.out, "backends: 1, warnings: 2)\n");
	free_outcome(&outcome);
}

// Write a configuration with a key file for agents. agents: whether the service has agents.
static void write_with_keys(const char *path, const char *key_file, bool agents) {
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	fprintf(file,
		"{\"ports\": [{\"name\": \"a\", \"device\": \"net_null0\"}], \"agents\": "
		"{\"key_file\": \"%s\"}, \"services\": [{\"name\": \"s\", \"binds\": "
		"[{\"address\": \"198.51.100.10\", \"protocol\": \"tcp\", \"port\": 80}], "
		"%s \"backends\": [{\"name\": \"b\", \"address\": \"10.0.0.1\"}]}]}\n",
		key_file, agents ? "\"agent\": {}," : "");
	fclose(file);
}

TEST(key_file_that_weir_control_would_not_read_is_a_warning) {
	static const char good[] =
		"7 000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n";
	static const struct {
		const char *contents; // NULL = no file
		mode_t mode;
		bool agents;
		const char *expected; // NULL = no warning
	} rows[] = {
		{good, 0600, true, NULL},
		{NULL, 0, false, NULL},
		{"7 0001\n", 0600, true, ".keys:1: expected 64 hexadecimal digits"},
		{good, 0644, true, "too permissive"},
		{NULL, 0, true, "No such file or directory"},
	};
	char path[] = "/tmp/weir-test-XXXXXX", keys[64];

	close(mkstemp(path));
	snprintf(keys, sizeof(keys), "%s.keys", path);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct outcome outcome;
		FILE *file;

		unlink(keys);
		if (rows[i].contents != NULL) {
			file = fopen(keys, "w");
			assert_non_null(file);
			fputs(rows[i].contents, file);
			assert_int_equal(fchmod(fileno(file), rows[i].mode), 0);
			fclose(file);
		}
		write_with_keys(path, keys, rows[i].agents);
		outcome = RUN("/nonexistent", "config", "check", path);
		assert_int_equal(outcome.status, 0);
		if (rows[i].expected == NULL) {
			assert_null(strstr(outcome.out, "key_file"));
		} else {
			expect_contains(outcome.out, ": warning: agents.key_file: ");
			expect_contains(outcome.out, rows[i].expected);
			expect_contains(outcome.out,
				"; weir-control on this host would not probe the agents\n");
		}
		free_outcome(&outcome);
	}
	unlink(path);
}

// Write a configuration with two services whose https checks use the same CA file. keys: further
// keys of the checks.
static void write_with_ca(const char *path, const char *ca_file, const char *keys) {
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	fprintf(file,
		"{\"ports\": [{\"name\": \"a\", \"device\": \"net_null0\"}], \"services\": [");
	for (int i = 0; i < 2; i++) {
		fprintf(file,
			"%s\n{\"name\": \"s%d\", \"binds\": [{\"address\": \"198.51.100.1%d\", "
			"\"protocol\": \"tcp\", \"port\": 443}], \"health_check\": {\"type\": "
			"\"https\", %s%s%s%s}, \"backends\": [{\"name\": \"b\", \"address\": "
			"\"10.0.0.1\"}]}",
			i > 0 ? "," : "", i, i, keys, ca_file != NULL ? "\"ca_file\": \"" : "",
			ca_file != NULL ? ca_file : "", ca_file != NULL ? "\"" : "");
	}
	fprintf(file, "]}\n");
	fclose(file);
}

static void expect_ca_warning(const char *path, const char *expected) {
	struct outcome outcome = RUN("/nonexistent", "config", "check", (char *)path);
	const char *first = strstr(outcome.out, ":2: warning: services[0].health_check.ca_file: ");

	assert_int_equal(outcome.status, 0);
	if (expected == NULL) {
		assert_null(strstr(outcome.out, "ca_file"));
	} else {
		assert_non_null(first);
		expect_contains(first, expected);
		expect_contains(first,
			"; health checks of weir-control on this host would have no result\n");
		// one warning for the file
		assert_null(strstr(strstr(first, "ca_file: ") + 1, "ca_file: "));
	}
	free_outcome(&outcome);
}

TEST(ca_file_that_weir_control_would_not_read_is_a_warning) {
	char path[] = "/tmp/weir-test-XXXXXX", ca[64];
	FILE *file;

	close(mkstemp(path));
	snprintf(ca, sizeof(ca), "%s.pem", path);
	write_with_ca(path, NULL, "\"path\": \"/\"");
	expect_ca_warning(path, NULL);
	write_with_ca(path, ca, "");
	expect_ca_warning(path, ".pem: No such file or directory");
	file = fopen(ca, "w");
	assert_non_null(file);
	fputs("-----BEGIN PRIVATE KEY-----\n", file);
	fflush(file);
	expect_ca_warning(path, ".pem: no certificate in PEM");
	fputs("AAAA\n-----END PRIVATE KEY-----\n-----BEGIN CERTIFICATE-----\nAAAA\n", file);
	assert_int_equal(fchmod(fileno(file), 0644), 0);
	fclose(file);
	expect_ca_warning(path, NULL);
	unlink(ca);
	assert_int_equal(mkdir(ca, 0755), 0);
	expect_ca_warning(path, ".pem: not a regular file");
	rmdir(ca);
	assert_int_equal(mkfifo(ca, 0644), 0);
	expect_ca_warning(path, ".pem: not a regular file");
	unlink(ca);
	unlink(path);
}

// The same program of notify and of two checks has a warning for each kind.
static void expect_program_warning(const char *path, const char *program, const char *expected) {
	struct outcome outcome;
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	fprintf(file,
		"{\"ports\": [{\"name\": \"a\", \"device\": \"net_null0\"}], \"notify\": "
		"{\"command\": [\"%s\"]}, \"services\": [",
		program);
	for (int i = 0; i < 2; i++) {
		fprintf(file,
			"%s\n{\"name\": \"s%d\", \"binds\": [{\"address\": \"198.51.100.1%d\", "
			"\"protocol\": \"tcp\", \"port\": 443}], \"health_check\": {\"type\": "
			"\"exec\", \"command\": [\"%s\", \"%d\"]}, \"backends\": [{\"name\": "
			"\"b\", \"address\": \"10.0.0.1\"}]}",
			i > 0 ? "," : "", i, i, program, i);
	}
	fprintf(file, "]}\n");
	fclose(file);
	outcome = RUN("/nonexistent", "config", "check", (char *)path);
	assert_int_equal(outcome.status, 0);
	if (expected == NULL) {
		assert_null(strstr(outcome.out, "would not run it"));
	} else {
		expect_contains(outcome.out, expected);
		expect_contains(outcome.out, " warning: notify.command: ");
		expect_contains(outcome.out, ":2: warning: services[0].health_check.command: ");
		assert_null(strstr(outcome.out, "services[1].health_check.command"));
	}
	free_outcome(&outcome);
}

TEST(program_that_this_host_cannot_run_is_a_warning) {
	char path[] = "/tmp/weir-test-XXXXXX", program[64];

	close(mkstemp(path));
	snprintf(program, sizeof(program), "%s.sh", path);
	expect_program_warning(path, "/bin/true", NULL);
	expect_program_warning(
		path, "/tmp", "/tmp: not a regular file; weir-control would not run");
	expect_program_warning(path, program, ".sh: No such file or directory");
	close(open(program, O_CREAT | O_WRONLY, 0644));
	expect_program_warning(path, program, ".sh: not executable: chmod +x");
	assert_int_equal(chmod(program, 0757), 0);
	expect_program_warning(path, program, "users other than root can change the file");
	assert_int_equal(chmod(program, 0755), 0);
	expect_program_warning(path, program, NULL);
	if (geteuid() == 0) {
		assert_int_equal(chown(program, 54321, 0), 0);
		expect_program_warning(path, program, ".sh: its owner is neither root nor");
	}
	unlink(program);
	unlink(path);
}

// Adds a user named weir, in the mount namespace of this process. Returns false without root.
static bool add_user(const char *passwd) {
	FILE *file = fopen(passwd, "w");

	assert_non_null(file);
	fprintf(file, "root:x:0:0::/:/bin/sh\nweir:x:54321:54321::/:/bin/false\n");
	fclose(file);
	return geteuid() == 0 && unshare(CLONE_NEWNS) == 0 &&
	       mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
	       mount(passwd, "/etc/passwd", NULL, MS_BIND, NULL) == 0;
}

TEST(backend_on_this_host_is_a_warning) {
	char path[] = "/tmp/weir-test-XXXXXX";
	const int fd = mkstemp(path);
	struct outcome outcome;

	dprintf(fd, "{\"ports\": [{\"name\": \"wan\", \"device\": \"net_null0\"}], " A_SERVICE);
	close(fd);
	if (geteuid() != 0 || unshare(CLONE_NEWNET) < 0) {
		unlink(path);
		skip();
	}
	outcome = RUN("/nonexistent", "config", "check", "--strict", path);
	assert_null(strstr(outcome.out, "is an address of this host"));
	free_outcome(&outcome);
	assert_int_equal(system("ip link set lo up && ip address add 10.0.0.1/32 dev lo"), 0);
	outcome = RUN("/nonexistent", "config", "check", "--strict", path);
	assert_int_equal(outcome.status, 0);
	expect_contains(outcome.out,
		"warning: services[0].backends[0].address: is an address of this host");
	free_outcome(&outcome);
	assert_int_equal(system("ip address del 10.0.0.1/32 dev lo"), 0);
	unlink(path);
}

TEST(ca_file_that_only_root_may_read_is_a_warning) {
	char path[] = "/tmp/weir-test-XXXXXX", ca[64], passwd[64];
	FILE *file;

	close(mkstemp(path));
	snprintf(ca, sizeof(ca), "%s.pem", path);
	snprintf(passwd, sizeof(passwd), "%s.passwd", path);
	file = fopen(ca, "w");
	assert_non_null(file);
	fputs("-----BEGIN CERTIFICATE-----\n", file);
	assert_int_equal(fchmod(fileno(file), 0600), 0);
	fclose(file);
	write_with_ca(path, ca, "");
	if (!add_user(passwd)) {
		unlink(path);
		unlink(ca);
		unlink(passwd);
		skip();
	}
	expect_ca_warning(path, ".pem: mode 0600, owner root, group root");
	assert_int_equal(chmod(ca, 0644), 0);
	expect_ca_warning(path, NULL);
	assert_int_equal(umount("/etc/passwd"), 0);
	unlink(path);
	unlink(ca);
	unlink(passwd);
}

TEST(cpu_that_is_not_online_is_a_warning) {
	char path[] = "/tmp/weir-test-XXXXXX";
	FILE *file = fdopen(mkstemp(path), "w");
	struct outcome outcome;

	assert_non_null(file);
	fprintf(file, "{\"ports\": [{\"name\": \"a\", \"device\": \"net_null0\"}], "
		      "\"workers\": {\"cores\": [0, 1023]}, " A_SERVICE);
	fclose(file);
	outcome = RUN("/nonexistent", "config", "check", "--strict", path);
	unlink(path);
	assert_int_equal(outcome.status, 0);
	expect_contains(outcome.out, "warning: workers.cores[1]: CPU 1023 is not online on this "
				     "host, and weir-dataplane would not start; use "
				     "CPUs that \"lscpu -e\" lists as online\n");
	expect_contains(outcome.out, "backends: 1, warnings: 1)\n");
	free_outcome(&outcome);
}

// Check "ok" and the number of errors and warnings in the result of config check.
static void expect_json(const char *strict, bool ok, size_t errors, size_t warnings) {
	struct outcome outcome =
		RUN(NULL, "config", "check", "--json", (char *)good_file, (char *)strict);
	json_t *result = json_loads(outcome.out, 0, NULL);
	const json_t *list = json_object_get(result, ok ? "warnings" : "errors");
	const json_t *first = json_array_get(list, 0);

	assert_int_equal(outcome.status, ok ? 0 : 1);
	assert_int_equal(json_is_true(json_object_get(result, "ok")), ok);
	assert_int_equal(json_array_size(json_object_get(result, "errors")), errors);
	assert_int_equal(json_array_size(json_object_get(result, "warnings")), warnings);
	assert_string_equal(
		json_string_value(json_object_get(first, "path")), "instance.hash_seed");
	assert_int_equal(json_integer_value(json_object_get(first, "line")), 4);
	json_decref(result);
	free_outcome(&outcome);
}

TEST(json_form_has_warnings) {
	expect_json(NULL, true, 0, 2);
	expect_json("--strict", false, 1, 1);
}

// weirctl prints one line for each error. The errors are the same as in the test of the parser.
TEST(invalid_file_lists_every_error) {
	struct outcome outcome = RUN("/nonexistent", "config", "check", (char *)broken_file);
	FILE *expected = fopen(expected_file, "r");
	const char *found = outcome.out;
	char line[700], whole[1400];
	int lines = 0;

	assert_int_equal(outcome.status, 1);
	assert_non_null(expected);
	while (fgets(line, sizeof(line), expected) != NULL) {
		snprintf(whole, sizeof(whole), "%s:%s", broken_file, line);
		assert_memory_equal(found, whole, strlen(whole));
		found += strlen(whole);
		lines++;
	}
	fclose(expected);
	assert_true(lines > 5);
	assert_string_equal(found, "");
	free_outcome(&outcome);
}

TEST(json_form) {
	struct outcome outcome = RUN(NULL, "config", "check", (char *)broken_file, "--json");
	json_t *result = json_loads(outcome.out, 0, NULL);

	assert_int_equal(outcome.status, 1);
	assert_true(json_is_false(json_object_get(result, "ok")));
	assert_true(json_array_size(json_object_get(result, "errors")) > 5);
	json_decref(result);
	free_outcome(&outcome);
	outcome = RUN(NULL, "--json", "config", "check", (char *)good_file);
	assert_int_equal(outcome.status, 0);
	expect_contains(outcome.out, "\"ok\": true");
	free_outcome(&outcome);
}

TEST(unreadable_file_is_refused) {
	struct outcome outcome = RUN(NULL, "config", "check", "/nonexistent/weir.json");

	assert_int_equal(outcome.status, 1);
	assert_string_equal(
		outcome.out, "/nonexistent/weir.json: cannot read: No such file or directory\n");
	free_outcome(&outcome);
}

TEST(standard_input_is_read) {
	int saved = dup(0), fds[2];
	struct outcome outcome;

	assert_int_equal(pipe(fds), 0);
	assert_int_equal(write(fds[1], "{}", 2), 2);
	close(fds[1]);
	dup2(fds[0], 0);
	outcome = RUN(NULL, "config", "check", "-");
	dup2(saved, 0);
	close(saved);
	close(fds[0]);
	assert_int_equal(outcome.status, 1);
	expect_contains(outcome.out, "-:1:1: \"ports\" is missing; add it\n");
	free_outcome(&outcome);
}

TEST(errors_of_a_peer_are_escaped) {
	json_t *errors = json_loads(
		JSON([{"line": 3, "column": 0, "path": "a\u001bb", "reason": "x\ny"}, {},
			7]), 0, NULL);
	char *text;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	weir_cli_print_errors(out, "f\x1b", "", errors);
	weir_cli_print_errors(out, "f", "", NULL);
	weir_cli_print_errors(out, "g", " warning:", errors);
	fclose(out);
	assert_string_equal(text, "f\\x1b:3: a\\x1bb: x\\x0ay\nf\\x1b: -\nf\\x1b: -\n"
				  "g:3: warning: a\\x1bb: x\\x0ay\ng: warning: -\ng: warning: -\n");
	free(text);
	json_decref(errors);
}
