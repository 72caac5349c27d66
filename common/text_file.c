// SPDX-License-Identifier: BSD-3-Clause
#include "text_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ROOM_BYTES ((size_t)64 << 10) // initial size of the buffer

// Read the next part of the file into text, at offset *bytes, and add its length to *bytes. room:
// size of text. Returns 1 at the end of the file, 0 if more data may follow, or negative errno.
static int read_some(int fd, char *text, size_t room, size_t *bytes) {
	ssize_t n = read(fd, text + *bytes, room - *bytes);

	if (n < 0) {
		return errno == EINTR ? 0 : -errno;
	}
	*bytes += (size_t)n;
	return n == 0;
}

static int read_all(int fd, size_t most, char **ret, size_t *ret_bytes) {
	size_t room = ROOM_BYTES, bytes = 0;
	char *text = malloc(room + 1);
	int r = 0;

	if (text == NULL) {
		return -ENOMEM;
	}
	while (r == 0) {
		if (bytes == room) {
			char *grown = realloc(text, room * 2 + 1);

			if (grown == NULL) {
				r = -ENOMEM;
				break;
			}
			text = grown;
			room *= 2;
		}
		r = read_some(fd, text, room, &bytes);
		if (r >= 0 && bytes > most) {
			r = -EFBIG;
		}
	}
	if (r < 0) {
		free(text);
		return r;
	}
	text[bytes] = '\0';
	*ret = text;
	*ret_bytes = bytes;
	return 0;
}

// Reads an open file to its end, and closes it even if reading fails. fd: a negative value is the
// error of opening the file, and is returned. most: maximum length of the file in bytes.
static int read_and_close(int fd, size_t most, char **ret, size_t *ret_bytes) {
	int r = fd < 0 ? fd : read_all(fd, most, ret, ret_bytes);

	if (fd >= 0) {
		close(fd);
	}
	return r;
}

// Opens a file, without waiting if it is a pipe. Returns a descriptor, -EINVAL if the file is not a
// regular file, or another negative errno.
static int open_regular(const char *file, int flags, mode_t mode) {
	int fd = open(file, flags | O_CLOEXEC | O_NONBLOCK, mode), r;
	struct stat st;

	if (fd < 0) {
		return errno == ENXIO ? -EINVAL : -errno; // a socket, or a pipe without a reader
	}
	r = fstat(fd, &st) < 0 ? -errno : S_ISREG(st.st_mode) ? fd : -EINVAL;
	if (r < 0) {
		close(fd);
	}
	return r;
}

int weir_text_file_read(const char *file, size_t most, char **ret, size_t *ret_bytes) {
	int fd = open(file, O_RDONLY | O_CLOEXEC);

	return read_and_close(fd < 0 ? -errno : fd, most, ret, ret_bytes);
}

int weir_text_file_read_regular(const char *file, size_t most, char **ret, size_t *ret_bytes) {
	return read_and_close(open_regular(file, O_RDONLY, 0), most, ret, ret_bytes);
}

int weir_text_file_open_own(const char *file, int flags, mode_t mode) {
	return open_regular(file, flags | O_NOFOLLOW, mode);
}

int weir_text_file_read_own(const char *file, size_t most, char **ret, size_t *ret_bytes) {
	return read_and_close(weir_text_file_open_own(file, O_RDONLY, 0), most, ret, ret_bytes);
}

int weir_text_file_write(int fd, const char *text) {
	for (size_t bytes = strlen(text); bytes > 0;) {
		ssize_t n = write(fd, text, bytes);

		if (n < 0 && errno != EINTR) {
			return -errno;
		}
		text += n > 0 ? n : 0;
		bytes -= n > 0 ? (size_t)n : 0;
	}
	return 0;
}

int weir_text_file_replace(const char *file, const char *text) {
	char unfinished[PATH_MAX];
	int fd, r;

	if (snprintf(unfinished, sizeof(unfinished), "%s.new", file) >= (int)sizeof(unfinished)) {
		return -ENAMETOOLONG;
	}
	fd = weir_text_file_open_own(unfinished, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	if (fd < 0) {
		return fd;
	}
	// An earlier process may have created the file with another mode.
	r = fchmod(fd, 0600) < 0 ? -errno : weir_text_file_write(fd, text);
	if (close(fd) < 0 && r == 0) {
		r = -errno;
	}
	if (r == 0 && rename(unfinished, file) < 0) {
		r = -errno;
	}
	if (r < 0) {
		unlink(unfinished);
	}
	return r;
}
