// SPDX-License-Identifier: BSD-3-Clause
#include "doctor.h"

#include <errno.h>
#include <string.h>

typedef void (*check_fn)(struct weir_doctor *doctor);

struct check {
	const char *name;
	check_fn run;
	enum weir_doctor_need need;
	bool live;
};

#define X(function, need, name, text) \
	{name, weir_doctor_check_##function, WEIR_DOCTOR_NEEDS_##need, false},
#define LIVE(function, need, name, text) \
	{name, weir_doctor_check_##function, WEIR_DOCTOR_NEEDS_##need, true},
static const struct check checks[] = {WEIR_DOCTOR_CHECKS(X) WEIR_DOCTOR_LIVE_CHECKS(LIVE)};
#undef X
#undef LIVE

// The pid of a daemon that answers or holds its lock in the run directory is known. The command
// lines tell of those that neither answer nor run there.
static void find_processes(struct weir_doctor *doctor) {
	const json_t *dataplane = json_object_get(doctor->version, "dataplane");
	const json_t *locked = json_object_get(doctor->status, "dataplane");

	doctor->control = (pid_t)json_integer_value(json_object_get(doctor->version, "pid"));
	doctor->dataplane = (pid_t)json_integer_value(json_object_get(dataplane, "pid"));
	if (doctor->dataplane == 0) {
		doctor->dataplane = (pid_t)json_integer_value(json_object_get(locked, "pid"));
	}
	if (doctor->control == 0) {
		doctor->found_control =
			weir_processes_find(doctor->root, WEIR_PROGRAM_CONTROL, doctor->run_dir);
		doctor->control = doctor->found_control.here;
	}
	if (doctor->dataplane == 0) {
		doctor->found_dataplane =
			weir_processes_find(doctor->root, WEIR_PROGRAM_DATAPLANE, doctor->run_dir);
		doctor->dataplane = doctor->found_dataplane.here;
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

// Without weir-control, or with one that hangs, a dataplane that starts has no tables, and forwards
// nothing.
static void start_control_first(struct weir_findings *findings, bool runs) {
	static const char restart[] = "systemctl restart weir-dataplane";

	for (uint32_t i = 0; i < findings->count; i++) {
		char *cure = findings->list[i].cure, *at = strstr(cure, restart);
		char rest[sizeof(findings->list[i].cure)];

		if (at != NULL) {
			snprintf(rest, sizeof(rest), "%s", at);
			snprintf(at, sizeof(rest) - (size_t)(at - cure),
				"systemctl %s weir-control && %s", runs ? "restart" : "start",
				rest);
		}
	}
}

static bool has(const struct weir_doctor *doctor, enum weir_doctor_need need) {
	switch (need) {
	case WEIR_DOCTOR_NEEDS_NOTHING:
		return true;
	case WEIR_DOCTOR_NEEDS_FILE:
		return doctor->file != NULL;
	case WEIR_DOCTOR_NEEDS_CONFIG:
		return doctor->config != NULL;
	case WEIR_DOCTOR_NEEDS_SERVICES:
		return doctor->file != NULL || (doctor->config != NULL && doctor->runs_services);
	}
	return true;
}

static bool is_possible(const struct weir_doctor *doctor, const struct check *check) {
	return !check->live || doctor->root[0] == '\0';
}

static void list_skipped(struct weir_doctor *doctor) {
	const size_t bytes = sizeof(doctor->skipped);
	char *text = doctor->skipped;
	size_t length = 0;

	text[0] = '\0';
	for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]) && length < bytes; i++) {
		if (is_possible(doctor, &checks[i]) && !has(doctor, checks[i].need)) {
			length += (size_t)snprintf(text + length, bytes - length, "%s%s",
				length > 0 ? ", " : "", checks[i].name);
		}
	}
}

void weir_doctor_run(struct weir_doctor *doctor) {
	find_processes(doctor);
	if (doctor->dataplane == 0) {
		doctor->runs = NULL; // left by one that was killed
	}
	doctor->candidate &= doctor->file != NULL;
	doctor->config = doctor->runs != NULL && !doctor->candidate ? doctor->runs : doctor->file;
	list_skipped(doctor);
	for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
		if (is_possible(doctor, &checks[i])) {
			doctor->findings.check = checks[i].name;
			checks[i].run(doctor);
		}
	}
	if (doctor->restart_fails) {
		withhold_restarts(&doctor->findings);
	}
	if (doctor->root[0] == '\0' && doctor->version == NULL && doctor->error != -EACCES &&
		doctor->error != -EPERM) {
		start_control_first(&doctor->findings, doctor->control != 0);
	}
}
