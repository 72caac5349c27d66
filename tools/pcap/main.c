// SPDX-License-Identifier: BSD-3-Clause
//
// weir-pcap: shows how Weir would process the packets of a capture.
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <rte_eal.h>

#include "capture.h"
#include "help_text.h"
#include "offline.h"
#include "options.h"
#include "report.h"
#include "standard_output.h"
#include "weir_version.h"

enum exit_code { EXIT_DONE, EXIT_FAILED, EXIT_USAGE };

#define LINE_BYTES 5120 // enough for a path and an error message

struct run {
	struct weir_config *config;
	struct weir_capture_reader *reader;
	struct weir_capture_writer *writer;
	struct weir_offline *offline;
};

static void complain(const char *why) {
	fflush(stdout);
	fprintf(stderr, "weir-pcap: %s\n", why);
}

static int read_config(const char *file, struct weir_config **ret) {
	struct weir_config_errors errors;
	char line[LINE_BYTES];
	int r = weir_config_read(file, ret, &errors);

	for (uint32_t i = 0; i < errors.count; i++) {
		fprintf(stderr, "%s\n",
			weir_config_error_format(file, &errors.error[i], line, sizeof(line)));
	}
	weir_config_errors_fini(&errors);
	return r;
}

// Warns about changes that were not made because the capture has too few packets. The packet
// numbers of these changes are probably wrong.
static void warn_of_late_changes(const struct weir_pcap_options *options, uint64_t packets) {
	char what[2 * WEIR_PCAP_NAME_BYTES], why[512];

	for (uint32_t i = 0; i < options->changes; i++) {
		const struct weir_pcap_change *change = &options->change[i];

		if (change->packet == 1 || change->packet <= packets) {
			continue;
		}
		if (change->kind == WEIR_PCAP_RELOAD) {
			snprintf(what, sizeof(what), "%.*s", (int)change->file_bytes, change->file);
		} else {
			snprintf(what, sizeof(what), "%s/%s", change->service, change->backend);
		}
		snprintf(why, sizeof(why),
			"warning: %s@%u: no change was made, because %s has only %llu packet%s",
			what, change->packet, options->input, (unsigned long long)packets,
			packets == 1 ? "" : "s");
		complain(why);
	}
}

// Process all frames of the capture. Returns 0 or negative errno with one line in why.
static int process(struct run *run, const struct weir_pcap_options *options,
	struct weir_pcap_report *report, char *why, size_t why_bytes) {
	struct weir_capture_frame frame;
	uint64_t number = 0;
	char detail[256];
	int status;

	while ((status = weir_capture_read(run->reader, &frame, detail, sizeof(detail))) > 0) {
		struct weir_offline_result result;
		int r = weir_offline_change(run->offline, number + 1, detail, sizeof(detail));

		if (r < 0) {
			status = r;
			break;
		}
		weir_offline_process(run->offline, &frame, &result);
		weir_pcap_report_packet(report, ++number, &frame, &result);
		if (result.port != NULL) {
			weir_capture_write(run->writer, &result.sent);
			for (uint32_t i = 0; i < result.fragments; i++) {
				weir_capture_write(run->writer, &result.fragment[i]);
			}
		}
	}
	if (status < 0) {
		snprintf(why, why_bytes, "%s: after packet %llu: %s", options->input,
			(unsigned long long)number, detail);
	} else {
		warn_of_late_changes(options, number);
	}
	return status;
}

static int open_all(struct run *run, const struct weir_pcap_options *options, const char *program,
	char *why, size_t why_bytes) {
	int r = weir_capture_open(options->input, &run->reader, why, why_bytes);

	if (r < 0) {
		return r;
	}
	r = weir_offline_start(program, weir_offline_flows(run->config), why, why_bytes);
	if (r < 0) {
		return r;
	}
	r = weir_offline_create(run->config, options, &run->offline, why, why_bytes);
	if (r < 0) {
		return r;
	}
	return weir_capture_create(options->output, run->reader, &run->writer, why, why_bytes);
}

static int run_all(struct run *run, const struct weir_pcap_options *options, const char *program) {
	struct weir_pcap_report *report;
	char why[512] = "";
	int r, end;

	if (read_config(options->config, &run->config) < 0) {
		return EXIT_FAILED;
	}
	r = open_all(run, options, program, why, sizeof(why));
	if (r < 0) {
		complain(why);
		return EXIT_FAILED;
	}
	r = weir_pcap_report_begin(
		stdout, options->json, weir_offline_tables(run->offline), &report);
	if (r < 0) {
		complain(strerror(-r));
		return EXIT_FAILED;
	}
	r = process(run, options, report, why, sizeof(why));
	end = weir_pcap_report_end(report, weir_offline_tables(run->offline), r < 0 ? why : NULL);
	if (r < 0) {
		complain(why);
	} else if (end < 0) {
		complain("cannot write the report");
		r = end;
	}
	end = weir_capture_finish(run->writer);
	run->writer = NULL;
	if (end < 0) {
		snprintf(why, sizeof(why), "%s: %s", options->output, strerror(-end));
		complain(why);
		r = end;
	}
	return r < 0 ? EXIT_FAILED : EXIT_DONE;
}

int main(int argc, char **argv) {
	struct weir_pcap_options options;
	static struct run run;
	char why[256], help[WEIR_HELP_BYTES];
	int status;

	weir_standard_output_claim();
	if (weir_pcap_options_parse(argc, argv, &options, why, sizeof(why)) < 0) {
		complain(why);
		fputs("Try: weir-pcap --help\n", stderr);
		return EXIT_USAGE;
	}
	if (options.help || options.version) {
		fputs(options.help ? weir_pcap_help(help, sizeof(help))
				   : "weir-pcap " WEIR_VERSION "\n",
			stdout);
		return weir_standard_output_finish("weir-pcap", stdout, stderr) ? EXIT_DONE
										: EXIT_FAILED;
	}
	status = run_all(&run, &options, argv[0]);
	weir_capture_finish(run.writer);
	weir_capture_close(run.reader);
#ifdef WEIR_FREE_AT_EXIT
	// Only for LeakSanitizer, because DPDK zeroes all memory that it frees, even unused pages.
	weir_offline_free(run.offline);
#endif
	return status;
}
