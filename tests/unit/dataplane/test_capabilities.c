// SPDX-License-Identifier: BSD-3-Clause
#include "capabilities.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rte_launch.h>
#include <rte_lcore.h>

#include "device_lab.h"
#include "test.h"

static bool has(cap_value_t capability) {
	cap_t now = cap_get_proc();
	cap_flag_value_t value = CAP_CLEAR;

	if (now == NULL || cap_get_flag(now, capability, CAP_PERMITTED, &value) < 0) {
		abort();
	}
	cap_free(now);
	return value == CAP_SET;
}

static int lcore_has_net_raw(void *context) {
	(void)context;
	return has(CAP_NET_RAW);
}

// Run in a child process, because dropped capabilities cannot be regained. DPDK must be started in
// the child, because threads do not survive a fork.
static void run_child(int (*body)(void)) {
	int status;
	pid_t pid;

	device_lab_need_root();
	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		_exit(body());
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static int child_keeps_net_admin(void) {
	unsigned int lcore;

	if (device_lab_eal(NULL) < 0) {
		return 1;
	}
	// The function itself checks all threads, including the interrupt thread.
	if (weir_capabilities_drop_everywhere(true) < 0) {
		return 2;
	}
	if (has(CAP_NET_RAW) || has(CAP_SYS_ADMIN) || !has(CAP_NET_ADMIN)) {
		return 3;
	}
	RTE_LCORE_FOREACH_WORKER(lcore) {
		if (rte_eal_remote_launch(lcore_has_net_raw, NULL, lcore) < 0 ||
			rte_eal_wait_lcore(lcore) != 0) {
			return 4;
		}
	}
	return socket(AF_PACKET, SOCK_RAW, 0) < 0 ? 0 : 5;
}

static int child_keeps_nothing(void) {
	if (device_lab_eal(NULL) < 0) {
		return 1;
	}
	if (weir_capabilities_drop_everywhere(false) < 0) {
		return 2;
	}
	// No capability can be regained.
	if (weir_capabilities_drop_everywhere(true) < 0) {
		return 3;
	}
	return has(CAP_NET_ADMIN) ? 4 : 0;
}

static int pipe_ends[2];

static void *wait_for_the_end(void *context) {
	char byte;

	(void)context;
	return read(pipe_ends[0], &byte, 1) == 0 && !has(CAP_NET_RAW) ? pipe_ends : NULL;
}

// The thread is like DPDK's telemetry thread, which has no work queue and sleeps in a system call.
static int child_interrupts_a_thread(void) {
	pthread_t thread;
	void *result;

	if (device_lab_eal(NULL) < 0 || pipe(pipe_ends) < 0 ||
		pthread_create(&thread, NULL, wait_for_the_end, NULL) != 0) {
		return 1;
	}
	if (weir_capabilities_drop_everywhere(true) < 0) {
		return 2;
	}
	close(pipe_ends[1]);
	return pthread_join(thread, &result) == 0 && result == pipe_ends ? 0 : 3;
}

static int child_freezes(void) {
	if (weir_capabilities_freeze() < 0) {
		return 1;
	}
	return prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 ? 0 : 2;
}

TEST(all_threads_keep_only_net_admin) {
	run_child(child_keeps_net_admin);
}

TEST(no_capability_is_kept_or_regained) {
	run_child(child_keeps_nothing);
}

TEST(a_sleeping_thread_drops_its_own) {
	run_child(child_interrupts_a_thread);
}

TEST(no_new_privileges) {
	run_child(child_freezes);
}
