// SPDX-License-Identifier: BSD-3-Clause
#include "eal.h"

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <rte_eal.h>
#include <rte_errno.h>

#include "append.h"
#include "dpdk_log.h"
#include "hash.h"

#define ARGUMENTS_MAX 128
#define WEIR_TELEMETRY_SOCKET "dpdk_telemetry.v2"
#define LCORES_BYTES 8192

struct list {
	char **word;
	int count;
	int error; // first error of the functions that add words; 0 = none
};

static void add(struct list *list, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void add(struct list *list, const char *format, ...) {
	va_list args;
	char *word = NULL;

	if (list->error != 0) {
		return;
	}
	if (list->count == ARGUMENTS_MAX) {
		list->error = -E2BIG;
		return;
	}
	va_start(args, format);
	if (vasprintf(&word, format, args) < 0) {
		list->error = -ENOMEM;
	} else {
		list->word[list->count++] = word;
	}
	va_end(args);
}

void weir_eal_arguments_free(char **arguments) {
	if (arguments == NULL) {
		return;
	}
	for (char **word = arguments; *word != NULL; word++) {
		free(*word);
	}
	free(arguments);
}

// --- lcores -------------------------------------------------------------------------------

// Returns true if a thread of this process can run on a CPU. ours: the CPUs in the affinity of the
// process, which the function restores. The CPU may be outside the affinity of the process: systemd
// leaves out CPUs that the kernel isolates (isolcpus), but isolated CPUs are meant for workers.
static bool may_use(uint16_t cpu, const cpu_set_t *ours) {
	cpu_set_t one;
	bool may;

	if (cpu >= CPU_SETSIZE || CPU_ISSET(cpu, ours)) {
		return cpu < CPU_SETSIZE;
	}
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	may = sched_setaffinity(0, sizeof(one), &one) == 0;
	if (may) {
		(void)sched_setaffinity(0, sizeof(*ours), ours);
	}
	return may;
}

// Appends the lcores and their CPUs. "0@(0,1),1@0,2@1": lcore 0 runs on CPUs 0 and 1, lcore 1 on
// CPU 0, and lcore 2 on CPU 1.
static int add_lcores(
	struct list *list, const struct weir_config_workers *workers, char *why, size_t why_bytes) {
	char text[LCORES_BYTES] = "0@(";
	const char *comma = "";
	cpu_set_t ours;

	if (sched_getaffinity(0, sizeof(ours), &ours) < 0) {
		snprintf(why, why_bytes, "cannot query the CPU affinity: %s", strerror(errno));
		return -errno;
	}
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (CPU_ISSET(cpu, &ours)) {
			weir_append(text, sizeof(text), "%s%d", comma, cpu);
			comma = ",";
		}
	}
	weir_append(text, sizeof(text), ")");
	for (uint32_t w = 0; w < workers->count; w++) {
		uint16_t cpu = workers->cores[w];

		if (!may_use(cpu, &ours)) {
			snprintf(why, why_bytes,
				"workers.cores[%u]: CPU %u is not online (see "
				"/sys/devices/system/cpu/online), or AllowedCPUs= of the unit or "
				"its slice excludes it",
				w, cpu);
			return -EINVAL;
		}
		weir_append(text, sizeof(text), ",%u@%u", weir_eal_lcore(w), cpu);
	}
	add(list, "--lcores=%s", text);
	add(list, "--main-lcore=0");
	return 0;
}

// --- other arguments ----------------------------------------------------------------------

static void add_devices(struct list *list, const struct weir_plan *plan) {
	bool pci = false;

	for (uint32_t i = 0; i < plan->devices; i++) {
		if (plan->device[i].devargs.pci) {
			add(list, "--allow=%s", plan->device[i].devargs.text);
			pci = true;
		}
	}
	// Virtual devices are probed one by one later, in device.c.
	if (!pci) {
		add(list, "--no-pci");
		add(list, "--iova-mode=va");
	}
}

// Appends options for memory that is not shared with other DPDK processes and leaves no file when
// the process is killed.
static void add_memory(struct list *list, const struct weir_memory *memory) {
	if (memory->huge_pages) {
		add(list, "--in-memory");
		return;
	}
	add(list, "--no-huge");
	add(list, "--no-shconf");
	add(list, "-m%" PRIu64, (memory->bytes + (1u << 20) - 1) >> 20);
}

