// SPDX-License-Identifier: BSD-3-Clause
#include "plot.h"

#include <errno.h>
#include <math.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "summary.h"

#define SECOND_NS 1e9
#define PATH_BYTES 4096u
#define WIDTH 900
#define HEIGHT 480
#define BAND_HEIGHT 240 // height of a variant's diagram, if each variant has a diagram
#define BLUE "#4477aa"
#define COLOURS 8u // colours of gnuplot; further lines are dashed
#define MARKS_MAX 8u // maximum number of marked events

struct drawing {
	FILE *stream;
	const struct weir_sim_file *file;
	const struct weir_sim_results *results;
	enum weir_sim_plot kind;
};

// Returns the run of a variant with the first seed. Plots that show a single run show this run.
static const struct weir_sim_result *first_run(const struct drawing *d, uint32_t variant) {
	return d->results->result[variant * d->results->seeds];
}

// Writes a title or a path as a string in gnuplot's syntax. In double quotes, gnuplot would run
// text between backquotes as a command.
static void write_text(FILE *stream, const char *text) {
	fputc('\'', stream);
	for (; *text != '\0'; text++) {
		fputs(*text == '\'' ? "'" : "", stream);
		fputc(*text, stream);
	}
	fputc('\'', stream);
}

// Writes the names of a variant and of a window in double quotes, as gnuplot requires in data.
// Names need no escapes: they consist of letters, digits, '-', '_' and '.'.
static void write_label(FILE *stream, const struct weir_sim_scenario *scenario, uint32_t window) {
	fprintf(stream, "\"%s%s%s\"", scenario->name, scenario->window_count > 1 ? " " : "",
		scenario->window_count > 1 ? scenario->window[window].name : "");
}

static void draw_bars(const struct drawing *d, enum weir_sim_metric metric, const char *axis) {
	fputs("$data << END\n", d->stream);
	for (uint32_t v = 0; v < d->file->variant_count; v++) {
		const struct weir_sim_scenario *scenario = &d->file->variant[v];

		for (uint32_t w = 0; w < scenario->window_count; w++) {
			struct weir_sim_range range = weir_sim_range_of(d->results, v, w, metric);

			write_label(d->stream, scenario, w);
			fprintf(d->stream, " %.6g %.6g %.6g\n", range.mean, range.least,
				range.most);
		}
	}
	fprintf(d->stream,
		"END\n"
		"set ylabel \"%s\"\nset yrange [0:*]\nset style fill solid 0.6\n"
		"set boxwidth 0.7\nset xtics rotate by 30 right\nunset key\n"
		"plot $data using 0:2:xtic(1) with boxes lc rgb \"" BLUE "\", \\\n"
		"     $data using 0:3:(0):($4-$3) with vectors nohead lc rgb \"#303030\", \\\n"
		"     $data using 0:4:(sprintf($2 < 100 ? \"%%.3g\" : \"%%.0f\", $2)) with labels "
		"offset 0,0.7\n",
		axis);
}

static int compare_doubles(const void *left, const void *right) {
	double a = *(const double *)left;
	double b = *(const double *)right;

	return (a > b) - (a < b);
}

// Writes the sorted values of the backends to values. Returns the number of values. A backend has
// no CPU value if it did not exist during the whole window, and no number of clients if it did not
// exist at the end of the window.
static uint32_t sorted_values(
	const struct drawing *d, const struct weir_sim_measure *m, uint32_t n, double *values) {
	bool clients = d->kind == WEIR_SIM_PLOT_CONNECTIONS;
	uint32_t count = 0;

	for (uint32_t i = 0; i < n; i++) {
		const struct weir_sim_backend_result *b = &m->backend[i];

		if (clients ? b->listed : b->measured) {
			values[count++] = clients ? b->clients : b->cpu * 100.0;
		}
	}
	qsort(values, count, sizeof(*values), compare_doubles);
	return count;
}

