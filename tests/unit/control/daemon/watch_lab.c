// SPDX-License-Identifier: BSD-3-Clause
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "watch_lab.h"

int watch_lab_enter(void **state) {
	(void)state;
	if (unshare(CLONE_NEWNET)) {
		fprintf(stderr, "unshare: %s (root?)\n", strerror(errno));
		return -1;
	}
	signal(SIGPIPE, SIG_IGN);
	SHELL("ip link set lo up");
	return 0;
}

void watch_lab_make_hole(void) {
	SHELL("ip link add hole type veth peer name bottom &&"
	      "ip link set hole up && ip link set bottom up &&"
	      "ip addr add 10.1.0.1/24 dev hole &&"
	      "ip addr add 2001:db8:1::1/64 dev hole nodad &&"
	      "ip neigh add " WATCH_LAB_HOLE4 " lladdr 02:00:00:00:00:09 dev hole &&"
	      "ip neigh add " WATCH_LAB_HOLE6 " lladdr 02:00:00:00:00:09 dev hole");
}

pid_t watch_lab_start(const char *const *words) {
	pid_t pid = fork();

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		execvp(words[0], (char *const *)words);
		fprintf(stderr, "%s: %s\n", words[0], strerror(errno));
		_exit(127);
	}
	assert_true(pid > 0);
	return pid;
}

void watch_lab_stop(pid_t pid) {
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void nothing(uv_timer_t *timer) {
	(void)timer;
}

static void on_closed(uv_handle_t *handle) {
	*(bool *)handle->data = true;
}

void watch_lab_run(uv_loop_t *loop, watch_lab_condition condition, void *context,
	unsigned int timeout_ms, const char *what) {
	uint64_t end = uv_hrtime() + timeout_ms * 1000000ull;
	bool held = condition != NULL && condition(context), closed = false;
	uv_timer_t wake;

	uv_timer_init(loop, &wake);
	uv_timer_start(&wake, nothing, 5, 5);
	while (!held && uv_hrtime() < end) {
		uv_run(loop, UV_RUN_ONCE);
		held = condition != NULL && condition(context);
	}
	wake.data = &closed; // wake is on the stack, so it must be closed before returning
	uv_close((uv_handle_t *)&wake, on_closed);
	while (!closed) {
		uv_run(loop, UV_RUN_NOWAIT);
	}
	if (condition != NULL && !held) {
		fail_msg("%s: not within %u ms", what, timeout_ms);
	}
}

void watch_lab_idle(uv_loop_t *loop, unsigned int ms) {
	watch_lab_run(loop, NULL, NULL, ms, "");
}

void watch_lab_close(uv_loop_t *loop) {
	uv_run(loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(loop), 0);
}

struct weir_address watch_lab_address(const char *text) {
	struct weir_address address;

	assert_int_equal(weir_address_parse(text, &address), 0);
	return address;
}
