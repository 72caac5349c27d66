// SPDX-License-Identifier: BSD-3-Clause
#include "processes.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon_options.h"
#include "terminal.h"
#include "tree.h"

#define COMMAND_LINE_BYTES 8192
#define OPTION "--run-dir"

static const struct program {
	const char *name, *verb; // verb: word that the command line must contain; NULL = none
	const char *shown, *run_dir; // shown: name in messages; run_dir: default of --run-dir
	const char *endpoint; // what a running program has in its run directory, for messages
} programs[] = {
	[WEIR_PROGRAM_DATAPLANE] = {"weir-dataplane", NULL, "weir-dataplane", WEIR_RUN_DIR_DEFAULT,
		"lock"},
	[WEIR_PROGRAM_CONTROL] = {"weir-control", NULL, "weir-control", WEIR_RUN_DIR_DEFAULT,
		"open socket"},
	[WEIR_PROGRAM_AGENT] = {"weir-agent", "run", "weir-agent run", WEIR_AGENT_RUN_DIR_DEFAULT,
		"open socket"},
};

// Returns whether a process has the same network namespace as this process. Another balancer on
// this machine has another namespace. Compares the inode numbers of /proc/PID/net/dev, which differ
// between namespaces. /proc/PID/ns/net is not used, because for processes of other users only root
// has permission to read it. Also returns true if a namespace is unknown, and for a copy of another
// machine's files.
static bool same_network(const char *root, const char *pid) {
	char path[WEIR_TREE_PATH_BYTES];
	struct stat theirs, ours;

	snprintf(path, sizeof(path), "%s/proc/%s/net/dev", root, pid);
	return root[0] != '\0' || stat(path, &theirs) < 0 ||
	       stat("/proc/self/net/dev", &ours) < 0 ||
	       (theirs.st_ino == ours.st_ino && theirs.st_dev == ours.st_dev);
}

// Reads the run directory from /proc/PID/cmdline, in which each argument ends with NUL. Returns
// false if the command line does not contain the verb of the program.
static bool read_command_line(
	const struct program *program, const char *line, int length, char *run_dir, size_t bytes) {
	const char *end = line + length, *word = line + strlen(line) + 1;
	bool found = program->verb == NULL;

	snprintf(run_dir, bytes, "%s", program->run_dir);
	for (; word < end && strcmp(word, "--") != 0; word += strlen(word) + 1) {
		const char *next = word + strlen(word) + 1;

		if (strncmp(word, OPTION "=", strlen(OPTION "=")) == 0) {
			snprintf(run_dir, bytes, "%s", word + strlen(OPTION "="));
		} else if (strcmp(word, OPTION) == 0 && next < end) {
			snprintf(run_dir, bytes, "%s", next);
			word = next;
		} else {
			found |= program->verb != NULL && strcmp(word, program->verb) == 0;
		}
	}
	return found;
}

// Makes a relative run directory absolute, if this user has permission to read the working
// directory of the process.
static void resolve(const char *root, const char *pid, char *run_dir, size_t bytes) {
	char link[WEIR_TREE_PATH_BYTES], cwd[WEIR_TREE_PATH_BYTES], whole[2 * WEIR_TREE_PATH_BYTES];
	ssize_t n;

	snprintf(link, sizeof(link), "%s/proc/%s/cwd", root, pid);
	n = run_dir[0] != '/' ? readlink(link, cwd, sizeof(cwd) - 1) : -1;
	if (n > 0) {
		cwd[n] = '\0';
		snprintf(whole, sizeof(whole), "%s/%s", strcmp(cwd, "/") != 0 ? cwd : "", run_dir);
		snprintf(run_dir, bytes, "%.*s", (int)bytes - 1, whole);
	}
}

static bool same_text(const char *a, const char *b) {
	size_t a_bytes = strlen(a), b_bytes = strlen(b);

	while (a_bytes > 1 && a[a_bytes - 1] == '/') {
		a_bytes--;
	}
	while (b_bytes > 1 && b[b_bytes - 1] == '/') {
		b_bytes--;
	}
	return a_bytes == b_bytes && memcmp(a, b, a_bytes) == 0;
}