// Draws one line per variant and window. The x axis is the list of backends, sorted by value.
static int draw_sorted(const struct drawing *d, const char *axis) {
	uint32_t lines = 0;

	for (uint32_t v = 0; v < d->file->variant_count; v++) {
		const struct weir_sim_result *result = first_run(d, v);
		double *values = malloc(result->backends * sizeof(*values));

		if (values == NULL) {
			return -ENOMEM;
		}
		for (uint32_t w = 0; w < result->measures; w++) {
			uint32_t count =
				sorted_values(d, &result->measure[w], result->backends, values);

			fprintf(d->stream, "$data%u << END\n", lines++);
			for (uint32_t i = 0; i < count; i++) {
				fprintf(d->stream, "%u %.6g\n", i, values[i]);
			}
			fputs("END\n", d->stream);
		}
		free(values);
	}
	fprintf(d->stream,
		"set ylabel \"%s\"\nset xlabel \"backends, from least to most\"\n"
		"set yrange [0:*]\nset key outside right\nplot ",
		axis);
	lines = 0;
	for (uint32_t v = 0; v < d->file->variant_count; v++) {
		for (uint32_t w = 0; w < d->file->variant[v].window_count; w++, lines++) {
			fprintf(d->stream, "%s$data%u using 1:2 with lines lw 2 lc %u dt %u title ",
				lines > 0 ? ", \\\n     " : "", lines, lines % COLOURS + 1,
				lines / COLOURS + 1);
			write_label(d->stream, &d->file->variant[v], w);
		}
	}
	fputc('\n', d->stream);
	return 0;
}

// Draws the first window: one diagram per variant, side by side. Each backend has a bar, and bars
// are sorted by load. The lower part of a bar (used) is the CPU that the backend uses. The upper
// part (wasted) ends at the CPU that the most loaded backend uses.
static int draw_used(const struct drawing *d) {
	uint32_t most = 0;

	for (uint32_t v = 0; v < d->file->variant_count; v++) {
		const struct weir_sim_result *result = first_run(d, v);
		double *values = malloc(result->backends * sizeof(*values));
		uint32_t count;

		if (values == NULL) {
			return -ENOMEM;
		}
		count = sorted_values(d, &result->measure[0], result->backends, values);
		most = count > most ? count : most;
		fprintf(d->stream, "$data%u << END\n", v);
		for (uint32_t i = 0; i < 2 * count; i++) { // left and right edge of each bar
			fprintf(d->stream, "%u %.6g %.6g\n", (i + 1) / 2, values[count - 1 - i / 2],
				values[count - 1]);
		}
		fputs("END\n", d->stream);
		free(values);
	}
	fprintf(d->stream,
		"set multiplot layout 1,%u title plot_title\nset ylabel \"CPU %%\"\n"
		"set xlabel \"backends, sorted by CPU usage\"\nset xrange [0:%u]\n"
		"set yrange [0:100]\nset key bottom left opaque\n",
		d->file->variant_count, most > 0 ? most : 1);
	for (uint32_t v = 0; v < d->file->variant_count; v++) {
		fputs("set title ", d->stream);
		write_text(d->stream, d->file->variant[v].name);
		fprintf(d->stream,
			"\nplot $data%u using 1:3 with filledcurves x1 fs solid 1 lc rgb "
			"\"#dd7788\" title \"wasted\", \\\n"
			"     $data%u using 1:2 with filledcurves x1 fs solid 1 lc rgb \"" BLUE
			"\" title \"used\"\n",
			v, v);
	}
	fputs("unset multiplot\n", d->stream);
	return 0;
}

