// SPDX-License-Identifier: BSD-3-Clause
#include "doctor.h"
#include "test.h"

#define DRAIN(command, object) \
	"{\"command\": \"" command ".drain\", \"object\": \"" object "\", \"outcome\": \"done\"}"

// Two services have binds at one address, and all binds of the service "web" are drained.
TEST(command_ends_the_last_drain_of_the_service) {
	static const struct {
		const char *audit, *cure;
	} cases[] = {
		{"[" DRAIN("service", "web") "]", "weirctl service ready web"},
		{"[" DRAIN("service", "web") ", " DRAIN("vip", "192.0.2.1") "]",
			"weirctl vip ready 192.0.2.1"},
		{"[" DRAIN("service", "web") ", " DRAIN("vip", "web 192.0.2.1") "]",
			"weirctl vip ready 192.0.2.1"},
		{"[" DRAIN("service", "web") ", " DRAIN("vip", "lines 192.0.2.1") "]",
			"weirctl service ready web"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct weir_doctor doctor = {.audit = json_loads(cases[i].audit, 0, NULL),
			.services = json_pack("[{s:s, s:[s], s:[s]}]", "name", "web", "binds",
				"tcp 192.0.2.1:80", "drained_binds", "tcp 192.0.2.1:80")};

		assert_true(weir_doctor_report_drained(&doctor));
		assert_string_equal(doctor.findings.list[0].cure, cases[i].cure);
		weir_findings_fini(&doctor.findings);
		json_decref((json_t *)doctor.audit);
		json_decref((json_t *)doctor.services);
	}
}
