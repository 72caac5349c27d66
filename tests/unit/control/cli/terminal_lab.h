// SPDX-License-Identifier: BSD-3-Clause
//
// Runs weirctl top on a pseudo-terminal. The test sends keys and reads the output.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <utmp.h>

#include "cli_lab.h"

#define TERMINAL_TEXT 262144

struct terminal {
	int fd, slave;
	pid_t pid;
	struct termios before;
	char text[TERMINAL_TEXT];
	size_t bytes;
};

static inline void open_terminal(
	struct terminal *t, const char *folder, unsigned short rows, unsigned short columns) {
	struct winsize size = {.ws_row = rows, .ws_col = columns};
	char *argv[] = {"weirctl", "top", "--interval=0.1", NULL};
	int fd, slave;

	memset(t, 0, sizeof(*t));
	assert_int_equal(openpty(&fd, &slave, NULL, NULL, &size), 0);
	assert_int_equal(tcgetattr(slave, &t->before), 0);
	t->fd = fd;
	t->pid = fork();
	assert_true(t->pid >= 0);
	if (t->pid == 0) {
		close(fd);
		login_tty(slave);
		_exit(weir_cli_main(3, argv, folder, stdout, stderr));
	}
	t->slave = slave; // at the end, the test reads the terminal settings from it
}

// Read until this text appears in the output after `from`.
static inline void expect_drawn(struct terminal *t, size_t from, const char *part) {
	const time_t until = time(NULL) + 10;

	while (strstr(t->text + from, part) == NULL) {
		struct pollfd wait = {.fd = t->fd, .events = POLLIN};
		ssize_t n;

		if (poll(&wait, 1, 10000) <= 0 || time(NULL) > until ||
			t->bytes >= TERMINAL_TEXT - 1) {
			fail_msg("\"%s\" was not printed:\n%s", part, t->text + from);
		}
		n = read(t->fd, t->text + t->bytes, TERMINAL_TEXT - 1 - t->bytes);
		assert_true(n > 0);
		t->bytes += (size_t)n;
		t->text[t->bytes] = '\0';
	}
}

static inline size_t type(struct terminal *t, const char *keys) {
	size_t from = t->bytes;

	assert_int_equal(write(t->fd, keys, strlen(keys)), strlen(keys));
	return from;
}

// Returns the last complete screen, without escape sequences.
static inline char *last_screen(struct terminal *t) {
	char *begin = t->text, *next, *to;
	char *end = t->text + t->bytes;

	for (char *p = t->text; (p = strstr(p, "\033[J")) != NULL; p++) {
		end = p;
	}
	*end = '\0';
	while ((next = strstr(begin, "\033[H")) != NULL) {
		begin = next + 3;
	}
	to = begin;
	for (const char *p = begin; *p != '\0'; p++) {
		if (strncmp(p, "\033[", 2) == 0) { // skip escape sequences, including colours
			p += 2 + strcspn(p + 2, "Km");
		} else if (*p != '\r') {
			*to++ = *p;
		}
	}
	*to = '\0';
	return begin;
}

// Check that weirctl exits with this status and restores the terminal.
static inline void expect_restored(struct terminal *t, int status) {
	struct termios now;
	int is;

	expect_drawn(t, 0, "\033[?25h\033[?1049l");
	assert_int_equal(waitpid(t->pid, &is, 0), t->pid);
	assert_true(WIFEXITED(is));
	assert_int_equal(WEXITSTATUS(is), status);
	assert_int_equal(tcgetattr(t->slave, &now), 0);
	assert_int_equal(now.c_lflag, t->before.c_lflag);
	assert_memory_equal(now.c_cc, t->before.c_cc, sizeof(now.c_cc));
	close(t->fd);
	close(t->slave);
}
