// SPDX-License-Identifier: BSD-3-Clause
#include "config_running.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "text_file.h"

#define PREFIX "dataplane-"
#define SUFFIX ".json"
#define UNFINISHED ".new"
#define DIGITS 16
#define NAME_BYTES 48

static void name_file(uint64_t epoch, const char *end, char name[NAME_BYTES]) {
	snprintf(name, NAME_BYTES, PREFIX "%016" PRIx64 SUFFIX "%s", epoch, end);
}

// Returns whether `name` is the name of a file that this module writes. *ret_unfinished: the file
// has its temporary name, because it is not complete.
static bool parse_name(const char *name, uint64_t *ret_epoch, bool *ret_unfinished) {
	char digits[DIGITS + 1] = "";
	const char *rest;

	if (strncmp(name, PREFIX, strlen(PREFIX)) != 0) {
		return false;
	}
	name += strlen(PREFIX);
	if (strspn(name, "0123456789abcdef") != DIGITS) {
		return false;
	}
	memcpy(digits, name, DIGITS);
	rest = name + DIGITS;
	*ret_epoch = strtoull(digits, NULL, 16);
	*ret_unfinished = strcmp(rest, SUFFIX UNFINISHED) == 0;
	return *ret_unfinished || strcmp(rest, SUFFIX) == 0;
}

char *weir_config_running_text(const char *text, size_t bytes) {
	json_t *json = json_loadb(text, bytes, 0, NULL);
	char *running = NULL;

	if (json != NULL && json_object_set_new(json, "services", json_array()) == 0) {
		running = json_dumps(json, JSON_INDENT(2));
	}
	json_decref(json);
	return running;
}

// --- the dataplane's side -----------------------------------------------------------------

static int write_file(int dir, const char *name, uid_t user, gid_t group, const char *text) {
	int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	int r;

	if (fd < 0) {
		return -errno;
	}
	r = weir_text_file_write(fd, text);
	// Change the mode before the owner: a process without CAP_FOWNER cannot change the mode of
	// another user's file.
	if (r == 0 &&
		(fchmod(fd, group != (gid_t)-1 ? 0640 : 0600) < 0 || fchown(fd, user, group) < 0)) {
		r = -errno;
	}
	if (close(fd) < 0 && r == 0) {
		r = -errno;
	}
	return r;
}

int weir_config_running_write(
	const char *run_dir, uint64_t epoch, uid_t user, gid_t group, const char *text) {
	int dir = open(run_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char name[NAME_BYTES], unfinished[NAME_BYTES];
	int r;

	if (dir < 0) {
		return -errno;
	}
	name_file(epoch, "", name);
	name_file(epoch, UNFINISHED, unfinished);
	r = write_file(dir, unfinished, user, group, text);
	if (r == 0 && renameat(dir, unfinished, dir, name) < 0) {
		r = -errno;
	}
	if (r < 0) {
		unlinkat(dir, unfinished, 0);
	}
	close(dir);
	return r;
}

void weir_config_running_remove(const char *run_dir) {
	DIR *dir = opendir(run_dir);
	struct dirent *entry;

	if (dir == NULL) {
		return;
	}
	while ((entry = readdir(dir)) != NULL) {
		uint64_t epoch;
		bool unfinished;

		if (parse_name(entry->d_name, &epoch, &unfinished)) {
			unlinkat(dirfd(dir), entry->d_name, 0);
		}
	}
	closedir(dir);
}

// --- the readers' side --------------------------------------------------------------------

// Find the only file of this module in the run directory, and get its epoch. Returns 0 or negative
// errno.
static int find_only(const char *run_dir, uint64_t *ret_epoch) {
	DIR *dir = opendir(run_dir);
	struct dirent *entry;
	uint32_t count = 0;

	if (dir == NULL) {
		return -errno;
	}
	while ((entry = readdir(dir)) != NULL) {
		uint64_t epoch;
		bool unfinished;

		if (parse_name(entry->d_name, &epoch, &unfinished) && !unfinished) {
			*ret_epoch = epoch;
			count++;
		}
	}
	closedir(dir);
	return count == 1 ? 0 : -ENOENT;
}

// Finds the file of an epoch, and gets its path and stat(2) data. Returns 0, -EINVAL (not a regular
// file) or another negative errno.
static int find_file(
	const char *run_dir, uint64_t epoch, char path[PATH_MAX], struct stat *ret_state) {
	char name[NAME_BYTES];

	name_file(epoch, "", name);
	if (snprintf(path, PATH_MAX, "%s/%s", run_dir, name) >= PATH_MAX) {
		return -ENAMETOOLONG;
	}
	if (lstat(path, ret_state) < 0) {
		return -errno;
	}
	return S_ISREG(ret_state->st_mode) ? 0 : -EINVAL;
}

uint64_t weir_config_running_started_ms(const char *run_dir, uint64_t epoch) {
	char path[PATH_MAX];
	struct stat state;

	if (find_file(run_dir, epoch, path, &state) < 0 || state.st_mtim.tv_sec < 0) {
		return 0;
	}
	return (uint64_t)state.st_mtim.tv_sec * 1000 + (uint64_t)state.st_mtim.tv_nsec / 1000000;
}

int weir_config_running_read(const char *run_dir, uint64_t epoch, struct weir_config **ret) {
	struct weir_config_errors errors;
	char path[PATH_MAX];
	struct stat state;
	size_t bytes;
	char *text;
	int r = epoch == 0 ? find_only(run_dir, &epoch) : 0;

	if (r == 0) {
		r = find_file(run_dir, epoch, path, &state);
	}
	if (r < 0) {
		return r;
	}
	r = weir_text_file_read_regular(path, WEIR_CONFIG_FILE_BYTES_MAX, &text, &bytes);
	if (r < 0) {
		return r;
	}
	r = weir_config_parse(text, bytes, ret, &errors);
	weir_config_errors_fini(&errors);
	free(text);
	return r;
}
