// SPDX-License-Identifier: BSD-3-Clause
#include "eal.h"
#include "test.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rte_eal.h>
#include <rte_lcore.h>

static const struct weir_memory ordinary = {.huge_pages = false, .bytes = 64ull << 20};
static const struct weir_memory huge = {.huge_pages = true, .bytes = 64ull << 20};

struct lab {
	struct weir_config config;
	struct weir_plan plan;
	struct weir_eal_params params;
	char **arguments;
	char why[256];
};

static uint16_t first_cpu(void) {
	cpu_set_t ours;
	uint16_t cpu = 0;

	assert_int_equal(sched_getaffinity(0, sizeof(ours), &ours), 0);
	while (!CPU_ISSET(cpu, &ours)) {
		cpu++;
	}
	return cpu;
}

static int open_lab(void **state) {
	struct lab *lab = calloc(1, sizeof(*lab));

	assert_non_null(lab);
	snprintf(lab->config.instance.name, sizeof(lab->config.instance.name), "test");
	lab->config.workers.count = 2;
	lab->config.workers.cores[0] = lab->config.workers.cores[1] = first_cpu();
	lab->params = (struct weir_eal_params){.config = &lab->config,
		.plan = &lab->plan,
		.memory = &ordinary,
		.run_dir = "/",
		.extra = "",
		.log_level = WEIR_LOG_ERROR};
	*state = lab;
	return 0;
}

static int close_lab(void **state) {
	struct lab *lab = *state;

	weir_eal_arguments_free(lab->arguments);
	free(lab);
	return 0;
}

static int make(struct lab *lab) {
	weir_eal_arguments_free(lab->arguments);
	lab->arguments = NULL;
	return weir_eal_arguments(&lab->params, &lab->arguments, lab->why, sizeof(lab->why));
}

static const char *find(const struct lab *lab, const char *beginning) {
	for (char **word = lab->arguments; *word != NULL; word++) {
		if (strncmp(*word, beginning, strlen(beginning)) == 0) {
			return *word;
		}
	}
	return NULL;
}

TEST_EACH(open_lab, close_lab);

TEST(workers_are_lcores_pinned_to_their_cpus) {
	struct lab *lab = *state;
	char end[64];
	const char *lcores;

	assert_true(make(lab) > 0);
	lcores = find(lab, "--lcores=0@(");
	assert_non_null(lcores);
	snprintf(end, sizeof(end), "),1@%u,2@%u", first_cpu(), first_cpu());
	assert_string_equal(strchr(lcores, ')'), end);
	assert_non_null(find(lab, "--main-lcore=0"));
}

TEST(a_cpu_that_does_not_exist_is_refused) {
	struct lab *lab = *state;

	lab->config.workers.cores[1] = 1023;
	assert_int_equal(make(lab), -EINVAL);
	assert_non_null(strstr(lab->why, "workers.cores[1]: CPU 1023"));
}

// With isolcpus, the CPU affinity of systemd and its children excludes the isolated CPUs.
TEST(an_isolated_cpu_can_be_used_for_workers) {
	struct lab *lab = *state;
	uint16_t isolated = first_cpu() + 1;
	char beginning[32], end[32];
	cpu_set_t before, others, after;
	const char *lcores;

	assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
	while (isolated < CPU_SETSIZE && !CPU_ISSET(isolated, &before)) {
		isolated++;
	}
	if (isolated == CPU_SETSIZE) {
		skip(); // the machine has only one CPU
	}
	CPU_ZERO(&others);
	CPU_SET(first_cpu(), &others);
	assert_int_equal(sched_setaffinity(0, sizeof(others), &others), 0);
	lab->config.workers.cores[1] = isolated;
	assert_true(make(lab) > 0);
	assert_int_equal(sched_getaffinity(0, sizeof(after), &after), 0);
	assert_int_equal(sched_setaffinity(0, sizeof(before), &before), 0);
	assert_true(CPU_EQUAL(&after, &others));
	snprintf(beginning, sizeof(beginning), "--lcores=0@(%u),", first_cpu());
	snprintf(end, sizeof(end), ",2@%u", isolated);
	lcores = find(lab, beginning);
	assert_non_null(lcores);
	assert_string_equal(strrchr(lcores, ','), end);
}

