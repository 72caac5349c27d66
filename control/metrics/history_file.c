// SPDX-License-Identifier: BSD-3-Clause
#include "history_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int path_of(const char *directory, const char *name, char path[PATH_MAX]) {
	int n = snprintf(path, PATH_MAX, "%s/%s", directory, name);

	return n < PATH_MAX ? 0 : -ENAMETOOLONG;
}

static int explain(int error, const char *what, const char *path, char *why, size_t why_bytes) {
	snprintf(why, why_bytes, "%s %.200s: %s", what, path, strerror(-error));
	return error;
}

// --- reading ----------------------------------------------------------------------------------

// A fifo, a device or a link cannot block the start, or send it elsewhere.
static int open_regular(const char *path) {
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct stat found;

	if (fd < 0) {
		return -errno;
	}
	if (fstat(fd, &found) < 0 || !S_ISREG(found.st_mode)) {
		close(fd);
		return -EINVAL;
	}
	return fd;
}

// Returns the number of bytes, -EFBIG for more than there is room for, or negative errno.
static ssize_t read_all(int fd, char *buffer, size_t room) {
	size_t bytes = 0;
	ssize_t n;

	do {
		n = read(fd, buffer + bytes, room - bytes);
		bytes += n > 0 ? (size_t)n : 0;
	} while ((n > 0 && bytes < room) || (n < 0 && errno == EINTR));
	return n < 0 ? -errno : bytes == room ? -EFBIG : (ssize_t)bytes;
}

static ssize_t read_file(const char *path, char *buffer, size_t room) {
	int fd = open_regular(path);
	ssize_t bytes;

	if (fd < 0) {
		return fd;
	}
	bytes = read_all(fd, buffer, room);
	close(fd);
	return bytes;
}

static int parse(const char *buffer, size_t bytes, uint64_t now_ms, struct weir_history *history) {
	json_t *json = json_loadb(buffer, bytes, JSON_REJECT_DUPLICATES, NULL);
	int r = json != NULL ? weir_history_parse(json, now_ms, history) : -EINVAL;

	json_decref(json);
	return r;
}

int weir_history_read(const char *directory, uint64_t now_ms, struct weir_history *history,
	char *why, size_t why_bytes) {
	char *buffer = malloc(WEIR_HISTORY_FILE_BYTES + 1), path[PATH_MAX] = "";
	ssize_t bytes = buffer != NULL ? path_of(directory, "history.json", path) : -ENOMEM;
	int r;

	if (bytes == 0) {
		bytes = read_file(path, buffer, WEIR_HISTORY_FILE_BYTES + 1);
	}
	r = bytes < 0 ? (int)bytes : parse(buffer, (size_t)bytes, now_ms, history);
	free(buffer);
	if (r == -EINVAL) {
		snprintf(why, why_bytes,
			"%.200s is not a history of this version: the plots start empty", path);
		return r;
	}
	return r < 0 && r != -ENOENT ? explain(r, "cannot read", path, why, why_bytes) : r;
}

// --- writing ----------------------------------------------------------------------------------

// Not synchronized with the disk: after a power failure a history may be missing.
static int write_all(int fd, const char *data, size_t bytes) {
	while (bytes > 0) {
		ssize_t n = write(fd, data, bytes);

		if (n < 0 && errno == EINTR) {
			continue;
		}
		if (n <= 0) {
			return n < 0 ? -errno : -EIO;
		}
		data += n;
		bytes -= (size_t)n;
	}
	return 0;
}

// An earlier process may have left the file; it gets the mode again.
static int write_file(const char *path, const char *data, size_t bytes) {
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK,
		S_IRUSR | S_IWUSR);
	int r;

	if (fd < 0) {
		return -errno;
	}
	r = fchmod(fd, S_IRUSR | S_IWUSR) < 0 ? -errno : write_all(fd, data, bytes);
	if (close(fd) < 0 && r == 0) {
		r = -errno;
	}
	return r;
}

int weir_history_write(const char *directory, const json_t *json, char *why, size_t why_bytes) {
	char path[PATH_MAX] = "", new_path[PATH_MAX];
	char *text = json_dumps(json, JSON_COMPACT);
	size_t bytes = text != NULL ? strlen(text) : 0;
	int r = text != NULL ? path_of(directory, "history.json", path) : -ENOMEM;

	if (r == 0) {
		r = path_of(directory, "history.json.new", new_path);
	}
	if (r == 0) {
		r = bytes <= WEIR_HISTORY_FILE_BYTES ? write_file(new_path, text, bytes) : -EFBIG;
	}
	if (r == 0 && rename(new_path, path) < 0) {
		r = -errno;
	}
	free(text);
	return r < 0 ? explain(r, "cannot write", path, why, why_bytes) : 0;
}
