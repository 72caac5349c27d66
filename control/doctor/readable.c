// SPDX-License-Identifier: BSD-3-Clause
#include "readable.h"

#include <grp.h>
#include <limits.h>
#include <linux/capability.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "processes.h"
#include "tree.h"

#define STATUS_BYTES 16384
#define NAME_BYTES 64

const char *weir_user_name(uid_t uid, char *buffer, size_t bytes) {
	const struct passwd *user = getpwuid(uid);

	if (user != NULL) {
		snprintf(buffer, bytes, "%s", user->pw_name);
	} else {
		snprintf(buffer, bytes, "%u", (unsigned int)uid);
	}
	return buffer;
}

const char *weir_group_name(gid_t gid, char *buffer, size_t bytes) {
	const struct group *group = getgrgid(gid);

	if (group != NULL) {
		snprintf(buffer, bytes, "%s", group->gr_name);
	} else {
		snprintf(buffer, bytes, "%u", (unsigned int)gid);
	}
	return buffer;
}

// --- identity of the process --------------------------------------------------------------

static void read_groups(const char *text, struct weir_reader_ids *ids) {
	const char *at = strstr(text, "\nGroups:");
	char *end;

	at = at != NULL ? at + strlen("\nGroups:") : "";
	while (ids->groups < WEIR_READABLE_GROUPS) {
		at += strspn(at, " \t");
		if (*at < '0' || *at > '9') { // the end of the line
			break;
		}
		ids->group[ids->groups++] = (gid_t)strtoul(at, &end, 10);
		at = end;
	}
}

bool weir_readable_ids(pid_t pid, struct weir_reader_ids *ret) {
	const unsigned long long all =
		1ull << CAP_DAC_OVERRIDE |
		1ull << CAP_DAC_READ_SEARCH; // each is sufficient to read every file
	unsigned long long capabilities = 0;
	unsigned int uid, gid;
	char text[STATUS_BYTES];
	const char *at;

	if (weir_tree_text("", text, sizeof(text), "/proc/%d/status", (int)pid) <= 0) {
		return false;
	}
	*ret = (struct weir_reader_ids){0};
	at = strstr(text, "\nUid:"); // real, effective, saved and filesystem UID
	if (at == NULL || sscanf(at, "\nUid: %*u %*u %*u %u", &uid) != 1) {
		return false;
	}
	at = strstr(text, "\nGid:");
	if (at == NULL || sscanf(at, "\nGid: %*u %*u %*u %u", &gid) != 1) {
		return false;
	}
	at = strstr(text, "\nCapEff:");
	if (at == NULL || sscanf(at, "\nCapEff: %llx", &capabilities) != 1) {
		return false;
	}
	ret->uid = uid;
	ret->gid = gid;
	ret->reads_all = (capabilities & all) != 0;
	read_groups(text, ret);
	return true;
}

static bool is_member(const struct weir_reader_ids *ids, gid_t gid) {
	bool found = gid == ids->gid;

	for (unsigned int i = 0; i < ids->groups; i++) {
		found |= gid == ids->group[i];
	}
	return found;
}

// --- path ---------------------------------------------------------------------------------

struct search {
	const struct weir_reader_ids *ids;
	char *found, *cure;
	bool denied; // a permission is missing
	bool unknown; // a part of the path could not be examined
	bool no_cure; // the commands are incomplete
};

// Adds the commands that give the process a permission on a path. permission: 4 = read a file, 1 =
// search a directory.
static void add_cure(struct search *search, const char *path, const struct stat *status,
	unsigned int permission) {
	char command[WEIR_READABLE_CURE_BYTES], group[NAME_BYTES];
	const mode_t mode = status->st_mode & 07777;
	const size_t used = strlen(search->cure);
	int bytes;

	weir_group_name(search->ids->gid, group, sizeof(group));
	if (status->st_uid == search->ids->uid) {
		bytes = snprintf(command, sizeof(command), "chmod %04o %s",
			(unsigned int)mode | permission << 6, path);
	} else if (is_member(search->ids, status->st_gid)) {
		bytes = snprintf(command, sizeof(command), "chmod %04o %s",
			(unsigned int)mode | permission << 3, path);
	} else {
		bytes = snprintf(command, sizeof(command), "chgrp %s %s && chmod %04o %s", group,
			path, (unsigned int)mode | permission << 3, path);
	}
	if (path[strspn(path, WEIR_SHELL_SAFE)] != '\0' ||
		(size_t)bytes + used + sizeof(" && ") > WEIR_READABLE_CURE_BYTES) {
		search->no_cure = true;
		return;
	}
	snprintf(search->cure + used, WEIR_READABLE_CURE_BYTES - used, "%s%s",
		used > 0 ? " && " : "", command);
}

static void examine(struct search *search, const char *path, unsigned int permission) {
	char owner[NAME_BYTES], group[NAME_BYTES];
	unsigned int shift = 0;
	struct stat status;

	if (stat(path, &status) < 0) {
		search->unknown = true;
		return;
	}
	if (status.st_uid == search->ids->uid) {
		shift = 6;
	} else if (is_member(search->ids, status.st_gid)) {
		shift = 3;
	}
	if (((unsigned int)status.st_mode >> shift & permission) != 0 ||
		getxattr(path, "system.posix_acl_access", NULL, 0) > 0) {
		return;
	}
	if (!search->denied) {
		const bool directory = S_ISDIR(status.st_mode);

		snprintf(search->found, WEIR_READABLE_FOUND_BYTES,
			"%s%.128s%smode %04o, owner %s, group %s", directory ? "directory " : "",
			directory ? path : "", directory ? ": " : "", status.st_mode & 07777,
			weir_user_name(status.st_uid, owner, sizeof(owner)),
			weir_group_name(status.st_gid, group, sizeof(group)));
		search->denied = true;
	}
	add_cure(search, path, &status, permission);
}

// Examines whether the process may search the directories of an absolute path. Skips directories
// that are also on the path `done`.
static void examine_directories(struct search *search, const char *path, const char *done) {
	char directory[PATH_MAX];

	for (const char *at = strchr(path + 1, '/'); at != NULL; at = strchr(at + 1, '/')) {
		const size_t bytes = (size_t)(at - path);

		if (strncmp(path, done, bytes) != 0 || done[bytes] != '/') {
			snprintf(directory, sizeof(directory), "%.*s", (int)bytes, path);
			examine(search, directory, 1);
		}
	}
}

enum weir_readable weir_readable_by(const struct weir_reader_ids *ids, const char *path,
	char found[WEIR_READABLE_FOUND_BYTES], char cure[WEIR_READABLE_CURE_BYTES]) {
	struct search search = {.ids = ids, .found = found, .cure = cure};
	char real[PATH_MAX]; // the path without symbolic links; the directories of both paths must
			     // be searchable

	found[0] = cure[0] = '\0';
	if (ids->reads_all) {
		return WEIR_READABLE_YES;
	}
	if (path[0] != '/' || strlen(path) >= PATH_MAX || realpath(path, real) == NULL) {
		return WEIR_READABLE_UNKNOWN;
	}
	examine_directories(&search, path, "");
	examine_directories(&search, real, path);
	examine(&search, real, 4);
	if (search.no_cure) {
		cure[0] = '\0';
	}
	return search.denied    ? WEIR_READABLE_NO
	       : search.unknown ? WEIR_READABLE_UNKNOWN
				: WEIR_READABLE_YES;
}
