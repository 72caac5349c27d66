// SPDX-License-Identifier: BSD-3-Clause
//
// Arguments: the folder of sample configurations, and the folder of invalid configurations
// (generated from broken.txt).
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <pthread.h>
#include <unistd.h>

#include "config_lab.h"

TEST_ARGUMENT(samples_folder);
TEST_ARGUMENT(broken_folder);

TEST(minimal_configuration_and_defaults) {
	struct weir_config *config = parse_good(CONFIG("", ""));

	assert_string_equal(config->instance.name, "weir");
	assert_int_equal(config->instance.client_id, 0);
	assert_int_equal(config->instance.clients, 1);
	assert_true(config->instance.hash_seed == 0x5765697253656564);
	assert_int_equal(config->workers.count, 1);
	assert_int_equal(config->workers.cores[0], 0);
	assert_int_equal(config->workers.idle, WEIR_IDLE_YIELD);
	assert_true(config->workers.steal);
	assert_int_equal(config->flow_table.flows_per_worker, 1048576);
	assert_int_equal(config->flow_table.half_open_percent, 25);
	assert_int_equal(config->flow_table.syn_seen_ms, 5000);
	assert_int_equal(config->flow_table.established_ms, 900000);
	assert_int_equal(config->flow_table.ipv6_percent, 25);
	assert_int_equal(config->flow_table.closing_ms, 60000);
	assert_int_equal(config->flow_table.udp_ms, 30000);
	assert_int_equal(config->flow_table.young_ms, 10000);
	assert_int_equal(config->flow_table.udp_seen_ms, 5000);
	assert_int_equal(config->fragments.entries, 4096);
	assert_int_equal(config->fragments.timeout_ms, 5000);
	assert_int_equal(config->icmp.echo_per_second, 1000);
	assert_int_equal(config->icmp.too_big_per_second, 1000);
	assert_int_equal(config->icmp.unreachable_per_second, 1000);
	assert_int_equal(config->segment.max_services, 1024);
	assert_int_equal(config->segment.max_backends, 16384);
	assert_true(config->segment.heap_bytes == 4294967296);
	assert_false(config->segment.huge_pages);
	assert_int_equal(config->service_count, 0);
	weir_config_free(config);
}

// Keys that an object omits have their defaults.
TEST(partial_objects_keep_defaults) {
	struct weir_config *config = parse_good(
		CONFIG("\"flow_table\": {\"timeout_ms\": {\"udp\": 200}},"
		       "\"workers\": {\"idle\": \"poll\", \"steal\": false}, \"segment\": "
		       "{\"huge_pages\": true},",
			""));

	assert_int_equal(config->flow_table.udp_ms, 200);
	assert_int_equal(config->flow_table.syn_seen_ms, 5000);
	assert_int_equal(config->flow_table.flows_per_worker, 1048576);
	assert_int_equal(config->workers.idle, WEIR_IDLE_POLL);
	assert_false(config->workers.steal);
	assert_int_equal(config->workers.count, 1);
	assert_true(config->segment.huge_pages);
	assert_int_equal(config->segment.max_services, 1024);
	weir_config_free(config);
}

static int ends_with(const char *text, const char *end) {
	size_t a = strlen(text), b = strlen(end);

	return a >= b && strcmp(text + a - b, end) == 0;
}

TEST(samples_are_valid) {
	DIR *folder = opendir(samples_folder);
	struct dirent *entry;
	int samples = 0;

	assert_non_null(folder);
	while ((entry = readdir(folder))) {
		struct weir_config_errors errors;
		struct weir_config *config;
		char path[600];

		if (!ends_with(entry->d_name, ".json") || ends_with(entry->d_name, ".base.json")) {
			continue;
		}
		snprintf(path, sizeof(path), "%s/%s", samples_folder, entry->d_name);
		if (weir_config_read(path, &config, &errors)) {
			fail_msg("%s:%d: %s: %s", path, errors.error[0].line, errors.error[0].path,
				errors.error[0].reason);
		}
		assert_true(config->port_count > 0 && config->service_count > 0);
		// Samples have the default seed: another seed in a sample would be public, too.
		for (uint32_t i = 0; i < errors.warning_count; i++) {
			assert_string_equal(errors.warning[i].path, "instance.hash_seed");
		}
		weir_config_errors_fini(&errors);
		weir_config_free(config);
		samples++;
	}
	closedir(folder);
	assert_true(samples >= 4);
}

static void format_errors(const struct weir_config_errors *errors, char *text, size_t bytes) {
	size_t used = 0;

	text[0] = '\0';
	for (uint32_t i = 0; i < errors->count; i++) {
		const struct weir_config_error *error = &errors->error[i];

		used += (size_t)snprintf(text + used, bytes - used, "%d:%d: %s: %s\n", error->line,
			error->column, error->path, error->reason);
		assert_true(used < bytes);
	}
}

static void read_expected(const char *path, char *text, size_t bytes) {
	FILE *file = fopen(path, "r");
	size_t used;

	if (file == NULL) {
		fail_msg("%s: %s", path, strerror(errno));
	}
	used = fread(text, 1, bytes - 1, file);
	text[used] = '\0';
	fclose(file);
}