// Returns whether both paths are the same directory. If the process runs in a container where the
// path `theirs` is another directory, changes `theirs` to the path outside the container.
static bool same_directory(
	const char *root, const char *pid, const char *ours, char *theirs, size_t bytes) {
	char path[WEIR_TREE_PATH_BYTES];
	struct stat here = {0}, there = {0}, inside;
	const bool has_here = stat(weir_tree_path(root, ours, path), &here) == 0;
	const bool has_there = stat(weir_tree_path(root, theirs, path), &there) == 0;

	snprintf(path, sizeof(path), "/proc/%s/root%s", pid, theirs);
	if (root[0] == '\0' && theirs[0] == '/' && stat(path, &inside) == 0 &&
		(!has_there || inside.st_ino != there.st_ino || inside.st_dev != there.st_dev)) {
		snprintf(theirs, bytes, "%.*s", (int)bytes - 1, path);
		return has_here && inside.st_ino == here.st_ino && inside.st_dev == here.st_dev;
	}
	return has_here && has_there ? here.st_ino == there.st_ino && here.st_dev == there.st_dev
				     : same_text(ours, theirs);
}

static void look_at(const char *root, const struct program *program, const char *pid,
	const char *run_dir, struct weir_processes *found) {
	char line[COMMAND_LINE_BYTES], name[32], theirs[WEIR_TREE_PATH_BYTES] = "";
	int length;

	if (weir_tree_text(root, name, sizeof(name), "/proc/%s/comm", pid) <= 0 ||
		strcmp(name, program->name) != 0 || !same_network(root, pid)) {
		return;
	}
	length = weir_tree_text(root, line, sizeof(line), "/proc/%s/cmdline", pid);
	if (length == 0) {
		return; // the process has exited
	}
	if (length > 0) {
		if (!read_command_line(program, line, length, theirs, sizeof(theirs))) {
			return;
		}
		resolve(root, pid, theirs, sizeof(theirs));
	}
	// A copy of another machine's files can lack the command line (length < 0).
	if (length < 0 || same_directory(root, pid, run_dir, theirs, sizeof(theirs))) {
		found->here = found->here != 0 ? found->here : (pid_t)strtol(pid, NULL, 10);
	} else if (found->elsewhere.pid == 0) {
		found->elsewhere.pid = (pid_t)strtol(pid, NULL, 10);
		// Any user can start a process of this name, with any text as its run directory.
		// The text becomes part of a command for a shell, so it must be safe.
		if (strlen(theirs) < sizeof(found->elsewhere.run_dir) &&
			theirs[strspn(theirs, WEIR_SHELL_SAFE)] == '\0') {
			snprintf(found->elsewhere.run_dir, sizeof(found->elsewhere.run_dir), "%.*s",
				WEIR_PROCESS_DIR_BYTES - 1, theirs);
		}
	}
}

struct weir_processes weir_processes_find(
	const char *root, enum weir_program program, const char *run_dir) {
	struct weir_processes found = {0};
	char path[WEIR_TREE_PATH_BYTES];
	DIR *folder = opendir(weir_tree_path(root, "/proc", path));
	struct dirent *entry;

	while (folder != NULL && found.here == 0 && (entry = readdir(folder)) != NULL) {
		if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9') {
			look_at(root, &programs[program], entry->d_name, run_dir, &found);
		}
	}
	if (folder != NULL) {
		closedir(folder);
	}
	return found;
}

bool weir_processes_explain(const struct weir_processes *processes, enum weir_program program,
	const char *run_dir, char *text, size_t bytes) {
	const struct program *of = &programs[program];
	const struct weir_process *other = &processes->elsewhere;
	char shown[WEIR_PROCESS_DIR_BYTES];

	weir_terminal_text(run_dir, shown, sizeof(shown));
	text[0] = '\0';
	if (processes->here != 0) {
		snprintf(text, bytes,
			"%s (pid %d) runs, but has no %s in %s: the process is starting or "
			"stopping; if the directory was replaced, restart the process",
			of->shown, (int)processes->here, of->endpoint, shown);
	} else if (other->pid != 0 && other->run_dir[0] != '\0') {
		snprintf(text, bytes,
			"%s does not run in %s, but pid %d runs in %s: use --run-dir %s", of->shown,
			shown, (int)other->pid, other->run_dir, other->run_dir);
	} else if (other->pid != 0) {
		snprintf(text, bytes,
			"%s does not run in %s, but pid %d runs in another directory: use the "
			"--run-dir of that process",
			of->shown, shown, (int)other->pid);
	}
	return text[0] != '\0';
}
