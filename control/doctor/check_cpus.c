// SPDX-License-Identifier: BSD-3-Clause
//
// Checks the CPUs of the workers.
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "doctor.h"
#include "tree.h"

#define CPU "/sys/devices/system/cpu"

static struct weir_cpus workers_of(const struct weir_doctor *doctor) {
	struct weir_cpus cpus = {0};

	for (uint32_t i = 0; doctor->config != NULL && i < doctor->config->workers.count; i++) {
		weir_cpus_add(&cpus, doctor->config->workers.cores[i]);
	}
	return cpus;
}

static bool polls(const struct weir_doctor *doctor) {
	return doctor->config != NULL && doctor->config->workers.idle == WEIR_IDLE_POLL;
}

static struct weir_cpus read_cpus(const struct weir_doctor *doctor, const char *path) {
	struct weir_cpus cpus = {0};
	char text[1024];

	if (weir_tree_text(doctor->root, text, sizeof(text), "%s", path) > 0) {
		(void)weir_cpus_parse(text, &cpus);
	}
	return cpus;
}

void weir_doctor_check_cores(struct weir_doctor *doctor) {
	const struct weir_cpus workers = workers_of(doctor);
	const struct weir_cpus online = read_cpus(doctor, CPU "/online");
	const struct weir_cpus missing = weir_cpus_without(&workers, &online);
	char text[WEIR_CPUS_TEXT_BYTES], all[WEIR_CPUS_TEXT_BYTES];

	if (doctor->config == NULL || weir_cpus_count(&online) == 0) {
		return;
	}
	weir_cpus_format(&online, all);
	if (weir_cpus_count(&missing) > 0) {
		weir_findings_add(&doctor->findings, WEIR_FINDING_FAULT, "workers.cores",
			"CPU %s is not online; online CPUs: %s; change workers.cores, then restart "
			"weir-dataplane",
			weir_cpus_format(&missing, text), all);
		weir_findings_cure(&doctor->findings, "editor %s", doctor->config_path);
		return;
	}
	weir_findings_add(&doctor->findings, WEIR_FINDING_OK, "workers.cores", "%s of %s",
		weir_cpus_format(&workers, text), all);
}

// Returns the CPUs that processes in the systemd slices system.slice and user.slice can use. The
// setting AllowedCPUs= of these slices can exclude the CPUs of workers.
static struct weir_cpus used_by_slices(const struct weir_doctor *doctor) {
	const struct weir_cpus system =
		read_cpus(doctor, "/sys/fs/cgroup/system.slice/cpuset.cpus.effective");
	struct weir_cpus cpus =
		read_cpus(doctor, "/sys/fs/cgroup/user.slice/cpuset.cpus.effective");

	for (uint32_t cpu = 0; cpu < WEIR_CPUS_MOST; cpu++) {
		if (weir_cpus_has(&system, cpu)) {
			weir_cpus_add(&cpus, cpu);
		}
	}
	return cpus;
}