// Each NAME.json has exactly the errors in NAME.expected. Both are generated from broken.txt.
TEST(broken_configurations_are_refused_with_reason) {
	DIR *folder = opendir(broken_folder);
	int files = 0, wrong = 0;
	struct dirent *entry;

	assert_non_null(folder);
	while ((entry = readdir(folder))) {
		struct weir_config *config = (void *)&config;
		struct weir_config_errors errors;
		static char found[65536], expected[65536];
		char path[600];

		if (!ends_with(entry->d_name, ".json")) {
			continue;
		}
		files++;
		snprintf(path, sizeof(path), "%s/%s", broken_folder, entry->d_name);
		assert_int_equal(weir_config_read(path, &config, &errors), -EINVAL);
		assert_ptr_equal(config, &config);
		format_errors(&errors, found, sizeof(found));
		weir_config_errors_fini(&errors);
		snprintf(strrchr(path, '.'), 10, ".expected");
		read_expected(path, expected, sizeof(expected));
		assert_true(expected[0] != '\0');
		if (strcmp(found, expected) != 0) {
			print_error("%s\nexpected: %sfound:    %s", path, expected, found);
			wrong++;
		}
	}
	closedir(folder);
	assert_int_equal(wrong, 0);
	assert_true(files >= 170);
}

TEST(read_reports_the_system_error) {
	struct weir_config *config = (void *)&config;
	struct weir_config_errors errors;

	assert_int_equal(weir_config_read("/nonexistent/weir.json", &config, &errors), -ENOENT);
	assert_int_equal(errors.count, 1);
	assert_int_equal(errors.error[0].line, 0);
	assert_non_null(strstr(errors.error[0].reason, "No such file"));
	weir_config_errors_fini(&errors);
	assert_int_equal(weir_config_read("/", &config, &errors), -EISDIR);
	assert_int_equal(errors.count, 1);
	weir_config_errors_fini(&errors);
	assert_ptr_equal(config, &config);
}

static void *write_pipe(void *argument) {
	static const char text[] = CONFIG("", SERVICE("", BIND, BACKEND));
	int fd = *(int *)argument;

	for (size_t i = 0; i < sizeof(text) - 1; i++) {
		if (write(fd, text + i, 1) != 1) {
			break;
		}
	}
	close(fd);
	return NULL;
}

TEST(read_from_a_pipe) {
	struct weir_config *config;
	struct weir_config_errors errors;
	pthread_t writer;
	char path[40];
	int fds[2];

	assert_int_equal(pipe(fds), 0);
	assert_int_equal(pthread_create(&writer, NULL, write_pipe, &fds[1]), 0);
	snprintf(path, sizeof(path), "/dev/fd/%d", fds[0]);
	assert_int_equal(weir_config_read(path, &config, &errors), 0);
	assert_int_equal(config->service_count, 1);
	pthread_join(writer, NULL);
	close(fds[0]);
	weir_config_errors_fini(&errors);
	weir_config_free(config);
}

TEST(read_of_an_endless_file_ends) {
	struct weir_config *config;
	struct weir_config_errors errors;

	assert_int_equal(weir_config_read("/dev/zero", &config, &errors), -EFBIG);
	assert_int_equal(errors.count, 1);
	weir_config_errors_fini(&errors);
}

// The design scale: 1,000 services, 10,000 backends.
TEST(a_thousand_services) {
	size_t room = 4 << 20, used = 0;
	char *text = malloc(room);
	struct weir_config *config;

	assert_non_null(text);
	used += (size_t)snprintf(text + used, room - used, "{" PORTS ", \"services\": [");
	for (int s = 0; s < 1000; s++) {
		used += (size_t)snprintf(text + used, room - used,
			"%s{\"name\": \"s%d\", \"binds\": [{\"address\": \"198.51.%d.%d\", "
			"\"protocol\": \"tcp\", \"port\": 80}], \"backends\": [\n",
			s ? "," : "", s, s / 250, s % 250);
		for (int b = 0; b < 10; b++) {
			used += (size_t)snprintf(text + used, room - used,
				"%s{\"name\": \"b%d\", \"address\": \"10.%d.%d.%d\"}\n",
				b ? "," : "", b, b, s / 250, s % 250 + 1);
		}
		used += (size_t)snprintf(text + used, room - used, "]}");
	}
	used += (size_t)snprintf(text + used, room - used, "]}");
	assert_true(used < room);
	config = parse_good(text);
	assert_int_equal(config->service_count, 1000);
	assert_string_equal(config->services[999].backends[9].name, "b9");
	assert_int_equal(config->services[999].backends[9].line, 1 + 999 * 11 + 10);
	weir_config_free(config);
	free(text);
}

TEST(check_names) {
	assert_string_equal(weir_config_check_name(WEIR_CHECK_NONE), "none");
	assert_string_equal(weir_config_check_name(WEIR_CHECK_TCP), "tcp");
	assert_string_equal(weir_config_check_name(WEIR_CHECK_HTTP), "http");
	assert_string_equal(weir_config_check_name(WEIR_CHECK_UDP), "udp");
	assert_string_equal(weir_config_check_name(WEIR_CHECK_PING), "ping");
	assert_string_equal(weir_config_check_name((enum weir_config_check)99), "unknown");
}

TEST(free_of_null) {
	struct weir_config_errors errors = {0};

	weir_config_free(NULL);
	weir_config_errors_fini(&errors);
}
