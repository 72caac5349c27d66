// SPDX-License-Identifier: BSD-3-Clause
#include "text_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ROOM_BYTES ((size_t)64 << 10) // at first

// Returns 1 at the end of the file, 0 if more may follow, or negative errno.
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

int weir_text_file_read(const char *file, size_t most, char **ret, size_t *ret_bytes) {
	int fd = open(file, O_RDONLY | O_CLOEXEC);
	int r;

	if (fd < 0) {
		return -errno;
	}
	r = read_all(fd, most, ret, ret_bytes);
	close(fd);
	return r;
}

int weir_text_file_read_regular(const char *file, size_t most, char **ret, size_t *ret_bytes) {
	// Does not wait for a writer of a pipe, whatever has this name by now.
	int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;
	int r;

	if (fd < 0) {
		return errno == ENXIO ? -EINVAL : -errno; // a socket
	}
	if (fstat(fd, &st) < 0) {
		r = -errno;
	} else {
		r = S_ISREG(st.st_mode) ? read_all(fd, most, ret, ret_bytes) : -EINVAL;
	}
	close(fd);
	return r;
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
