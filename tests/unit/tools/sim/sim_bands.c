// SPDX-License-Identifier: BSD-3-Clause
#include "sim_bands.h"

#include <stdio.h>
#include <string.h>

#include "sim_lab.h"

#define SEEDS 2
#define JOBS 2

static uint32_t find_variant(const struct weir_sim_file *file, const char *name, uint32_t *window) {
	size_t bytes = strcspn(name, "/");

	for (uint32_t i = 0; i < file->variant_count; i++) {
		const struct weir_sim_scenario *variant = &file->variant[i];

		if (strlen(variant->name) != bytes || strncmp(variant->name, name, bytes) != 0) {
			continue;
		}
		for (*window = 0; *window < variant->window_count; (*window)++) {
			if (name[bytes] == '\0' ||
				strcmp(variant->window[*window].name, &name[bytes + 1]) == 0) {
				return i;
			}
		}
	}
	fail_msg("no variant or window %s", name);
	return 0;
}

void lab_check(
	const char *directory, const char *scenario, const struct lab_band *bands, size_t count) {
	struct weir_config_errors errors = {0};
	struct weir_sim_batch batch = {.first_seed = 1, .seeds = SEEDS, .jobs = JOBS};
	struct weir_sim_results *results;
	struct weir_sim_file *file;
	uint64_t seen = 0;
	char path[512];

	snprintf(path, sizeof(path), "%s/%s.json", directory, scenario);
	assert_int_equal(weir_sim_file_read(path, &file, &errors), 0);
	weir_config_errors_fini(&errors);
	batch.file = file;
	assert_int_equal(weir_sim_batch_run(&batch, &results), 0);
	weir_sim_summary_print(stdout, file, results);
	printf("\n");
	fflush(stdout);
	for (size_t i = 0; i < count; i++) {
		uint32_t window = 0, variant = find_variant(file, bands[i].variant, &window);
		struct weir_sim_range range =
			weir_sim_range_of(results, variant, window, bands[i].metric);

		seen |= UINT64_C(1) << variant;
		if (range.least < bands[i].least || range.most > bands[i].most) {
			fail_msg("%s, %s: %s %g to %g, expected %g to %g", scenario,
				bands[i].variant, weir_sim_metric_name(bands[i].metric),
				range.least, range.most, bands[i].least, bands[i].most);
		}
	}
	assert_int_equal(seen, (UINT64_C(1) << file->variant_count) - 1);
	weir_sim_results_free(results);
	weir_sim_file_free(file);
}
