// SPDX-License-Identifier: BSD-3-Clause
//
// Tests weirctl config init.
#include <sys/stat.h>
#include <unistd.h>

#include "cli_lab.h"
#include "config.h"
#include "init.h"

#define HEAD "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"
#define ROUTE(interface, destination, mask, metric) \
	interface "\t" destination "\t010200C0\t0003\t0\t0\t" metric "\t" mask "\t0\t0\t0\n"
#define ZEROS "00000000000000000000000000000000"
#define ROUTE6(interface, bits, metric, flags) \
	ZEROS " " bits " " ZEROS " 00 " ZEROS " " metric " 00000001 00000000 " flags \
	      "   " interface "\n"

struct lab {
	char dir[32];
	char file[64];
};

static int setup(void **state) {
	struct lab *lab = calloc(1, sizeof(*lab));

	strcpy(lab->dir, "/tmp/weir-test-XXXXXX");
	assert_non_null(mkdtemp(lab->dir));
	snprintf(lab->file, sizeof(lab->file), "%s/weir.json", lab->dir);
	*state = lab;
	return 0;
}

static int teardown(void **state) {
	struct lab *lab = *state;

	unlink(lab->file);
	assert_int_equal(rmdir(lab->dir), 0); // no unfinished file remains
	free(lab);
	return 0;
}

TEST_EACH(setup, teardown);

static void write_file(const char *file, const char *text) {
	FILE *f = fopen(file, "w");

	fputs(text, f);
	fclose(f);
}

static uint64_t seed_of(const char *file) {
	struct weir_config_errors errors;
	struct weir_config *config;
	uint64_t seed;

	assert_int_equal(weir_config_read(file, &config, &errors), 0);
	assert_int_equal(errors.warning_count, 0);
	seed = config->instance.hash_seed;
	weir_config_errors_fini(&errors);
	weir_config_free(config);
	return seed;
}

TEST(init_chooses_a_cpu_that_is_online) {
	assert_int_equal(weir_init_core("0-3\n"), 1);
	assert_int_equal(weir_init_core("0,2,4-7\n"), 2);
	assert_int_equal(weir_init_core("0\n"), 0);
	assert_int_equal(weir_init_core("2-3\n"), 2);
	assert_int_equal(weir_init_core(NULL), 1);
}

TEST(init_passes_the_strict_check) {
	struct lab *lab = *state;
	struct outcome outcome = RUN("/nonexistent", "config", "init", lab->file);
	struct stat st;

	assert_int_equal(outcome.status, 0);
	expect_contains(outcome.out, "weirctl config check ");
	// no hint about systemctl, because the systemd units read another file
	assert_null(strstr(outcome.out, "systemctl"));
	free_outcome(&outcome);
	outcome = RUN("/nonexistent", "config", "check", "--strict", lab->file);
	assert_int_equal(outcome.status, 0);
	free_outcome(&outcome);
	assert_int_equal(stat(lab->file, &st), 0);
	// the mode is 0640, or 0644 if the group does not exist
	assert_int_equal(st.st_mode & 0133, 0);
}

TEST(init_gives_each_file_a_seed_of_its_own) {
	struct lab *lab = *state;
	uint64_t seeds[2];

	for (int i = 0; i < 2; i++) {
		struct outcome outcome = RUN("/nonexistent", "config", "init", lab->file);

		assert_int_equal(outcome.status, 0);
		free_outcome(&outcome);
		seeds[i] = seed_of(lab->file);
		assert_int_equal(unlink(lab->file), 0);
	}
	assert_true(seeds[0] != seeds[1]);
}

