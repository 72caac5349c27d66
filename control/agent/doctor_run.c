// SPDX-License-Identifier: BSD-3-Clause
#include <string.h>

#include "daemon_options.h"
#include "doctor_checks.h"
#include "local_client.h"
#include "processes.h"

struct check {
	const char *name;
	void (*run)(struct weir_agent_doctor *doctor);
};

#define X(function, name, text) {name, weir_agent_doctor_check_##function},
static const struct check checks[] = {WEIR_AGENT_DOCTOR_CHECKS(X)};
#undef X

// Append an option to the command of a finding, with the value that this run of doctor uses. usual:
// default value of the option. Does nothing if the value is the default or contains a quote, if the
// command already has the option, or if the option does not fit.
static void add_option(
	struct weir_finding *finding, const char *option, const char *value, const char *usual) {
	const char *quote = value[strspn(value, WEIR_SHELL_SAFE)] == '\0' ? "" : "'";
	const size_t used = strlen(finding->cure), room = sizeof(finding->cure) - used;

	if (strcmp(value, usual) == 0 || strchr(value, '\'') != NULL ||
		strstr(finding->cure, option) != NULL) {
		return;
	}
	if (snprintf(finding->cure + used, room, " %s %s%s%s", option, quote, value, quote) >=
		(int)room) {
		finding->cure[used] = '\0'; // the option does not fit into the command
	}
}

// If the command of a finding runs weir-agent, add the run directory that this run of doctor uses,
// and for weir-agent doctor also the key file.
static void name_options(const struct weir_agent_options *options, struct weir_finding *finding) {
	static const char sudo[] = "sudo ", program[] = "weir-agent ", doctor[] = "doctor ";
	const char *call = finding->cure;

	call += strncmp(call, sudo, strlen(sudo)) == 0 ? strlen(sudo) : 0;
	if (strncmp(call, program, strlen(program)) != 0) {
		return;
	}
	add_option(finding, "--run-dir", options->run_dir, WEIR_AGENT_RUN_DIR_DEFAULT);
	if (strncmp(call + strlen(program), doctor, strlen(doctor)) == 0) {
		add_option(finding, "--key-file", options->key_file, WEIR_AGENT_KEY_FILE);
	}
}

static void print(struct weir_agent_doctor *doctor) {
	json_t *json;

	if (!doctor->options->json) {
		weir_findings_print(&doctor->findings, stdout);
		return;
	}
	json = weir_findings_json(&doctor->findings);
	json_dumpf(json, stdout, JSON_INDENT(2) | JSON_ENSURE_ASCII);
	putchar('\n');
	json_decref(json);
}

int weir_agent_doctor_run(const struct weir_agent_options *options) {
	struct weir_agent_doctor doctor = {.options = options};
	int r = weir_agent_host_read(options->interface, &doctor.host);

	if (r < 0) {
		fprintf(stderr, "weir-agent: interface %s: %s\n", options->interface, strerror(-r));
		return WEIR_AGENT_REFUSED;
	}
	doctor.status = weir_local_status_read(options);
	for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
		doctor.findings.check = checks[i].name;
		checks[i].run(&doctor);
	}
	for (uint32_t i = 0; i < doctor.findings.count; i++) {
		name_options(options, &doctor.findings.list[i]);
	}
	print(&doctor);
	if (doctor.findings.out_of_memory) {
		fprintf(stderr, "weir-agent: out of memory\n");
	}
	r = weir_findings_exit(&doctor.findings);
	weir_findings_fini(&doctor.findings);
	json_decref(doctor.status);
	return r;
}
