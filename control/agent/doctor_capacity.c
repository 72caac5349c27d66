// SPDX-License-Identifier: BSD-3-Clause
//
// Checks the measured speed of the CPUs.
#include <string.h>

#include "capacity_demand.h"
#include "doctor_checks.h"

void weir_agent_doctor_check_capacity(struct weir_agent_doctor *doctor) {
	const json_t *capacity = json_object_get(doctor->status, "capacity");
	const char *state = json_string_value(json_object_get(capacity, "state"));
	const char *cpu = json_string_value(json_object_get(capacity, "cpu"));
	const double gcu = json_number_value(json_object_get(capacity, "gcu"));

	if (state == NULL || cpu == NULL) {
		// Either no agent is running, which another check reports, or the running agent is
		// an earlier version.
		return;
	}
	if (cpu[0] == '\0') {
		cpu = "unknown model";
	}
	if (gcu > 0) {
		weir_findings_add(&doctor->findings, WEIR_FINDING_OK, cpu,
			"one CPU has %.2f GCU, %s", gcu, state);
	} else if (strcmp(state, WEIR_CAPACITY_FAILED_TEXT) == 0) {
		weir_findings_add(&doctor->findings, WEIR_FINDING_WARNING, cpu,
			"the speed of the CPUs is %s: weights \"auto\" use the CPU frequency",
			state);
		weir_findings_cure(&doctor->findings, "weir-agent capacity --measure");
	} else {
		weir_findings_add(&doctor->findings, WEIR_FINDING_OK, cpu,
			"the speed of the CPUs is %s", state);
	}
}
