// SPDX-License-Identifier: BSD-3-Clause
#include "trace.h"

#include <string.h>

#include "capture_session.h"
#include "captured.h"
#include "duration.h"
#include "trace_view.h"

#define SILENT_MS 5000 // time from the start after which weirctl reports that no packet arrived

struct trace {
	struct weir_cli *cli;
	struct weir_capture_session *capture;
	json_int_t most, shown;
	int64_t last_ns; // time of the previous packet; 0 = none
	struct weir_trace_known known;
	// Table version of the packet for which `known` was requested. For a packet with another
	// version, the trace requests `known` again.
	json_int_t tables;
	bool warned_silent;
};

// Request the row of a service or a backend with a show command. Returns NULL if there is no such
// row, or on an error; the trace then lacks the lines about the service or the backend. An error of
// weir_client_call makes the connection unusable, so the next capture.read fails with the same
// error.
static json_t *request_row(
	struct weir_cli *cli, const char *command, const char *service, const char *backend) {
	json_t *request = json_pack(
		"{s:s, s:s, s:s*}", "command", command, "service", service, "backend", backend);
	json_t *answer = NULL, *row = NULL;
	char why[256];

	if (request != NULL &&
		weir_client_call(cli->client, request, &answer, why, sizeof(why)) == 0) {
		row = json_incref(json_array_get(json_object_get(answer, "result"), 0));
	}
	json_decref(answer);
	json_decref(request);
	return row;
}

static void forget(struct weir_trace_known *known) {
	json_decref(known->service);
	json_decref(known->backend);
	*known = (struct weir_trace_known){0};
}

// Request the rows of the packet's service and backend, unless trace->known has the current rows.
static void look_up(struct trace *trace, const json_t *packet) {
	const char *service = weir_captured_text(packet, "service");
	const char *backend = weir_captured_text(packet, "backend");
	json_int_t tables = json_integer_value(json_object_get(packet, "tables"));

	if (trace->tables != tables ||
		strcmp(weir_captured_text(trace->known.service, "name"), service) != 0 ||
		strcmp(weir_captured_text(trace->known.backend, "name"), backend) != 0) {
		forget(&trace->known);
		trace->tables = tables;
		if (service[0]) {
			trace->known.service =
				request_row(trace->cli, "service.show", service, NULL);
		}
		if (service[0] && backend[0]) {
			trace->known.backend =
				request_row(trace->cli, "backend.show", service, backend);
		}
	}
}

static void show_packet(struct trace *trace, json_t *packet) {
	int64_t time_ns = json_integer_value(json_object_get(packet, "time_ns"));
	FILE *out = trace->cli->out;

	trace->shown++;
	look_up(trace, packet);
	json_object_set_new(packet, "number", json_integer(trace->shown));
	weir_trace_explain(packet, &trace->known);
	if (trace->cli->options->json) {
		json_dumpf(packet, out, JSON_COMPACT | JSON_ENSURE_ASCII);
		fputc('\n', out);
	} else {
		weir_trace_print(out, packet, trace->last_ns);
	}
	trace->last_ns = time_ns;
	fflush(out);
}

static int pass_packets(struct trace *trace) {
	char silent[WEIR_DURATION_BYTES];
	json_t *packets, *packet;
	size_t i;
	int r;

	do {
		r = weir_capture_session_read(trace->capture, &packets);
		if (r != WEIR_CLI_DONE) {
			return r;
		}
		json_array_foreach (packets, i, packet) {
			if (trace->shown < trace->most &&
				weir_capture_session_may_write(
					trace->capture, fileno(trace->cli->out))) {
				show_packet(trace, packet);
			}
		}
		if (trace->shown == 0 && !trace->warned_silent &&
			weir_capture_session_lasts(trace->capture, SILENT_MS)) {
			fprintf(trace->cli->err,
				"weirctl: no packet of this flow for %s; still waiting (press ^C "
				"to end)\n",
				weir_duration_text(SILENT_MS, silent));
			trace->warned_silent = true;
		}
	} while (trace->shown < trace->most && !ferror(trace->cli->out) &&
		 weir_capture_session_ended(trace->capture) == NULL);
	return r;
}

static void show_end(const struct trace *trace) {
	json_int_t lost = weir_capture_session_lost(trace->capture);
	json_int_t limited = weir_capture_session_limited(trace->capture);

	if (trace->shown == 0 && !trace->cli->options->json) {
		fprintf(trace->cli->out, "no packets of this flow captured\n");
	}
	if (lost + limited > 0) {
		fprintf(trace->cli->err,
			"weirctl: packets are missing: %" JSON_INTEGER_FORMAT
			" lost, %" JSON_INTEGER_FORMAT " over the rate limit\n",
			lost, limited);
	}
}

int weir_trace_run(struct weir_cli *cli, const struct weir_cli_command *command) {
	struct trace trace = {.cli = cli,
		.most = cli->options->capture.packets > 0 ? cli->options->capture.packets
							  : WEIR_TRACE_PACKETS};
	json_t *request = weir_cli_build(cli, command);
	int r = WEIR_CLI_REFUSED, stopped;

	if (request == NULL) {
		fprintf(cli->err, "weirctl: out of memory\n");
		return r;
	}
	r = weir_capture_session_begin(cli, request, &trace.capture);
	json_decref(request);
	if (r != WEIR_CLI_DONE) {
		return r;
	}
	r = pass_packets(&trace);
	stopped = weir_capture_session_stop(trace.capture);
	r = r == WEIR_CLI_DONE ? stopped : r;
	show_end(&trace);
	forget(&trace.known);
	weir_capture_session_free(trace.capture);
	return r;
}
