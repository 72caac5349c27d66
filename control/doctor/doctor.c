// SPDX-License-Identifier: BSD-3-Clause
#include "doctor.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "daemon_options.h"

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

// Finds the processes of weir-control and weir-dataplane. Searches command lines only if the pid is
// not known from a reply of weir-control or from the lock in the run directory.
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

// Removes the commands that contain these words from the findings. Used for commands that would
// restart weir-dataplane when it could not start again, and for commands that edit a configuration
// file whose path is unknown.
static void withhold(struct weir_findings *findings, const char *words) {
	for (uint32_t i = 0; i < findings->count; i++) {
		if (strstr(findings->list[i].cure, words) != NULL) {
			findings->list[i].cure[0] = '\0';
		}
	}
}

// Inserts a command that starts or restarts weir-control before "systemctl restart weir-dataplane"
// in each command, because weir-dataplane forwards no packets before weir-control has published
// tables. Called if weir-control does not answer. runs: whether the process of weir-control is
// running.
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

// Adds --run-dir to each call of weirctl in a command, if the call would otherwise use another run
// directory. After sudo, weirctl uses the default run directory, because sudo does not preserve
// WEIR_RUN_DIR. A command stays unchanged if it already contains --run-dir, if the run directory
// contains a single quote, or if the extended command does not fit.
static void name_run_dir(const struct weir_doctor *doctor, char *cure, size_t bytes) {
	static const char word[] = "weirctl ", sudo[] = "sudo ";
	const bool safe = doctor->run_dir[strspn(doctor->run_dir, WEIR_SHELL_SAFE)] == '\0';
	const char *quote = safe ? "" : "'", *at = cure;
	char named[sizeof(doctor->findings.list->cure)];
	size_t n = 0;

	if (strstr(cure, "--run-dir") != NULL || strchr(doctor->run_dir, '\'') != NULL) {
		return;
	}
	while (*at != '\0' && n < bytes - 1) {
		const bool alone = at - cure >= (ptrdiff_t)strlen(sudo) &&
				   strncmp(at - strlen(sudo), sudo, strlen(sudo)) == 0;
		const char *usual = alone ? WEIR_RUN_DIR_DEFAULT : doctor->usual_run_dir;

		if (strncmp(at, word, strlen(word)) == 0 && (at == cure || at[-1] == ' ') &&
			strcmp(doctor->run_dir, usual) != 0) {
			n += (size_t)snprintf(named + n, bytes - n, "%s--run-dir %s%s%s ", word,
				quote, doctor->run_dir, quote);
			at += strlen(word);
		} else {
			named[n++] = *at++;
		}
	}
	if (n < bytes - 1) {
		named[n] = '\0';
		memcpy(cure, named, n + 1);
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
		// No weir-dataplane is running: a process that was killed has left this file
		// behind.
		doctor->runs = NULL;
	}
	doctor->candidate &= doctor->file != NULL;
	doctor->config = doctor->runs != NULL && !doctor->candidate ? doctor->runs : doctor->file;
	list_skipped(doctor);
	for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
		if (is_possible(doctor, &checks[i])) {
			const uint32_t first = doctor->findings.count;

			doctor->findings.check = checks[i].name;
			checks[i].run(doctor);
			weir_findings_limit(&doctor->findings, first);
		}
	}
	if (doctor->restart_fails) {
		withhold(&doctor->findings, "start weir-dataplane");
	}
	if (doctor->path_unknown) {
		withhold(&doctor->findings, "editor ");
	}
	if (doctor->root[0] == '\0' && doctor->version == NULL && doctor->error != 0 &&
		doctor->error != -EACCES && doctor->error != -EPERM) {
		start_control_first(&doctor->findings, doctor->control != 0);
	}
	for (uint32_t i = 0; i < doctor->findings.count; i++) {
		struct weir_finding *finding = &doctor->findings.list[i];

		name_run_dir(doctor, finding->cure, sizeof(finding->cure));
	}
}