// Draws one group of bars per window, with one bar per variant. A horizontal line shows the minimum
// number of members that evenly distributed subsets must replace. The y axis is logarithmic,
// because the values may differ by a factor of 100.
static void draw_churn(const struct drawing *d) {
	const struct weir_sim_scenario *first = &d->file->variant[0];
	uint32_t variants = d->file->variant_count;

	fputs("$data << END\n", d->stream);
	for (uint32_t w = 0; w < first->window_count; w++) {
		fprintf(d->stream, "\"%s\"", first->window[w].name);
		for (uint32_t v = 0; v < variants; v++) {
			fprintf(d->stream, " %.6g",
				weir_sim_range_of(d->results, v, w, WEIR_SIM_METRIC_REPLACED).mean);
		}
		fprintf(d->stream, " %.6g\n",
			weir_sim_range_of(d->results, 0, w, WEIR_SIM_METRIC_LEAST_REPLACED).mean);
	}
	fputs("END\nset ylabel \"members replaced, %\"\nset logscale y\nset yrange [0.1:*]\n"
	      "set style data histogram\nset style histogram clustered gap 1\n"
	      "set style fill solid 0.6\nset key outside bottom center horizontal\n",
		d->stream);
	fprintf(d->stream, "set xrange [-0.6:%.1f]\nplot ", first->window_count - 0.4);
	for (uint32_t v = 0; v < variants; v++) {
		fprintf(d->stream, "$data using %u:xtic(1) lc %u title ", v + 2, v % COLOURS + 1);
		write_text(d->stream, d->file->variant[v].name);
		fputs(", \\\n     ", d->stream);
	}
	for (uint32_t v = 0; v < variants; v++) {
		// $0 plus the constant is the x position of the middle of the bar.
		fprintf(d->stream,
			"$data using ($0+%.4f):%u:(sprintf($%u < 10 ? \"%%.2g\" : \"%%.0f\", "
			"$%u)) with labels offset 0,0.6 font \"sans,9\" notitle, \\\n     ",
			(v + 1 - (variants + 1) / 2.0) / (variants + 1), v + 2, v + 2, v + 2);
	}
	fprintf(d->stream,
		"$data using ($0-0.5):%u:(1):(0) with vectors nohead lw 2 lc rgb \"#303030\" "
		"title \"minimum if even\"\n",
		variants + 2);
}

// Draws a dashed vertical line at the start of each of the first MARKS_MAX events.
static void mark_events(const struct drawing *d, const struct weir_sim_scenario *scenario) {
	for (uint32_t i = 0; i < scenario->happening_count && i < MARKS_MAX; i++) {
		double at = (double)scenario->happening[i].at_ns / SECOND_NS;

		fprintf(d->stream,
			"set arrow from %g, graph 0 to %g, graph 1 nohead dt 2 lc rgb "
			"\"#808080\"\n",
			at, at);
	}
}

static double errors_per_second(
	const struct weir_sim_sample *sample, const struct weir_sim_scenario *scenario) {
	const uint64_t *ended = sample->totals.ended;
	uint64_t errors = ended[WEIR_SIM_FAILED] + ended[WEIR_SIM_UNANSWERED] +
			  ended[WEIR_SIM_TIMED_OUT] + ended[WEIR_SIM_REJECTED];

	return (double)errors * SECOND_NS / (double)scenario->sample_ns;
}

static void write_series(const struct drawing *d) {
	for (uint32_t v = 0; v < d->file->variant_count; v++) {
		const struct weir_sim_result *result = first_run(d, v);

		fprintf(d->stream, "$data%u << END\n", v);
		for (uint32_t i = 0; i < result->samples; i++) {
			const struct weir_sim_sample *s = &result->sample[i];

			fprintf(d->stream,
				"%g %.6g %.6g %.6g %.6g %.6g %.6g %.6g %.6g %.6g %.6g %.6g\n",
				(double)s->time_ns / SECOND_NS, s->cpu_min * 100, s->cpu_p50 * 100,
				s->cpu_max * 100, s->p50_ms, s->p99_ms, s->share,
				errors_per_second(s, &d->file->variant[v]), s->cpu_p05 * 100,
				s->cpu_p95 * 100, s->cpu_mean > 0 ? s->cpu_max / s->cpu_mean : 1,
				(double)s->totals.steals[WEIR_SIM_STEAL_MOVED] * SECOND_NS /
					(double)d->file->variant[v].sample_ns);
		}
		fputs("END\n", d->stream);
	}
	fputs("set xlabel \"seconds\"\n", d->stream);
}