// Appends DPDK's file prefix, the name of DPDK's run-time directory. Every process with the same
// instance name and --run-dir uses the same prefix; otherwise old directories would accumulate.
// Instances that run at the same time have different prefixes.
static void add_prefix(struct list *list, const char *instance, const char *run_dir) {
	struct stat st;
	uint64_t hash = 0;

	if (stat(run_dir, &st) == 0) {
		hash = weir_hash_mix(st.st_dev ^ 0x9e3779b97f4a7c15ull, st.st_ino);
	}
	add(list, "--file-prefix=weir-%s-%08" PRIx32, instance, (uint32_t)hash);
}

// Splits text at white space into arguments. Quotes have the same meaning as in a shell, but a
// backslash has no special meaning.
static int add_words(struct list *list, const char *text, char *why, size_t why_bytes) {
	char *word = malloc(strlen(text) + 1);
	int r = 0;

	if (word == NULL) {
		return -ENOMEM;
	}
	while (*text != '\0') {
		size_t length = 0;
		char quote = '\0';
		bool found = false;

		text += strspn(text, " \t\n");
		for (; *text != '\0' && (quote != '\0' || strchr(" \t\n", *text) == NULL); text++) {
			found = true;
			if (quote == '\0' && (*text == '\'' || *text == '"')) {
				quote = *text;
			} else if (quote != '\0' && *text == quote) {
				quote = '\0';
			} else {
				word[length++] = *text;
			}
		}
		if (quote != '\0') {
			snprintf(why, why_bytes, "--eal: unmatched %c", quote);
			r = -EINVAL;
			break;
		}
		if (found) {
			add(list, "%.*s", (int)length, word);
		}
	}
	free(word);
	return r;
}

int weir_eal_arguments(
	const struct weir_eal_params *params, char ***ret, char *why, size_t why_bytes) {
	struct list list = {.word = calloc(ARGUMENTS_MAX + 1, sizeof(char *))};
	int r;

	if (list.word == NULL) {
		return -ENOMEM;
	}
	add(&list, "weir-dataplane");
	r = add_lcores(&list, &params->config->workers, why, why_bytes);
	if (r == 0) {
		add_memory(&list, params->memory);
		add_devices(&list, params->plan);
		add_prefix(&list, params->config->instance.name, params->run_dir);
		if (!params->telemetry) {
			add(&list, "--no-telemetry");
		}
		add(&list, "--log-level=%s", weir_dpdk_log_level(params->log_level));
		r = add_words(&list, params->extra, why, why_bytes);
	}
	if (r == 0) {
		r = list.error;
	}
	if (r == -E2BIG) {
		snprintf(why, why_bytes, "too many arguments for DPDK");
	}
	if (r < 0) {
		weir_eal_arguments_free(list.word);
		return r;
	}
	*ret = list.word;
	return list.count;
}

int weir_eal_init(int count, char **arguments, char *why, size_t why_bytes) {
	// DPDK reorders the argument vector and drops an argument. Therefore pass a copy to DPDK.
	char **copy = malloc(((size_t)count + 1) * sizeof(*copy));
	int r = 0;

	if (copy == NULL) {
		snprintf(why, why_bytes, "out of memory");
		return -ENOMEM;
	}
	memcpy(copy, arguments, ((size_t)count + 1) * sizeof(*copy));
	if (rte_eal_init(count, copy) < 0) {
		snprintf(why, why_bytes, "cannot start DPDK: %s", rte_strerror(rte_errno));
		r = rte_errno > 0 ? -rte_errno : -EIO;
	}
	free(copy);
	return r;
}

void weir_eal_fini(void) {
	char directory[256], socket[sizeof(directory) + sizeof(WEIR_TELEMETRY_SOCKET)];

	snprintf(directory, sizeof(directory), "%s", rte_eal_get_runtime_dir());
	rte_eal_cleanup();
	snprintf(socket, sizeof(socket), "%s/" WEIR_TELEMETRY_SOCKET, directory);
	unlink(socket); // DPDK removes the socket only when the process exits
	rmdir(directory);
}
