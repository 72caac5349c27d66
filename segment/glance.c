// SPDX-License-Identifier: BSD-3-Clause
#include "glance.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "handover.h"
#include "heartbeat.h"
#include "refuse.h"
#include "segment_regions.h"

// --- finding the process --------------------------------------------------------------------

pid_t weir_glance_holder(const char *line, const struct stat *lock, bool same_device) {
	unsigned int major_id, minor_id;
	uint64_t inode;
	int pid;

	// A line of /proc/locks: "1: FLOCK ADVISORY WRITE 4711 00:19:1234 0 EOF". 4711 is the pid
	// of the holder, and 00:19:1234 is the device and the inode of the file.
	if (sscanf(line, "%*d: FLOCK %*s %*s %d %x:%x:%" SCNu64, &pid, &major_id, &minor_id,
		    &inode) != 4 ||
		inode != lock->st_ino || pid <= 0) {
		return 0;
	}
	return !same_device || (major_id == major(lock->st_dev) && minor_id == minor(lock->st_dev))
		       ? (pid_t)pid
		       : 0;
}

// Returns whether a file is on tmpfs. On tmpfs, /proc/locks shows the same device for the file as
// stat() returns, and the caller must compare the devices, because files of other tmpfs mounts can
// have the same small inode numbers. On other file systems, for instance btrfs, the devices may
// differ.
static bool has_same_device(const char *path) {
	struct statfs fs;

	return statfs(path, &fs) == 0 && fs.f_type == TMPFS_MAGIC;
}

pid_t weir_glance_find(const char *run_dir) {
	char path[PATH_MAX], line[256];
	struct stat lock;
	bool same_device;
	FILE *locks;
	pid_t found = 0;

	if ((size_t)snprintf(path, sizeof(path), "%s/" WEIR_HANDOVER_LOCK, run_dir) >=
		sizeof(path)) {
		return -ENAMETOOLONG;
	}
	if (stat(path, &lock) < 0) {
		return -errno;
	}
	same_device = has_same_device(path);
	locks = fopen("/proc/locks", "re");
	if (locks == NULL) {
		return -errno;
	}
	while (found == 0 && fgets(line, sizeof(line), locks) != NULL) {
		found = weir_glance_holder(line, &lock, same_device);
	}
	fclose(locks);
	return found != 0 ? found : -ENOENT;
}

// Open a memfd of another process by its name. Returns a read-only descriptor, -ENOENT (the process
// has no such memfd), or another negative errno.
static int open_memory(pid_t pid, const char *name) {
	char path[64], link[PATH_MAX], target[128], wanted[64];
	int fd = -ENOENT;
	struct dirent *entry;
	DIR *folder;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	snprintf(wanted, sizeof(wanted), "/memfd:%s (deleted)", name);
	folder = opendir(path);
	if (folder == NULL) {
		return -errno;
	}
	while (fd == -ENOENT && (entry = readdir(folder)) != NULL) {
		ssize_t n;

		snprintf(link, sizeof(link), "%s/%s", path, entry->d_name);
		n = readlink(link, target, sizeof(target) - 1);
		if (n < 0) {
			continue;
		}
		target[n] = '\0';
		if (strcmp(target, wanted) == 0) {
			fd = open(link, O_RDONLY | O_CLOEXEC);
			fd = fd < 0 ? -errno : fd;
		}
	}
	closedir(folder);
	return fd;
}

// --- reading its segment --------------------------------------------------------------------

static bool read_number(int fd, uint64_t at, uint64_t *ret) {
	return pread(fd, ret, sizeof(*ret), (off_t)at) == (ssize_t)sizeof(*ret);
}

int weir_glance_memories(int statistics_fd, int tables_fd, uint64_t now_ns, struct weir_glance *ret,
	char *why, size_t why_bytes) {
	struct weir_segment_header header = {0};
	uint64_t value;
	int r = weir_segment_read_header(statistics_fd, &header, why, why_bytes);

	if (r < 0) {
		return r;
	}
	*ret = (struct weir_glance){.pid = (pid_t)header.dataplane_pid, .workers = header.workers};
	for (uint32_t w = 0; w < header.workers; w++) {
		uint64_t at = header.worker_counters_off + w * sizeof(struct weir_worker_counters) +
			      offsetof(struct weir_worker_counters, heartbeat_ns);

		if (!read_number(statistics_fd, at, &value)) {
			return weir_refuse(
				-EIO, why, why_bytes, "cannot read the heartbeats of the workers");
		}
		if (!weir_heartbeat_alive(value, now_ns)) {
			ret->stalled_worker[ret->stalled++] = w;
		}
	}
	if (!read_number(
		    tables_fd, header.roots_off + offsetof(struct weir_roots, services), &value)) {
		return weir_refuse(
			-EIO, why, why_bytes, "cannot read the tables of weir-dataplane");
	}
	ret->has_tables = value != 0;
	return 0;
}

int weir_glance_at(
	pid_t pid, uint64_t now_ns, struct weir_glance *ret, char *why, size_t why_bytes) {
	int statistics_fd = open_memory(pid, WEIR_SEGMENT_STATISTICS_NAME);
	int tables_fd = -ENOENT, r;

	if (statistics_fd < 0) {
		return weir_refuse(statistics_fd, why, why_bytes,
			"cannot open the shared memory of weir-dataplane: %s",
			strerror(-statistics_fd));
	}
	tables_fd = open_memory(pid, WEIR_SEGMENT_TABLES_NAME);
	if (tables_fd < 0) {
		r = weir_refuse(tables_fd, why, why_bytes,
			"cannot open the shared memory of weir-dataplane: %s",
			strerror(-tables_fd));
		goto close_statistics;
	}
	r = weir_glance_memories(statistics_fd, tables_fd, now_ns, ret, why, why_bytes);
	if (r == 0) {
		ret->pid = pid; // pid in the pid namespace of this process
	}
	close(tables_fd);
close_statistics:
	close(statistics_fd);
	return r;
}

bool weir_glance_is_stopped(pid_t pid) {
	char path[64], text[512], *end;
	FILE *file;
	size_t n;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	file = fopen(path, "re");
	if (file == NULL) {
		return false;
	}
	n = fread(text, 1, sizeof(text) - 1, file);
	fclose(file);
	text[n] = '\0';
	end = strrchr(text, ')'); // the name can contain spaces and parentheses
	return end != NULL && end[1] == ' ' && (end[2] == 'T' || end[2] == 't' || end[2] == 'Z');
}
