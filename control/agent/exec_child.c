// SPDX-License-Identifier: BSD-3-Clause
#include "exec_child.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

// Signals that this process does not pass on to the server: signals for errors of this process, for
// job control of the terminal, and for a closed output (SIGPIPE).
static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT, SIGTSTP,
	SIGTTIN, SIGTTOU, SIGCONT, SIGPIPE};

int weir_exec_block_signals(sigset_t *ret_before) {
	sigset_t signals;
	int fd;

	sigfillset(&signals);
	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
		sigdelset(&signals, own[i]);
	}
	signal(SIGCHLD, SIG_DFL); // if SIGCHLD is ignored, the kernel keeps no exit status
	if (sigprocmask(SIG_BLOCK, &signals, ret_before)) {
		return -errno;
	}
	fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
	return fd < 0 ? -errno : fd;
}

static void take_over_id(const char *name, pid_t from) {
	const char *value = getenv(name);
	char text[24];

	if (value != NULL && strtol(value, NULL, 10) == from) {
		snprintf(text, sizeof(text), "%d", (int)getpid());
		setenv(name, text, 1);
	}
}

pid_t weir_exec_spawn(char **program, const char *notify_socket, const sigset_t *mask) {
	pid_t parent = getpid(), pid = fork();
	int error;

	if (pid != 0) {
		return pid;
	}
	setenv("NOTIFY_SOCKET", notify_socket, 1);
	take_over_id("LISTEN_PID", parent);
	take_over_id("WATCHDOG_PID", parent);
	sigprocmask(SIG_SETMASK, mask, NULL);
	execvp(program[0], program);
	error = errno;
	fprintf(stderr, "weir-agent exec: cannot run %s: %s\n", program[0], strerror(error));
	_exit(error == ENOENT ? 127 : 126);
}

int weir_exec_end_like(int status, const sigset_t *mask) {
	const struct rlimit no_core = {0};
	int number;

	if (WIFEXITED(status)) {
		return WEXITSTATUS(status);
	}
	number = WTERMSIG(status);
	if (getpid() != 1) {
		// Write no second core file: the server may have written one.
		setrlimit(RLIMIT_CORE, &no_core);
		sigprocmask(SIG_SETMASK, mask, NULL);
		signal(number, SIG_DFL);
		raise(number);
	}
	return 128 + number;
}
