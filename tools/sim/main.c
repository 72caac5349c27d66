// SPDX-License-Identifier: BSD-3-Clause
//
// weir-sim: runs the policies of the dataplane with simulated clients and backends.
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "batch.h"
#include "catalogue.h"
#include "csv.h"
#include "help_text.h"
#include "keys_print.h"
#include "options.h"
#include "plot.h"
#include "scenario.h"
#include "standard_output.h"
#include "summary.h"
#include "weir_version.h"

#define PATH_BYTES 4096
#define LINE_BYTES (PATH_BYTES + 1024) // a path and an error message

enum exit_code { EXIT_DONE, EXIT_FAILED, EXIT_USAGE };

static void complain(const char *why) {
	fflush(stdout);
	fprintf(stderr, "weir-sim: %s\n", why);
}

static int read_file(const char *path, struct weir_sim_file **ret) {
	struct weir_config_errors errors = {0};
	char line[LINE_BYTES];
	int r = weir_sim_file_read(path, ret, &errors);

	for (uint32_t i = 0; i < errors.count; i++) {
		fprintf(stderr, "%s\n",
			weir_config_error_format(path, &errors.error[i], line, sizeof(line)));
	}
	if (r < 0 && errors.count == 0) {
		complain(strerror(-r));
	}
	weir_config_errors_fini(&errors);
	return r;
}

static int make_directory(const char *path) {
	char why[PATH_BYTES];

	if (mkdir(path, 0777) == 0 || errno == EEXIST) {
		return EXIT_DONE;
	}
	snprintf(why, sizeof(why), "%s: %s", path, strerror(errno));
	complain(why);
	return EXIT_FAILED;
}

static int write_files(const struct weir_sim_options *options, const struct weir_sim_file *file,
	const struct weir_sim_results *results) {
	const char *format = weir_sim_format_name(options->format);
	char why[PATH_BYTES], text[PATH_BYTES + 64];
	int r = weir_sim_csv_write(options->out, file, results, why, sizeof(why));

	if (r < 0) {
		snprintf(text, sizeof(text), "%s: %s", why, strerror(-r));
		complain(text);
		return EXIT_FAILED;
	}
	if (options->no_plots) {
		return EXIT_DONE;
	}
	r = weir_sim_plots_draw(options->out, format, file, results, why, sizeof(why));
	if (r == -ENOENT) {
		complain(
			"gnuplot is not installed (Debian package: gnuplot-nox): the CSV files and "
			"the plot scripts (*.gp) were written, but no plots were drawn");
	} else if (r < 0) {
		complain(why);
	}
	return r < 0 ? EXIT_FAILED : EXIT_DONE;
}

static int print_json(const struct weir_sim_file *file, const struct weir_sim_results *results) {
	json_t *json = weir_sim_summary_json(file, results);
	int r = json == NULL ? -1 : json_dumpf(json, stdout, JSON_INDENT(2));

	json_decref(json);
	putchar('\n');
	return r < 0 ? EXIT_FAILED : EXIT_DONE;
}

static int show(const struct weir_sim_options *options, const struct weir_sim_file *file,
	const struct weir_sim_results *results) {
	int status = EXIT_DONE;

	if (options->json) {
		status = print_json(file, results);
	} else {
		weir_sim_summary_print(stdout, file, results);
	}
	if (!weir_standard_output_finish("weir-sim", stdout, stderr)) {
		status = EXIT_FAILED;
	}
	if (status == EXIT_DONE && options->out != NULL) {
		status = write_files(options, file, results);
	}
	return status;
}

static int simulate(const struct weir_sim_options *options, const struct weir_sim_file *file) {
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	struct weir_sim_batch batch = {.file = file,
		.first_seed = options->seed > 0 ? options->seed : 1,
		.seeds = options->seeds > 0  ? options->seeds
			 : options->seed > 0 ? 1
					     : file->seeds,
		.jobs = options->jobs > 0 ? options->jobs : (uint32_t)(cpus > 0 ? cpus : 1),
		.show_progress = !options->quiet && isatty(STDERR_FILENO)};
	struct weir_sim_results *results;
	int r, status;

	// Check the directory before the simulation, which may take hours.
	if (options->out != NULL && make_directory(options->out) != EXIT_DONE) {
		return EXIT_FAILED;
	}
	r = weir_sim_batch_run(&batch, &results);
	if (r < 0) {
		complain(r == -ENOMEM ? "out of memory; use fewer clients, smaller subsets or a "
					"smaller --jobs"
				      : strerror(-r));
		return EXIT_FAILED;
	}
	status = show(options, file, results);
	weir_sim_results_free(results);
	return status;
}

static int run(const struct weir_sim_options *options) {
	char path[PATH_BYTES];
	struct weir_sim_file *file;
	int status = EXIT_DONE;

	if (options->command == WEIR_SIM_COMMAND_RUN) {
		weir_sim_catalogue_path(
			weir_sim_catalogue_directory(options->directory, WEIR_SIM_DIRECTORY),
			options->operand, path, sizeof(path));
	} else {
		snprintf(path, sizeof(path), "%s", options->operand);
	}
	if (read_file(path, &file) < 0) {
		return EXIT_FAILED;
	}
	if (options->command == WEIR_SIM_COMMAND_RUN) {
		status = simulate(options, file);
	} else {
		printf("%s: %s, %u variant%s, no errors\n", path, file->name, file->variant_count,
			file->variant_count == 1 ? "" : "s");
	}
	weir_sim_file_free(file);
	return status;
}

static int run_command(const struct weir_sim_options *options) {
	char help[WEIR_HELP_BYTES];

	if (options->help) {
		fputs(weir_sim_help(options->command, help, sizeof(help)), stdout);
		return EXIT_DONE;
	}
	if (options->version) {
		puts("weir-sim " WEIR_VERSION);
		return EXIT_DONE;
	}
	switch (options->command) {
	case WEIR_SIM_COMMAND_LIST:
		return weir_sim_catalogue_print(
			       weir_sim_catalogue_directory(options->directory, WEIR_SIM_DIRECTORY),
			       stdout, stderr) < 0
			       ? EXIT_FAILED
			       : EXIT_DONE;
	case WEIR_SIM_COMMAND_KEYS:
		weir_sim_keys_print(stdout);
		return EXIT_DONE;
	default:
		return run(options);
	}
}

int main(int argc, char **argv) {
	struct weir_sim_options options;
	char why[256], help[64];
	int status;

	weir_standard_output_claim();
	if (weir_sim_options_parse(argc, argv, &options, why, sizeof(why)) < 0) {
		complain(why);
		fprintf(stderr, "Try: %s\n",
			weir_sim_help_words(options.command, help, sizeof(help)));
		return EXIT_USAGE;
	}
	status = run_command(&options);
	if (status == EXIT_DONE && !weir_standard_output_finish("weir-sim", stdout, stderr)) {
		status = EXIT_FAILED;
	}
	return status;
}
