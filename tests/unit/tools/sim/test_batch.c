// SPDX-License-Identifier: BSD-3-Clause
#include "batch.h"

#include "sim_lab.h"

static const char text[] =
	"{'name': 'x', 'title': '', 'duration_ms': 4000, 'cost': {'mean_ms': 2},"
	"'clients': {'count': 3, 'load_percent': 40}, 'backends': {'count': 4, 'cores': 1},"
	"'variants': [{'name': 'a'}, {'name': 'b', 'policy': {'name': 'random'}}]}";

static struct weir_sim_results *run(
	const struct weir_sim_file *file, uint64_t first_seed, uint32_t seeds, uint32_t jobs) {
	struct weir_sim_batch batch = {
		.file = file, .first_seed = first_seed, .seeds = seeds, .jobs = jobs};
	struct weir_sim_results *results = NULL;

	assert_int_equal(weir_sim_batch_run(&batch, &results), 0);
	assert_int_equal(results->count, file->variant_count * seeds);
	return results;
}

TEST(batch_results_do_not_depend_on_the_number_of_jobs) {
	struct weir_sim_file *file = lab_parse(text);
	struct weir_sim_results *one = run(file, 1, 5, 1);
	struct weir_sim_results *many = run(file, 1, 5, 7);

	for (uint32_t i = 0; i < one->count; i++) {
		assert_int_equal(one->result[i]->seed, i % 5 + 1);
		assert_int_equal(one->result[i]->events, many->result[i]->events);
		assert_memory_equal(&one->result[i]->totals, &many->result[i]->totals,
			sizeof(one->result[i]->totals));
	}
	weir_sim_results_free(one);
	weir_sim_results_free(many);
	weir_sim_file_free(file);
}

TEST(batch_seeds_start_at_the_given_one) {
	struct weir_sim_file *file = lab_parse(text);
	struct weir_sim_results *all = run(file, 1, 3, 2);
	struct weir_sim_results *third = run(file, 3, 1, 2);

	for (uint32_t variant = 0; variant < 2; variant++) {
		assert_int_equal(third->result[variant]->seed, 3);
		assert_int_equal(
			third->result[variant]->events, all->result[variant * 3 + 2]->events);
	}
	weir_sim_results_free(all);
	weir_sim_results_free(third);
	weir_sim_file_free(file);
	weir_sim_results_free(NULL);
}
