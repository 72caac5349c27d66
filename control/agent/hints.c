// SPDX-License-Identifier: BSD-3-Clause
#include "hints.h"

#include "doctor_checks.h"

static void (*const checks[])(struct weir_agent_doctor *doctor) = {
	weir_agent_doctor_check_loopback,
	weir_agent_doctor_check_rp_filter,
	weir_agent_doctor_check_arp,
	weir_agent_doctor_check_mtu,
	weir_agent_doctor_check_offloads,
};

unsigned int weir_hints_write(const struct weir_agent_options *options, FILE *out) {
	struct weir_agent_doctor doctor = {.options = options};
	unsigned int written = 0;

	if (weir_agent_host_read(options->interface, &doctor.host) < 0) {
		return 0;
	}
	for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
		checks[i](&doctor);
	}
	for (uint32_t i = 0; i < doctor.findings.count; i++) {
		const struct weir_finding *finding = &doctor.findings.list[i];

		if (finding->level == WEIR_FINDING_OK) {
			continue;
		}
		fprintf(out, "hint: %s: %s\n", finding->subject, finding->found);
		if (finding->cure[0] != '\0') {
			fprintf(out, "      %s\n", finding->cure);
		}
		written++;
	}
	weir_findings_fini(&doctor.findings);
	return written;
}
