// SPDX-License-Identifier: BSD-3-Clause
#include <string.h>

#include "doctor_checks.h"
#include "local_client.h"

struct check {
	const char *name;
	void (*run)(struct weir_agent_doctor *doctor);
};

#define X(function, name, text) {name, weir_agent_doctor_check_##function},
static const struct check checks[] = {WEIR_AGENT_DOCTOR_CHECKS(X)};
#undef X

static void print(const struct weir_agent_doctor *doctor) {
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
	print(&doctor);
	r = weir_findings_exit(&doctor.findings);
	weir_findings_fini(&doctor.findings);
	json_decref(doctor.status);
	return r;
}