TEST(init_keeps_a_file_that_exists) {
	struct lab *lab = *state;
	static const char *const kept[] = {"",
		"{\"ports\": [{\"name\": \"wan\", \"device\": \"net_tap0\"}], \"services\": []}",
		"{\"ports\": [{\"name\": \"wan\", \"device\": \"net_null0\"}], \"services\": "
		"[{\"name\": \"web\", \"binds\": [{\"address\": \"198.51.100.10\", \"protocol\": "
		"\"tcp\", \"port\": 80}], \"backends\": [{\"name\": \"a\", \"address\": "
		"\"10.0.0.11\"}]}]}"};

	for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++) {
		char text[512] = "";
		struct outcome outcome;
		FILE *f;

		write_file(lab->file, kept[i]);
		outcome = RUN("/nonexistent", "config", "init", lab->file);
		assert_int_equal(outcome.status, 1);
		expect_contains(outcome.err, "already exists and was not changed");
		assert_string_equal(outcome.out, "");
		free_outcome(&outcome);
		f = fopen(lab->file, "r");
		text[fread(text, 1, sizeof(text) - 1, f)] = '\0';
		fclose(f);
		assert_string_equal(text, kept[i]);
	}
}

// The replaced file is the file that the package installs.
TEST(init_replaces_a_file_without_a_service_and_a_port) {
	struct lab *lab = *state;
	struct outcome outcome;

	write_file(lab->file, "{\"ports\": [{\"name\": \"wan\", \"device\": "
			      "\"net_null0,no-rx=1\"}], \"services\": []}");
	outcome = RUN("/nonexistent", "config", "init", lab->file);
	assert_int_equal(outcome.status, 0);
	free_outcome(&outcome);
	assert_true(seed_of(lab->file) != 0x5765697253656564);
}

TEST(init_without_a_directory_says_so) {
	struct outcome outcome = RUN("/nonexistent", "config", "init", "/nonexistent/weir.json");

	(void)state;
	assert_int_equal(outcome.status, 1);
	expect_contains(outcome.err,
		"weirctl: cannot write /nonexistent/weir.json: its directory does not exist; "
		"create it with \"mkdir -p /nonexistent\"\n");
	free_outcome(&outcome);
}

TEST(init_writes_to_standard_output) {
	struct lab *lab = *state;
	struct outcome outcome = RUN("/nonexistent", "config", "init", "-");

	assert_int_equal(outcome.status, 0);
	write_file(lab->file, outcome.out);
	free_outcome(&outcome);
	(void)seed_of(lab->file);
}

TEST(init_takes_the_interface_of_the_default_route) {
	static const struct {
		// contents of /proc files and interface; NULL = none
		const char *route, *ipv6_route, *interface;
	} cases[] = {
		{HEAD ROUTE("eth0", "000200C0", "00FFFFFF", "0")
				ROUTE("eth1", "00000000", "00000000", "100"),
			"", "eth1"},
		{HEAD ROUTE("eth0", "00000000", "00000000", "200")
				ROUTE("eth2", "00000000", "00000000", "50"),
			ROUTE6("eth3", "00", "00000001", "00000003"), "eth2"},
		// The route 0.0.0.0/1, which some VPNs add, is not a default route.
		{HEAD ROUTE("tun0", "00000000", "00000080", "0"),
			ROUTE6("lo", "00", "ffffffff", "00200201")
				ROUTE6("eth3", "00", "00000400", "00000003"),
			"eth3"},
		{HEAD ROUTE("a,b", "00000000", "00000000", "0"), "", NULL},
		{HEAD, ROUTE6("eth3", "40", "00000400", "00000001"), NULL},
		// Routes of devices that Weir creates do not count: weir-check (for checks via the
		// data path) and exception devices.
		{HEAD, ROUTE6("weir-check", "00", "00000001", "00000001"), NULL},
		{HEAD ROUTE("weir0", "00000000", "00000000", "0")
				ROUTE("dtap1", "00000000", "00000000", "0"),
			ROUTE6("weir-check1", "00", "00000001", "00000001")
				ROUTE6("weirnet0", "00", "00000400", "00000003"),
			"weirnet0"},
		{"", "", NULL},
		{NULL, NULL, NULL},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char interface[WEIR_INIT_INTERFACE_BYTES] = "";
		bool found = weir_init_interface(cases[i].route, cases[i].ipv6_route, interface);

		assert_int_equal(found, cases[i].interface != NULL);
		assert_string_equal(interface, found ? cases[i].interface : "");
	}
}