TEST(memory_is_as_chosen) {
	struct lab *lab = *state;

	assert_true(make(lab) > 0);
	assert_non_null(find(lab, "--no-huge"));
	assert_string_equal(find(lab, "-m"), "-m64");
	assert_null(find(lab, "--in-memory"));
	lab->params.memory = &huge;
	assert_true(make(lab) > 0);
	assert_non_null(find(lab, "--in-memory"));
	assert_null(find(lab, "--no-huge"));
}

TEST(pci_is_scanned_only_for_configured_ports) {
	struct lab *lab = *state;

	lab->plan.devices = 2;
	assert_int_equal(weir_devargs_parse("net_null0", &lab->plan.device[0].devargs), 0);
	assert_int_equal(weir_devargs_parse("net_null1", &lab->plan.device[1].devargs), 0);
	assert_true(make(lab) > 0);
	assert_non_null(find(lab, "--no-pci"));
	assert_int_equal(weir_devargs_parse("01:00.0,x=1", &lab->plan.device[1].devargs), 0);
	assert_true(make(lab) > 0);
	assert_null(find(lab, "--no-pci"));
	assert_string_equal(find(lab, "--allow="), "--allow=0000:01:00.0,x=1");
}

TEST(the_prefix_is_that_of_instance_and_run_directory) {
	struct lab *lab = *state;
	char first[128];

	assert_true(make(lab) > 0);
	snprintf(first, sizeof(first), "%s", find(lab, "--file-prefix="));
	assert_non_null(strstr(first, "weir-test-"));
	assert_true(make(lab) > 0);
	assert_string_equal(find(lab, "--file-prefix="), first);
	lab->params.run_dir = "/tmp";
	assert_true(make(lab) > 0);
	assert_string_not_equal(find(lab, "--file-prefix="), first);
}

TEST(extra_words_are_last_and_may_be_quoted) {
	struct lab *lab = *state;
	int n;

	lab->params.extra = "  -v '--vdev=net null0' --a=\"b 'c\"'d' ''";
	n = make(lab);
	assert_true(n > 4);
	assert_null(lab->arguments[n]);
	assert_string_equal(lab->arguments[n - 4], "-v");
	assert_string_equal(lab->arguments[n - 3], "--vdev=net null0");
	assert_string_equal(lab->arguments[n - 2], "--a=b 'cd");
	assert_string_equal(lab->arguments[n - 1], "");
	lab->params.extra = "--a='b";
	assert_int_equal(make(lab), -EINVAL);
	assert_non_null(strstr(lab->why, "--eal"));
}

// DPDK is started in a separate process, because it can be started only once per process.
TEST(dpdk_starts_with_them_and_leaves_no_files) {
	struct lab *lab = *state;
	char directory[256];
	int status;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		int n = make(lab);
		bool good = n > 0 &&
			    weir_eal_init(n, lab->arguments, lab->why, sizeof(lab->why)) == 0 &&
			    rte_lcore_count() == 3 && rte_get_main_lcore() == 0 &&
			    rte_lcore_is_enabled(weir_eal_lcore(1));

		snprintf(directory, sizeof(directory), "%s", rte_eal_get_runtime_dir());
		weir_eal_fini();
		weir_eal_arguments_free(lab->arguments);
		_exit(good && access(directory, F_OK) < 0 ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

TEST(an_invalid_extra_argument_is_an_error_and_does_not_exit) {
	struct lab *lab = *state;
	int status;
	pid_t pid;

	lab->params.extra = "--no-such-argument";
	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		int n = make(lab);

		(void)!freopen("/dev/null", "w", stdout); // hides the usage that DPDK prints
		(void)!freopen("/dev/null", "w", stderr);
		_exit(n > 0 && weir_eal_init(n, lab->arguments, lab->why, sizeof(lab->why)) < 0 &&
					strstr(lab->why, "DPDK") != NULL
				? 0
				: 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}
