// SPDX-License-Identifier: BSD-3-Clause
#include "doctor.h"

#include <string.h>

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