void weir_doctor_check_isolation(struct weir_doctor *doctor) {
	const struct weir_cpus workers = workers_of(doctor), used = used_by_slices(doctor);
	const struct weir_cpus isolated = read_cpus(doctor, CPU "/isolated");
	const struct weir_cpus online = read_cpus(doctor, CPU "/online");
	const struct weir_cpus rest = weir_cpus_without(&online, &workers);
	const struct weir_cpus nohz = read_cpus(doctor, CPU "/nohz_full");
	struct weir_cpus shared = weir_cpus_without(&workers, &isolated);
	const struct weir_cpus ticking = weir_cpus_without(&workers, &nohz);
	char text[WEIR_CPUS_TEXT_BYTES], all[WEIR_CPUS_TEXT_BYTES];

	if (!polls(doctor) || !weir_tree_has(doctor->root, CPU "/isolated")) {
		return;
	}
	if (weir_cpus_count(&used) > 0) {
		struct weir_cpus free_of_slices = weir_cpus_without(&shared, &used);

		shared = weir_cpus_without(&shared, &free_of_slices);
	}
	weir_cpus_format(&workers, all);
	if (weir_cpus_count(&shared) > 0) {
		weir_findings_add(&doctor->findings, WEIR_FINDING_WARNING, "workers.cores",
			"CPU %s is not isolated: other tasks on it delay a polling worker, so its "
			"receive ring can overflow",
			weir_cpus_format(&shared, text));
	} else if (weir_cpus_count(&ticking) > 0) {
		weir_findings_add(&doctor->findings, WEIR_FINDING_NOTICE, "workers.cores",
			"CPU %s is isolated, but not nohz_full: the timer tick interrupts the "
			"worker",
			weir_cpus_format(&ticking, text));
	} else {
		weir_findings_add(&doctor->findings, WEIR_FINDING_OK, "workers.cores",
			"%s isolated, nohz_full", all);
		return;
	}
	// If every CPU has a worker, no CPU can be isolated: the kernel needs a CPU without
	// workers.
	if (weir_cpus_count(&rest) == 0) {
		weir_findings_cure(&doctor->findings, "editor %s", doctor->config_path);
		return;
	}
	weir_findings_cure(&doctor->findings,
		"echo 'GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX isolcpus=%s nohz_full=%s "
		"rcu_nocbs=%s\"' > /etc/default/grub.d/weir.cfg && update-grub && reboot",
		all, all, all);
}

// --- other tasks on the workers' CPUs -------------------------------------------------------

struct pinned {
	uint32_t count, pid;
	char name[32];
	struct weir_cpus allowed;
};

// Counts a process in *pinned if its CPU affinity is restricted and includes a CPU of a worker.
static void look_at_process(const struct weir_doctor *doctor, const char *pid,
	const struct weir_cpus *workers, const struct weir_cpus *online, struct pinned *pinned) {
	struct weir_cpus allowed, others, elsewhere;
	char status[4096], *at, *line;
	int64_t memory;

	if (weir_tree_text(doctor->root, status, sizeof(status), "/proc/%s/status", pid) <= 0) {
		return;
	}
	memory = weir_tree_field(status, "VmSize"); // absent for kernel threads
	at = strstr(status, "\nCpus_allowed_list:");
	if (memory < 0 || at == NULL) {
		return;
	}
	at += strlen("\nCpus_allowed_list:");
	at += strspn(at, " \t");
	line = strchr(at, '\n');
	if (line != NULL) {
		*line = '\0';
	}
	if (weir_cpus_parse(at, &allowed)) {
		return;
	}
	others = weir_cpus_without(online, &allowed);
	elsewhere = weir_cpus_without(workers, &allowed);
	if (weir_cpus_count(&others) == 0 ||
		weir_cpus_count(&elsewhere) == weir_cpus_count(workers)) {
		return;
	}
	if (pinned->count++ == 0) {
		pinned->pid = (uint32_t)strtoul(pid, NULL, 10);
		pinned->allowed = allowed;
		weir_tree_text(
			doctor->root, pinned->name, sizeof(pinned->name), "/proc/%s/comm", pid);
	}
}