// Draws one line per variant over time. column: column of the data to draw. axis: label of the y
// axis. logarithmic: the y axis is logarithmic.
static void draw_lines(const struct drawing *d, int column, const char *axis, bool logarithmic) {
	write_series(d);
	mark_events(d, &d->file->variant[0]);
	fprintf(d->stream, "set ylabel \"%s\"\nset key outside right\n%s\nplot ", axis,
		logarithmic ? "set logscale y" : "set yrange [0:*]");
	for (uint32_t v = 0; v < d->file->variant_count; v++) {
		fprintf(d->stream, "%s$data%u using 1:%d with lines lw 2 lc %u dt %u title ",
			v > 0 ? ", \\\n     " : "", v, column, v % COLOURS + 1, v / COLOURS + 1);
		write_text(d->stream, d->file->variant[v].name);
	}
	fputc('\n', d->stream);
}

// Draws one diagram per variant. A diagram shows the median, a band from the least to the most
// loaded backend, and a band from the 5th to the 95th percentile.
static void draw_bands(const struct drawing *d) {
	bool several = d->file->variant_count > 1;

	write_series(d);
	if (several) {
		fprintf(d->stream, "set multiplot layout %u,1 title plot_title\n",
			d->file->variant_count);
	}
	fputs("set ylabel \"CPU %\"\nset yrange [0:*]\nset key outside right\n", d->stream);
	for (uint32_t v = 0; v < d->file->variant_count; v++) {
		if (several) {
			fputs("unset arrow\nset title ", d->stream);
			write_text(d->stream, d->file->variant[v].name);
			fputc('\n', d->stream);
		}
		mark_events(d, &d->file->variant[v]);
		fprintf(d->stream,
			"plot $data%u using 1:2:4 with filledcurves fs solid 0.25 lc rgb \"%s\" "
			"title \"least to most\", \\\n"
			"     $data%u using 1:9:10 with filledcurves fs solid 0.5 lc rgb \"%s\" "
			"title \"5 %% to 95 %%\", \\\n"
			"     $data%u using 1:3 with lines lw 2 lc rgb \"%s\" title \"median\"\n",
			v, BLUE, v, BLUE, v, BLUE);
	}
	if (several) {
		fputs("unset multiplot\n", d->stream);
	}
}

static int draw(const struct drawing *d) {
	switch (d->kind) {
	case WEIR_SIM_PLOT_SPREAD:
		draw_bars(d, WEIR_SIM_METRIC_SPREAD, "CPU, most / least loaded");
		return 0;
	case WEIR_SIM_PLOT_WASTED:
		draw_bars(d, WEIR_SIM_METRIC_WASTED, "wasted capacity, %");
		return 0;
	case WEIR_SIM_PLOT_SHARES:
		draw_bars(d, WEIR_SIM_METRIC_SHARE, "requests, 1 = fair share");
		return 0;
	case WEIR_SIM_PLOT_LATENCIES:
		draw_bars(d, WEIR_SIM_METRIC_P99_MS, "99th percentile, ms");
		return 0;
	case WEIR_SIM_PLOT_BACKENDS:
		return draw_sorted(d, "CPU %");
	case WEIR_SIM_PLOT_CONNECTIONS:
		return draw_sorted(d, "clients");
	case WEIR_SIM_PLOT_USED:
		return draw_used(d);
	case WEIR_SIM_PLOT_CHURN:
		draw_churn(d);
		return 0;
	case WEIR_SIM_PLOT_SHARE:
		draw_lines(d, 7, "requests, 1 = fair share", false);
		return 0;
	case WEIR_SIM_PLOT_LATENCY:
		draw_lines(d, 6, "99th percentile, ms", true);
		return 0;
	case WEIR_SIM_PLOT_ERRORS:
		draw_lines(d, 8, "errors per second", false);
		return 0;
	case WEIR_SIM_PLOT_BUSIEST:
		draw_lines(d, 11, "CPU of the most loaded / mean CPU", false);
		return 0;
	case WEIR_SIM_PLOT_MOVES:
		draw_lines(d, 12, "moves per second", false);
		return 0;
	default:
		draw_bands(d);
		return 0;
	}
}

