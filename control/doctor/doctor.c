// SPDX-License-Identifier: BSD-3-Clause
#include "doctor.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tree.h"

typedef void (*check_fn)(struct weir_doctor *doctor);

struct check {
	const char *name;
	check_fn run;
	bool live;
};

#define X(function, name, text) {name, weir_doctor_check_##function, false},
#define LIVE(function, name, text) {name, weir_doctor_check_##function, true},
static const struct check checks[] = {WEIR_DOCTOR_CHECKS(X) WEIR_DOCTOR_LIVE_CHECKS(LIVE)};
#undef X
#undef LIVE

// Another balancer on this machine runs in another network namespace. A copy has no namespaces.
static bool same_network(const char *root, const char *pid) {
	char path[WEIR_TREE_PATH_BYTES];
	struct stat theirs, ours;

	snprintf(path, sizeof(path), "%s/proc/%s/ns/net", root, pid);
	return root[0] != '\0' || stat(path, &theirs) < 0 || stat("/proc/self/ns/net", &ours) < 0 ||
	       (theirs.st_ino == ours.st_ino && theirs.st_dev == ours.st_dev);
}

static pid_t find_process(const struct weir_doctor *doctor, const char *name) {
	char path[WEIR_TREE_PATH_BYTES], text[32];
	DIR *folder = opendir(weir_tree_path(doctor->root, "/proc", path));
	struct dirent *entry;
	pid_t found = 0;

	while (folder != NULL && found == 0 && (entry = readdir(folder)) != NULL) {
		if (entry->d_name[0] >= '0' && entry->d_name[0] <= '9' &&
			weir_tree_text(doctor->root, text, sizeof(text), "/proc/%s/comm",
				entry->d_name) > 0 &&
			strcmp(text, name) == 0 && same_network(doctor->root, entry->d_name)) {
			found = (pid_t)strtol(entry->d_name, NULL, 10);
		}
	}
	if (folder != NULL) {
		closedir(folder);
	}
	return found;
}

static void find_processes(struct weir_doctor *doctor) {
	const json_t *dataplane = json_object_get(doctor->version, "dataplane");

	if (doctor->version != NULL) {
		doctor->control =
			(pid_t)json_integer_value(json_object_get(doctor->version, "pid"));
		doctor->dataplane = (pid_t)json_integer_value(json_object_get(dataplane, "pid"));
	}
	if (doctor->control == 0) {
		doctor->control = find_process(doctor, "weir-control");
	}
	if (doctor->dataplane == 0) {
		doctor->dataplane = find_process(doctor, "weir-dataplane");
	}
}

// Remove the cures that would end a dataplane that cannot start again.
static void withhold_restarts(struct weir_findings *findings) {
	for (uint32_t i = 0; i < findings->count; i++) {
		if (strstr(findings->list[i].cure, "start weir-dataplane") != NULL) {
			findings->list[i].cure[0] = '\0';
		}
	}
}

void weir_doctor_run(struct weir_doctor *doctor) {
	find_processes(doctor);
	if (doctor->dataplane == 0) {
		doctor->runs = NULL; // left by one that was killed
	}
	doctor->config = doctor->runs != NULL && !doctor->candidate ? doctor->runs : doctor->file;
	for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
		if (!checks[i].live || doctor->root[0] == '\0') {
			doctor->findings.check = checks[i].name;
			checks[i].run(doctor);
		}
	}
	if (doctor->restart_fails) {
		withhold_restarts(&doctor->findings);
	}
}
