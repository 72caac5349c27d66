// SPDX-License-Identifier: BSD-3-Clause
//
// Runs weirctl in the test process. The test passes the arguments, and gets the exit status,
// standard output and standard error.
#pragma once

#include <pty.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli.h"
#include "server.h"
#include "test.h"

struct outcome {
	int status;
	char *out, *err;
};

// Run weirctl. arguments: without the name of the program, terminated by NULL. run_dir: NULL =
// none.
static inline struct outcome run_weirctl(const char *run_dir, char *const *arguments) {
	struct outcome outcome = {0};
	size_t out_bytes, err_bytes;
	FILE *out = open_memstream(&outcome.out, &out_bytes);
	FILE *err = open_memstream(&outcome.err, &err_bytes);
	char *argv[16] = {"weirctl"};
	int argc = 1;

	while (arguments[argc - 1] != NULL) {
		argv[argc] = arguments[argc - 1];
		argc++;
	}
	outcome.status = weir_cli_main(argc, argv, run_dir, out, err);
	fclose(out);
	fclose(err);
	return outcome;
}

// Enter a new network namespace, so that daemons of this machine are not found. Users other than
// root cannot do this, and stay in the current namespace.
static inline void use_own_network(void) {
	(void)!unshare(CLONE_NEWNET);
}

static inline void free_outcome(struct outcome *outcome) {
	free(outcome->out);
	free(outcome->err);
}

#define RUN(run_dir, ...) run_weirctl(run_dir, (char *const[]){__VA_ARGS__, NULL})

// Run weirctl on a terminal of this size, in a separate process, which must exit with status 0.
// text: the output of weirctl.
static inline void run_on_terminal(const char *run_dir, unsigned short rows, unsigned short columns,
	char *const *arguments, char *text, size_t text_bytes) {
	struct winsize size = {.ws_row = rows, .ws_col = columns};
	char *argv[16] = {"weirctl"};
	size_t bytes = 0;
	ssize_t n;
	int fd, status, argc = 1;
	pid_t pid = forkpty(&fd, NULL, NULL, &size);

	assert_true(pid >= 0);
	if (pid == 0) {
		for (; arguments[argc - 1] != NULL; argc++) {
			argv[argc] = arguments[argc - 1];
		}
		_exit(weir_cli_main(argc, argv, run_dir, stdout, stderr));
	}
	while (bytes < text_bytes - 1 && (n = read(fd, text + bytes, text_bytes - 1 - bytes)) > 0) {
		bytes += (size_t)n;
	}
	text[bytes] = '\0';
	assert_int_equal(waitpid(pid, &status, 0), pid);
	close(fd);
	assert_int_equal(status, 0);
}

static inline void expect_contains(const char *text, const char *part) {
	if (strstr(text, part) == NULL) {
		fail_msg("\"%s\" is not in:\n%s", part, text);
	}
}
