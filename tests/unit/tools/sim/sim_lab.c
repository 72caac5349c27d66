// SPDX-License-Identifier: BSD-3-Clause
#include "sim_lab.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "simulation.h"

struct weir_sim_file *lab_parse(const char *text) {
	struct weir_config_errors errors = {0};
	struct weir_sim_file *file = NULL;
	char *json = strdup(text);

	assert_non_null(json);
	for (char *c = json; *c != '\0'; c++) {
		*c = *c == '\'' ? '"' : *c;
	}
	if (weir_sim_file_parse(json, &file, &errors) < 0) {
		for (uint32_t i = 0; i < errors.count; i++) {
			print_error("%s: %s\n", errors.error[i].path, errors.error[i].reason);
		}
		fail();
	}
	weir_config_errors_fini(&errors);
	free(json);
	return file;
}

struct weir_sim_result *lab_run(const struct weir_sim_file *file, uint32_t variant, uint64_t seed) {
	struct weir_sim_result *result = NULL;

	assert_int_equal(weir_sim_run(&file->variant[variant], seed, NULL, &result), 0);
	return result;
}

struct weir_sim_result *lab_try(const char *text) {
	struct weir_sim_file *file = lab_parse(text);
	struct weir_sim_result *result = lab_run(file, 0, 1);

	weir_sim_file_free(file);
	return result;
}

uint64_t lab_accounted(const struct weir_sim_result *result) {
	uint64_t sum = result->unfinished;

	for (int i = 0; i < WEIR_SIM_ENDING_COUNT; i++) {
		sum += result->totals.ended[i];
	}
	return sum;
}

void lab_near_at(
	double value, double wanted, double part, const char *what, const char *file, int line) {
	if (!(fabs(value - wanted) <= fabs(wanted) * part)) {
		print_error("%s = %g, expected %g within %g %%\n", what, value, wanted, part * 100);
		_fail(file, line);
	}
}
