// SPDX-License-Identifier: BSD-3-Clause
#include "doctor.h"
#include "layout.h"
#include "test.h"

#include <stdlib.h>
#include <string.h>

#define NAME63 "a-name-of-the-maximum-length-a-name-of-the-maximum-length-a-nam"
#define UNUSED \
	"/etc/weir/weir.json does not fit the running weir-dataplane: service \"" NAME63 \
	"\" backend \"" NAME63 \
	"\": no free backend id: the maximum is 16384 (segment.max_backends; ids of removed " \
	"backends become free when their flows have ended); the file has larger limits: restart " \
	"weir-dataplane, then weir-control reloads the file; the previous configuration is in use"

// The reason names a service and a backend with names of the maximum length.
TEST(reason_of_an_unused_file_is_whole) {
	struct weir_config_errors errors = {0};
	struct weir_config *config = calloc(1, sizeof(*config));
	struct weir_doctor doctor = {.errors = &errors,
		.config = config,
		.config_path = "/etc/weir/weir.json",
		.root = "",
		.version = json_pack(
			"{s:s, s:s}", "config", "/etc/weir/weir.json", "config_unused", UNUSED)};

	assert_int_equal(strlen(NAME63), WEIR_NAME_BYTES - 1);
	weir_doctor_check_config(&doctor);
	assert_string_equal(doctor.findings.list[0].subject, "/etc/weir/weir.json");
	assert_string_equal(doctor.findings.list[0].found,
		UNUSED "; checking the configuration in use instead");
	weir_findings_fini(&doctor.findings);
	json_decref((json_t *)doctor.version);
	weir_config_free(config);
}