static int write_script(const struct drawing *d, const struct weir_sim_plot_request *wish,
	const char *picture, const char *format) {
	bool bands = d->kind == WEIR_SIM_PLOT_CPU && d->file->variant_count > 1;
	int height = bands ? 60 + BAND_HEIGHT * (int)d->file->variant_count : HEIGHT;
	int r;

	fprintf(d->stream,
		"# weir-sim: %s\nset terminal %s size %d,%d font \"sans,12\" noenhanced "
		"background rgb \"white\"\n",
		d->file->name, strcmp(format, "png") == 0 ? "pngcairo" : "svg", WIDTH, height);
	fputs("set output ", d->stream);
	write_text(d->stream, picture);
	fputs("\nset grid ytics lc rgb \"#d0d0d0\"\nset border 3\nset tics nomirror\nplot_title = ",
		d->stream);
	write_text(d->stream, wish->title[0] != '\0' ? wish->title : d->file->title);
	fputs("\nset title plot_title\n", d->stream);
	r = draw(d);
	return r == 0 && ferror(d->stream) ? -EIO : r;
}

static int run_gnuplot(const char *script, char *why, size_t why_bytes) {
	char program[] = "gnuplot";
	char path[PATH_BYTES];
	char *arguments[] = {program, path, NULL};
	pid_t pid;
	int status;

	snprintf(path, sizeof(path), "%s", script);
	status = posix_spawnp(&pid, program, NULL, NULL, arguments, environ);
	if (status != 0) {
		snprintf(why, why_bytes, "gnuplot: %s", strerror(status));
		return -status;
	}
	while (waitpid(pid, &status, 0) < 0) {
		if (errno != EINTR) {
			int r = -errno;

			snprintf(why, why_bytes, "gnuplot: %s", strerror(-r));
			return r;
		}
	}
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
		snprintf(why, why_bytes, "gnuplot failed on the script %s", script);
		return -EIO;
	}
	return 0;
}

static int draw_one(const char *directory, const char *format, struct drawing *d,
	const struct weir_sim_plot_request *wish, bool gnuplot, char *why, size_t why_bytes) {
	char stem[PATH_BYTES - 16], script[PATH_BYTES], picture[PATH_BYTES];
	int r;

	d->kind = (enum weir_sim_plot)wish->kind;
	snprintf(stem, sizeof(stem), "%s/%s-%s", directory, d->file->name,
		weir_sim_plot_name(d->kind));
	snprintf(script, sizeof(script), "%s.gp", stem);
	snprintf(picture, sizeof(picture), "%s.%s", stem, format);
	d->stream = fopen(script, "w");
	if (d->stream == NULL) {
		snprintf(why, why_bytes, "%s: %s", script, strerror(errno));
		return -EIO;
	}
	r = write_script(d, wish, picture, format);
	if (fclose(d->stream) != 0 && r == 0) {
		r = -EIO;
	}
	if (r < 0) {
		snprintf(why, why_bytes, "%s: %s", script, strerror(-r));
		return r;
	}
	return gnuplot ? run_gnuplot(script, why, why_bytes) : 0;
}

int weir_sim_plots_draw(const char *directory, const char *format, const struct weir_sim_file *file,
	const struct weir_sim_results *results, char *why, size_t why_bytes) {
	struct drawing d = {.file = file, .results = results};
	char ignored[256] = "";
	int first = 0;

	for (uint32_t i = 0; i < file->plot_count; i++) {
		int r = draw_one(directory, format, &d, &file->plot[i], first != -ENOENT,
			first == 0 ? why : ignored, first == 0 ? why_bytes : sizeof(ignored));

		first = first == 0 ? r : first;
	}
	return first;
}
