// SPDX-License-Identifier: BSD-3-Clause
#include "saved_state.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "text_file.h"

#define WORD_BYTES 2 // a digit (the state) and a line feed; the ports follow, padded with zeros

int weir_saved_state_open(const char *run_dir, struct weir_log *log) {
	static const char nothing[WORD_BYTES + WEIR_SAVED_PORTS_BYTES] = {
		'0' + WEIR_HEALTH_WORD_NONE, '\n'};
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", run_dir, WEIR_SAVED_STATE);
	fd = weir_text_file_open_own(path, O_RDWR | O_CREAT, 0600);
	// Reserve space for later states: the file system may be full when a state is written.
	if (fd >= 0 && lseek(fd, 0, SEEK_END) == 0 && pwrite(fd, nothing, sizeof(nothing), 0) < 0) {
		int r = -errno;

		close(fd);
		fd = r;
	}
	if (fd < 0) {
		weir_log_write(log, WEIR_LOG_WARN,
			"%s: %s; a restart of the agent will lose the lame-duck state and "
			"closed ports",
			path, strerror(-fd));
	}
	return fd < 0 ? -1 : fd;
}

enum weir_health_word weir_saved_state_read(int fd) {
	char word = 0;

	if (fd < 0 || pread(fd, &word, 1, 0) != 1) {
		return WEIR_HEALTH_WORD_NONE;
	}
	return word == '0' + WEIR_HEALTH_WORD_LAME_DUCK ? WEIR_HEALTH_WORD_LAME_DUCK
							: WEIR_HEALTH_WORD_NONE;
}

int weir_saved_state_is_left(const char *run_dir) {
	char path[PATH_MAX], word;
	ssize_t n;
	int fd, r;

	snprintf(path, sizeof(path), "%s/%s", run_dir, WEIR_SAVED_STATE);
	fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0) {
		return -errno;
	}
	n = read(fd, &word, 1);
	r = n < 0 ? -errno : n == 1 && word != '0' + WEIR_HEALTH_WORD_NONE;
	close(fd);
	return r;
}

void weir_saved_state_write(int fd, enum weir_health_word word) {
	const char text[] = {(char)('0' + word), '\n'};

	if (fd >= 0) {
		// Ignore errors: weir_saved_state_open has reserved the space.
		(void)!pwrite(fd, text, sizeof(text), 0);
	}
}

void weir_saved_state_read_ports(int fd, char ret[static WEIR_SAVED_PORTS_BYTES]) {
	ssize_t n = fd < 0 ? 0 : pread(fd, ret, WEIR_SAVED_PORTS_BYTES - 1, WORD_BYTES);

	ret[n > 0 ? n : 0] = '\0';
}

void weir_saved_state_write_ports(int fd, const char text[static WEIR_SAVED_PORTS_BYTES]) {
	if (fd >= 0) {
		(void)!pwrite(fd, text, WEIR_SAVED_PORTS_BYTES, WORD_BYTES);
	}
}