void weir_doctor_check_pinned(struct weir_doctor *doctor) {
	const struct weir_cpus workers = workers_of(doctor);
	const struct weir_cpus online = read_cpus(doctor, CPU "/online");
	const struct weir_cpus rest = weir_cpus_without(&online, &workers);
	char path[WEIR_TREE_PATH_BYTES], subject[64], text[WEIR_CPUS_TEXT_BYTES];
	DIR *folder = opendir(weir_tree_path(doctor->root, "/proc", path));
	struct pinned pinned = {0};
	struct dirent *entry;

	if (folder == NULL) {
		return;
	}
	while ((entry = readdir(folder)) != NULL) {
		if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' &&
			strtol(entry->d_name, NULL, 10) != doctor->dataplane &&
			strtol(entry->d_name, NULL, 10) != doctor->found_dataplane.elsewhere.pid) {
			look_at_process(doctor, entry->d_name, &workers, &online, &pinned);
		}
	}
	closedir(folder);
	// If all CPUs have workers, other processes must share the CPUs of workers, and there is
	// nothing to check.
	if (weir_cpus_count(&workers) == 0 || weir_cpus_count(&rest) == 0) {
		return;
	}
	if (pinned.count == 0) {
		weir_findings_add(&doctor->findings, WEIR_FINDING_OK, "/proc",
			"no process other than weir-dataplane is bound to CPU %s",
			weir_cpus_format(&workers, text));
		return;
	}
	snprintf(subject, sizeof(subject), "%s (pid %u)", pinned.name, pinned.pid);
	weir_findings_add(&doctor->findings,
		polls(doctor) ? WEIR_FINDING_WARNING : WEIR_FINDING_NOTICE, subject,
		"is bound to CPU %s, which a worker uses; processes bound to CPUs of workers: %u",
		weir_cpus_format(&pinned.allowed, text), pinned.count);
	weir_findings_cure(&doctor->findings, "taskset -a -c -p %s %u",
		weir_cpus_format(&rest, text), pinned.pid);
}

void weir_doctor_check_interrupts(struct weir_doctor *doctor) {
	const struct weir_cpus workers = workers_of(doctor);
	const struct weir_cpus online = read_cpus(doctor, CPU "/online");
	const struct weir_cpus rest = weir_cpus_without(&online, &workers);
	char path[WEIR_TREE_PATH_BYTES], text[WEIR_CPUS_TEXT_BYTES];
	// If all CPUs have workers, interrupts must share the CPUs of workers.
	DIR *folder = polls(doctor) && weir_cpus_count(&rest) > 0
			      ? opendir(weir_tree_path(doctor->root, "/proc/irq", path))
			      : NULL;
	struct dirent *entry;
	uint32_t count = 0;
	long first = 0;

	while (folder != NULL && (entry = readdir(folder)) != NULL) {
		char file[WEIR_TREE_PATH_BYTES];
		struct weir_cpus served, left;

		if (entry->d_name[0] < '0' || entry->d_name[0] > '9') {
			continue;
		}
		snprintf(file, sizeof(file), "/proc/irq/%s/effective_affinity_list", entry->d_name);
		served = read_cpus(doctor, file);
		left = weir_cpus_without(&served, &workers);
		if (weir_cpus_count(&left) < weir_cpus_count(&served)) {
			long number = strtol(entry->d_name, NULL, 10);

			first = count++ == 0 || number < first ? number : first;
		}
	}
	if (folder == NULL) {
		return;
	}
	closedir(folder);
	if (count > 0) {
		weir_findings_add(&doctor->findings, WEIR_FINDING_WARNING, "/proc/irq",
			"interrupts served by CPUs of workers: %u, the first is interrupt %ld",
			count, first);
		weir_findings_cure(&doctor->findings,
			"for irq in /proc/irq/[0-9]*; do echo %s > $irq/smp_affinity_list; done "
			"2>/dev/null",
			weir_cpus_format(&rest, text));
	} else {
		weir_findings_add(&doctor->findings, WEIR_FINDING_OK, "/proc/irq",
			"no interrupt is served by a CPU of a worker");
	}
}

