// SPDX-License-Identifier: BSD-3-Clause
//
// Readable: determines whether a running process has permission to read a file. Uses the user, the
// groups and the capabilities in /proc/PID/status, and the modes of the file and of the directories
// on its path. Access control lists and security modules are not evaluated: a file or directory
// with an access control list counts as accessible.
//
// Threads: one at a time, because getpwuid(3) and getgrgid(3) are not reentrant. Reads only; no
// logging.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define WEIR_READABLE_GROUPS 256
#define WEIR_READABLE_FOUND_BYTES 256
#define WEIR_READABLE_CURE_BYTES 320

struct weir_reader_ids {
	uid_t uid;
	gid_t gid;
	bool reads_all; // the process can read every file, because of a capability
	unsigned int groups; // number of supplementary groups
	gid_t group[WEIR_READABLE_GROUPS]; // groups above the maximum number are ignored
};

// Read user, groups and capabilities of a process. Returns false if they are unknown.
bool weir_readable_ids(pid_t pid, struct weir_reader_ids *ret);

enum weir_readable { WEIR_READABLE_UNKNOWN, WEIR_READABLE_YES, WEIR_READABLE_NO };

// Returns whether a process with this identity has permission to read the file. If the result is
// WEIR_READABLE_NO, two texts are set. found: describes the first file or directory that denies
// access, for example "mode 0600, owner root, group root"; for a directory, the text begins with
// its path. cure: the commands that grant all missing permissions; "" if a path needs quotes or the
// commands are too long.
enum weir_readable weir_readable_by(const struct weir_reader_ids *ids, const char *path,
	char found[WEIR_READABLE_FOUND_BYTES], char cure[WEIR_READABLE_CURE_BYTES]);

// Writes the name of a user or group, or its numeric ID if it has no name. Returns buffer.
const char *weir_user_name(uid_t uid, char *buffer, size_t bytes);
const char *weir_group_name(gid_t gid, char *buffer, size_t bytes);
