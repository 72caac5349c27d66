// SPDX-License-Identifier: BSD-3-Clause
#include "capabilities.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <semaphore.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/capability.h>
#include <sys/prctl.h>
#include <time.h>

#include <rte_alarm.h>
#include <rte_launch.h>
#include <rte_lcore.h>

#define WAIT_S 5

struct drop { // what a thread is asked to do
	bool keep_net_admin;
	int result;
	sem_t done;
};

int weir_capabilities_freeze(void) {
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? -errno : 0;
}

int weir_capabilities_drop(bool keep_net_admin) {
	const cap_value_t kept[] = {CAP_NET_ADMIN};
	cap_flag_value_t permitted = CAP_CLEAR;
	cap_t now = cap_get_proc();
	cap_t then = cap_init();
	int r = 0;

	if (now == NULL || then == NULL) {
		r = -ENOMEM;
		goto free_both;
	}
	// A capability that the process does not have cannot be kept.
	if (keep_net_admin && cap_get_flag(now, CAP_NET_ADMIN, CAP_PERMITTED, &permitted) == 0 &&
		permitted == CAP_SET &&
		(cap_set_flag(then, CAP_PERMITTED, 1, kept, CAP_SET) < 0 ||
			cap_set_flag(then, CAP_EFFECTIVE, 1, kept, CAP_SET) < 0)) {
		r = -errno;
		goto free_both;
	}
	if (cap_set_proc(then) < 0) {
		r = -errno;
	}
free_both:
	cap_free(then);
	cap_free(now);
	return r;
}

// --- other threads ------------------------------------------------------------------------

static int drop_on_lcore(void *context) {
	const struct drop *drop = context;

	return weir_capabilities_drop(drop->keep_net_admin);
}

static void drop_on_interrupt_thread(void *context) {
	struct drop *drop = context;

	drop->result = weir_capabilities_drop(drop->keep_net_admin);
	sem_post(&drop->done);
}

static int drop_on_lcores(struct drop *drop) {
	unsigned int lcore;

	RTE_LCORE_FOREACH_WORKER(lcore) {
		int r = rte_eal_remote_launch(drop_on_lcore, drop, lcore);

		if (r == 0) {
			r = rte_eal_wait_lcore(lcore);
		}
		if (r < 0) {
			return r;
		}
	}
	return 0;
}

// Alarms run in the interrupt thread.
static int drop_by_alarm(struct drop *drop) {
	struct timespec deadline;
	int r = rte_eal_alarm_set(1, drop_on_interrupt_thread, drop);

	if (r < 0) {
		return r;
	}
	clock_gettime(CLOCK_REALTIME, &deadline);
	deadline.tv_sec += WAIT_S;
	while (sem_timedwait(&drop->done, &deadline) < 0) {
		if (errno != EINTR) {
			// Cancelling waits for an alarm that is running.
			rte_eal_alarm_cancel(drop_on_interrupt_thread, drop);
			return -ETIMEDOUT;
		}
	}
	return drop->result;
}

// The capabilities that a thread may use, from its status file; all if that cannot be read.
static uint64_t capabilities_of(const char *thread) {
	uint64_t capabilities = UINT64_MAX;
	char line[320];
	FILE *file;

	snprintf(line, sizeof(line), "/proc/self/task/%s/status", thread);
	file = fopen(line, "re");
	if (file == NULL) {
		return errno == ENOENT ? 0 : capabilities; // it has ended
	}
	while (fgets(line, sizeof(line), file) != NULL) {
		if (sscanf(line, "CapPrm: %" SCNx64, &capabilities) == 1) {
			break;
		}
	}
	fclose(file);
	return capabilities;
}

static int check_threads(bool keep_net_admin) {
	uint64_t allowed = keep_net_admin ? UINT64_C(1) << CAP_NET_ADMIN : 0;
	DIR *folder = opendir("/proc/self/task");
	struct dirent *entry;
	int r = 0;

	if (folder == NULL) {
		return -errno;
	}
	while (r == 0 && (entry = readdir(folder)) != NULL) {
		if (entry->d_name[0] != '.' && (capabilities_of(entry->d_name) & ~allowed) != 0) {
			r = -EPERM;
		}
	}
	closedir(folder);
	return r;
}

int weir_capabilities_drop_everywhere(bool keep_net_admin) {
	struct drop drop = {.keep_net_admin = keep_net_admin};
	int r;

	sem_init(&drop.done, 0, 0);
	r = drop_on_lcores(&drop);
	if (r == 0) {
		r = drop_by_alarm(&drop);
	}
	if (r == 0) {
		r = weir_capabilities_drop(keep_net_admin);
	}
	if (r == 0) {
		r = check_threads(keep_net_admin);
	}
	sem_destroy(&drop.done);
	return r;
}