void weir_doctor_check_smt(struct weir_doctor *doctor) {
	const struct weir_cpus workers = workers_of(doctor);
	char path[128], text[WEIR_CPUS_TEXT_BYTES];

	if (weir_cpus_count(&workers) < 2 ||
		!weir_tree_has(doctor->root, CPU "/cpu0/topology/thread_siblings_list")) {
		return;
	}
	for (uint32_t cpu = 0; cpu < WEIR_CPUS_MOST; cpu++) {
		struct weir_cpus siblings, both;

		if (!weir_cpus_has(&workers, cpu)) {
			continue;
		}
		snprintf(path, sizeof(path), CPU "/cpu%u/topology/thread_siblings_list", cpu);
		siblings = read_cpus(doctor, path);
		both = weir_cpus_without(&siblings, &workers);
		if (weir_cpus_count(&siblings) - weir_cpus_count(&both) > 1) {
			weir_findings_add(&doctor->findings, WEIR_FINDING_WARNING, "workers.cores",
				"CPUs %s are hardware threads of one core, and several of them run "
				"a worker: each worker gets about half of the core; use only one "
				"of the CPUs",
				weir_cpus_format(&siblings, text));
			weir_findings_cure(&doctor->findings, "editor %s", doctor->config_path);
			return;
		}
	}
	weir_findings_add(
		&doctor->findings, WEIR_FINDING_OK, "workers.cores", "no two workers share a core");
}

void weir_doctor_check_governor(struct weir_doctor *doctor) {
	const struct weir_cpus workers = workers_of(doctor);
	struct weir_cpus slow = {0}, known = {0};
	char text[WEIR_CPUS_TEXT_BYTES], found[64] = "";

	for (uint32_t cpu = 0; polls(doctor) && cpu < WEIR_CPUS_MOST; cpu++) {
		char governor[64];

		if (weir_cpus_has(&workers, cpu) &&
			weir_tree_text(doctor->root, governor, sizeof(governor),
				CPU "/cpu%u/cpufreq/scaling_governor", cpu) > 0) {
			weir_cpus_add(&known, cpu);
			if (strcmp(governor, "performance") != 0) {
				weir_cpus_add(&slow, cpu);
				memcpy(found, governor, sizeof(found));
			}
		}
	}
	if (weir_cpus_count(&slow) > 0) {
		weir_findings_add(&doctor->findings, WEIR_FINDING_WARNING, "cpufreq",
			"the governor of CPU %s is \"%s\", which may lower the frequency under "
			"load",
			weir_cpus_format(&slow, text), found);
		weir_findings_cure(&doctor->findings,
			"for governor in %s/cpu[0-9]*/cpufreq/scaling_governor; do echo "
			"performance > $governor; done",
			CPU);
	} else if (weir_cpus_count(&known) > 0) {
		weir_findings_add(&doctor->findings, WEIR_FINDING_OK, "cpufreq",
			"the governor of CPU %s is \"performance\"",
			weir_cpus_format(&known, text));
	}
}

void weir_doctor_check_clocksource(struct weir_doctor *doctor) {
	char current[64], available[256];

	if (weir_tree_text(doctor->root, current, sizeof(current),
		    "/sys/devices/system/clocksource/clocksource0/current_clocksource") <= 0) {
		return;
	}
	weir_tree_text(doctor->root, available, sizeof(available),
		"/sys/devices/system/clocksource/clocksource0/available_clocksource");
	if (strcmp(current, "hpet") != 0 && strcmp(current, "acpi_pm") != 0 &&
		strcmp(current, "jiffies") != 0 && strcmp(current, "refined-jiffies") != 0) {
		weir_findings_add(&doctor->findings, WEIR_FINDING_OK, "clocksource", "%s", current);
		return;
	}
	weir_findings_add(&doctor->findings, WEIR_FINDING_WARNING, "clocksource",
		"%s: reading the time takes a microsecond or more; the kernel may have marked the "
		"TSC as unstable (see dmesg)",
		current);
	if (strstr(available, "tsc") != NULL) {
		weir_findings_cure(&doctor->findings,
			"echo tsc > /sys/devices/system/clocksource/clocksource0/"
			"current_clocksource");
	} else {
		weir_findings_cure(&doctor->findings,
			"echo 'GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX tsc=reliable\"' > "
			"/etc/default/grub.d/weir-tsc.cfg && update-grub && reboot");
	}
}
