// SPDX-License-Identifier: BSD-3-Clause
#include "keys_print.h"

#include <stdlib.h>
#include <string.h>

#include "sim_lab.h"

TEST(keys_print_has_path_range_default_and_meaning) {
	char *text = NULL, *rest, *line;
	size_t bytes;
	FILE *stream = open_memstream(&text, &bytes);
	uint32_t lines = 0;

	weir_sim_keys_print(stream);
	fclose(stream);
	assert_non_null(strstr(text, "\nduration_ms\t1 to 86400000\trequired\tSimulated time.\n"));
	assert_non_null(strstr(text, "\nsubset.mode\tspread, exact\t\"spread\"\t"));
	assert_non_null(strstr(text, "\nevents[].policy.window\t1 to 65535\t386\t"));
	assert_non_null(strstr(text, "\ncost.parts[].percent\t0 to 100\trequired\t"));
	for (line = strtok_r(text, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
		uint32_t tabs = 0;

		for (const char *c = line; *c != '\0'; c++) {
			tabs += *c == '\t';
		}
		assert_int_equal(tabs, 3);
		lines++;
	}
	assert_true(lines > 80);
	free(text);
}
