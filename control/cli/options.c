// SPDX-License-Identifier: BSD-3-Clause
#include "options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "captured.h"
#include "config.h"
#include "config_keys.h"
#include "daemon_options.h"
#include "drop_reasons.h"
#include "help_text.h"
#include "nearest.h"
#include "packet_facts.h"
#include "top_view.h"

#define HOUR_MS 3600000
#define WEEK_MS 604800000
#define CLIENTS_MAX 65536 // the maximum of instance.clients in the configuration

#define FIELD(member) WEIR_OPTION_FIELD(struct weir_cli_options, member)

#define X(name, key) {key, WEIR_SUBSET_##name, NULL},
static const struct weir_option_word algorithms[] = {WEIR_SUBSET_ALGORITHMS(X){NULL, 0, NULL}};
#undef X
#define X(name, key) {key, WEIR_SUBSET_MODE_##name, NULL},
static const struct weir_option_word modes[] = {WEIR_SUBSET_MODES(X){NULL, 0, NULL}};
#undef X

static const struct weir_option_word durations[] = {
	{"scaled", WEIR_CLI_SCALED,
		"recorded duration, times the ratio of the backends' mean flow durations"},
	{"measured", WEIR_CLI_MEASURED, "as recorded"}, {NULL, 0, NULL}};

#define X(name, word, help, key) {word, WEIR_TOP_##name, help},
static const struct weir_option_word sorts[] = {WEIR_TOP_SORTS(X){NULL, 0, NULL}};
#undef X

static const struct weir_option_word protocols[] = {{"tcp", WEIR_CLI_TCP, NULL},
	{"udp", WEIR_CLI_UDP, NULL}, {"icmp", WEIR_CLI_ICMP, NULL}, {NULL, 0, NULL}};

#define REASON(name, key, text) " " key

const char *const weir_cli_actions[] = {
#define X(name, key) [WEIR_ACTION_##name] = (key),
	WEIR_ACTIONS(X)
#undef X
};

// Set the bit of a name in *ret, for an option that may be repeated. use: how the option is used,
// for the error message. Returns 0 or -EINVAL.
static int take_name(const char *value, const char *const *names, uint32_t count, const char *use,
	uint64_t *ret, char *why, size_t why_bytes) {
	const char *nearest;

	for (uint32_t i = 0; i < count; i++) {
		if (strcmp(value, names[i]) == 0) {
			*ret |= UINT64_C(1) << i;
			return 0;
		}
	}
	nearest = weir_nearest(value, names, count);
	if (nearest != NULL) {
		snprintf(why, why_bytes, "is not known; did you mean \"%s\"?", nearest);
	} else {
		snprintf(why, why_bytes, "is not known; %s", use);
	}
	return -EINVAL;
}

static int take_reason(const struct weir_option *option, const char *value, void *options,
	char *why, size_t why_bytes) {
	struct weir_cli_options *ret = options;

	(void)option;
	return take_name(value, weir_captured_reasons, weir_captured_reason_count,
		"\"weirctl capture start --help\" lists the drop reasons", &ret->capture.reasons,
		why, why_bytes);
}

static int take_action(const struct weir_option *option, const char *value, void *options,
	char *why, size_t why_bytes) {
	struct weir_cli_options *ret = options;
	uint64_t actions = ret->capture.actions;
	int r = take_name(value, weir_cli_actions, WEIR_ACTION_COUNT,
		"use forward, reply, kernel, drop or offer", &actions, why, why_bytes);

	(void)option;
	ret->capture.actions = (uint32_t)actions;
	return r;
}

// Parse percentages such as "1,5,20.5". weir-control checks their order and their ranges.
static int take_steps(const struct weir_option *option, const char *value, void *options, char *why,
	size_t why_bytes) {
	struct weir_cli_options *ret = options;
	double steps[WEIR_CLI_STEPS_MOST];
	int count = 0;

	(void)option;
	for (const char *at = value;; at++) {
		char *end;

		if (count == WEIR_CLI_STEPS_MOST) {
			snprintf(why, why_bytes, "has more than %d percentages", count);
			return -EINVAL;
		}
		// strtod would accept a sign, a space, "nan" and hexadecimal numbers.
		if (*at < '0' || *at > '9' || (at[0] == '0' && (at[1] == 'x' || at[1] == 'X'))) {
			break;
		}
		steps[count] = strtod(at, &end);
		if (steps[count++] > 100) { // also refuses infinity
			break;
		}
		at = end;
		if (*at == '\0') {
			memcpy(ret->canary.steps, steps, sizeof(steps));
			ret->canary.step_count = count;
			return 0;
		}
		if (*at != ',') {
			break;
		}
	}
	snprintf(why, why_bytes, "is not a list of percentages; use a list like 1,5,20,50");
	return -EINVAL;
}

// Parse a rate such as "50/s", "50" or "0.5/s". The commands check the range.
static int take_rate(const struct weir_option *option, const char *value, void *options, char *why,
	size_t why_bytes) {
	const size_t digits = strspn(value, "0123456789.");
	struct weir_cli_options *ret = options;
	char *end = NULL;
	double rate = digits > 0 ? strtod(value, &end) : 0;

	(void)option;
	if (end != value + digits || (strcmp(end, "") != 0 && strcmp(end, "/s") != 0)) {
		snprintf(why, why_bytes, "is not a rate; use a number per second, like 50 or 50/s");
		return -EINVAL;
	}
	ret->rate = rate;
	return 0;
}

static const struct weir_option rows[] = {
	WEIR_OPTION_ROW(NUMBER, "clients", "N",
		"number of clients, each with its own subset: groups, instances or workers",
		FIELD(preview.clients), .min = 1, .max = CLIENTS_MAX, .groups = WEIR_CLI_SUBSET),
	WEIR_OPTION_ROW(NUMBER, "backends", "M", "number of backends of the service",
		FIELD(preview.backends), .min = 1, .max = WEIR_CONFIG_BACKENDS_MAX,
		.groups = WEIR_CLI_SUBSET),
	WEIR_OPTION_ROW(NUMBER, "size", "K", "backends per subset", FIELD(preview.size), .min = 1,
		.max = WEIR_CONFIG_BACKENDS_MAX, .groups = WEIR_CLI_SUBSET),
	WEIR_OPTION_ROW(WORD, "algorithm", "NAME", "subset algorithm", FIELD(preview.algorithm),
		.fallback = "deterministic", .words = algorithms, .groups = WEIR_CLI_SUBSET),
	WEIR_OPTION_ROW(WORD, "mode", "NAME", "mode of the deterministic algorithm",
		FIELD(preview.mode), .fallback = "spread", .words = modes,
		.groups = WEIR_CLI_SUBSET),
	WEIR_OPTION_ROW(NUMBER, "salt", "N", "salt of the hash", FIELD(preview.salt),
		.fallback = "0", .max = UINT32_MAX, .groups = WEIR_CLI_SUBSET),
	WEIR_OPTION_ROW(TEXT, "service", "SERVICE", "only this service", FIELD(service),
		.groups = WEIR_CLI_SERVICE),
	WEIR_OPTION_ROW(TEXT, "backend", "[SERVICE/]NAME", "only flows of this backend",
		FIELD(backend), .min = 1, .groups = WEIR_CLI_FLOWS),
	WEIR_OPTION_ROW(TEXT, "backend", "[SERVICE/]NAME",
		"only packets for this backend; NAME without SERVICE/ requires --service",
		FIELD(backend), .min = 1, .groups = WEIR_CLI_CAPTURE),
	WEIR_OPTION_ROW(CUSTOM, "drop-reason", "REASON",
		"only packets that were dropped, or replied to, for this reason:" WEIR_DROP_REASONS(
			REASON),
		.repeatable = true, .take = take_reason, .groups = WEIR_CLI_CAPTURE),
	WEIR_OPTION_ROW(CUSTOM, "action", "ACTION",
		"only packets with this action: forward, reply (answered, also with an RST or an "
		"ICMP error, which counts as a drop), kernel, drop (without an answer) or offer "
		"(a fragment or ICMP error passed to the next worker)",
		.repeatable = true, .take = take_action, .groups = WEIR_CLI_CAPTURE),
	WEIR_OPTION_ROW(TEXT, "client", "PREFIX",
		"only packets from these clients: an address, or a prefix like 192.0.2.0/24",
		FIELD(client), .min = 1, .groups = WEIR_CLI_CAPTURE),
	WEIR_OPTION_ROW(TEXT, "destination", "ADDRESS", "only packets to this address",
		FIELD(capture.destination), .min = 1, .groups = WEIR_CLI_CAPTURE),
	WEIR_OPTION_ROW(WORD, "protocol", "PROTOCOL", "only packets of this protocol",
		FIELD(capture.protocol), .words = protocols, .groups = WEIR_CLI_CAPTURE),
	WEIR_OPTION_ROW(NUMBER, "port", "N", "only packets to this TCP or UDP port",
		FIELD(capture.port), .min = 1, .max = 65535, .groups = WEIR_CLI_CAPTURE),
	WEIR_OPTION_ROW(NUMBER, "packets", "N", "end after N packets", FIELD(capture.packets),
		.fallback = "run until interrupted", .min = 1, .max = 1000000000,
		.groups = WEIR_CLI_CAPTURE),
	WEIR_OPTION_ROW(NUMBER, "packets", "N", "end after N packets", FIELD(capture.packets),
		.fallback = "10", .min = 1, .max = 1000000000, .groups = WEIR_CLI_TRACE),
	WEIR_OPTION_ROW(SECONDS, "duration", "SECONDS", "end after this time: 500ms, 60s, 2m, 1h",
		FIELD(for_ms), .fallback = "run until interrupted", .min = 100, .max = WEEK_MS,
		.groups = WEIR_CLI_CAPTURE | WEIR_CLI_TRACE),
	WEIR_OPTION_ROW(NUMBER, "snaplen", "BYTES", "bytes to capture of each frame",
		FIELD(capture.snaplen), .fallback = "128", .min = 64, .max = 1536,
		.groups = WEIR_CLI_CAPTURE),
	WEIR_OPTION_ROW(CUSTOM, "rate", "N",
		"maximum number of packets that a worker copies per second; further packets are "
		"only counted",
		.fallback = "10000", .take = take_rate, .groups = WEIR_CLI_CAPTURE),
	WEIR_OPTION_ROW(CUSTOM, "rate", "N/s", "maximum number of connections to end per second",
		.fallback = "10/s", .take = take_rate, .groups = WEIR_CLI_SHED),
	WEIR_OPTION_ROW(FLAG, "force", NULL, "replace FILE if it exists", FIELD(capture.force),
		.groups = WEIR_CLI_CAPTURE),
	WEIR_OPTION_ROW(CUSTOM, "steps", "LIST",
		"share of new flows at each step: up to 16 ascending percentages",
		.fallback = "1,5,20,50", .take = take_steps, .groups = WEIR_CLI_CANARY),
	WEIR_OPTION_ROW(SECONDS, "every", "DURATION", "length of a step: 60s, 2m, 1h",
		FIELD(canary.every_ms), .fallback = "60s", .min = 1000, .max = WEEK_MS,
		.groups = WEIR_CLI_CANARY),
	WEIR_OPTION_ROW(REAL, "max-error-ratio", "RATIO",
		"roll back if the error rate is above RATIO times the error rate of the other "
		"backends",
		FIELD(canary.error_ratio), .fallback = "1.5", .least = 1, .most = 1000,
		.groups = WEIR_CLI_CANARY),
	WEIR_OPTION_ROW(REAL, "max-latency-ratio", "RATIO",
		"roll back if the mean latency is above RATIO times the mean latency of the other "
		"backends",
		FIELD(canary.latency_ratio), .fallback = "1.3", .least = 1, .most = 1000,
		.groups = WEIR_CLI_CANARY),
	WEIR_OPTION_ROW(NUMBER, "min-requests", "N",
		"extend a step until the canary has N requests, and the other backends together "
		"have N requests",
		FIELD(canary.min_requests), .fallback = "50", .min = 1, .max = 1000000000,
		.groups = WEIR_CLI_CANARY),
	WEIR_OPTION_ROW(FLAG, "dry-run", NULL,
		"show the weights and shares of the steps, without starting the canary",
		FIELD(dry_run), .groups = WEIR_CLI_CANARY),
	WEIR_OPTION_ROW(FLAG, "promote", NULL, "give the backend its configured weight",
		FIELD(canary.promote), .groups = WEIR_CLI_CANARY_STOP),
	WEIR_OPTION_ROW(FLAG, "rollback", NULL, "give the backend weight 0: no new flows",
		FIELD(canary.rollback), .groups = WEIR_CLI_CANARY_STOP),
	WEIR_OPTION_ROW(FLAG, "to-mean", NULL,
		"end connections until the backend is at the mean: its share, by weight, of "
		"the service's open flows on this balancer",
		FIELD(shed.to_mean), .groups = WEIR_CLI_SHED),
	WEIR_OPTION_ROW(SECONDS, "idle", "SECONDS",
		"if weir-agent runs with --shed-idle: end only connections idle for this time",
		FIELD(shed.idle_ms), .fallback = "5", .min = 1000, .max = WEEK_MS / 7,
		.groups = WEIR_CLI_SHED),
	WEIR_OPTION_ROW(SECONDS, "duration", "DURATION",
		"end the shed after this time: 60s, 2m, 1h", FIELD(for_ms), .fallback = "10m",
		.min = 1000, .max = WEEK_MS / 7, .groups = WEIR_CLI_SHED),
	WEIR_OPTION_ROW(FLAG, "dry-run", NULL,
		"show how many connections the shed would end, without ending any", FIELD(dry_run),
		.groups = WEIR_CLI_SHED),
	WEIR_OPTION_ROW(FLAG, "stop", NULL, "stop the running shed", FIELD(shed.stop),
		.groups = WEIR_CLI_SHED),
	WEIR_OPTION_ROW(NUMBER, "worker", "N", "only flows of this worker", FIELD(worker),
		.max = 63, .groups = WEIR_CLI_FLOWS),
	WEIR_OPTION_ROW(TEXT, "state", "STATE",
		"only flows in this state: syn-seen, young, established, closing, udp-seen or udp",
		FIELD(state), .min = 1, .groups = WEIR_CLI_FLOWS),
	WEIR_OPTION_ROW(TEXT, "client", "PREFIX",
		"only flows of these clients: an address, or a prefix like 192.0.2.0/24",
		FIELD(client), .min = 1, .groups = WEIR_CLI_FLOWS),
	WEIR_OPTION_ROW(NUMBER, "limit", "N", "list at most N flows", FIELD(limit),
		.fallback = "all", .min = 1, .max = 1000000000, .groups = WEIR_CLI_FLOWS),
	WEIR_OPTION_ROW(FLAG, "watch", NULL, "print rates per second continuously", FIELD(watch),
		.groups = WEIR_CLI_WATCH),
	WEIR_OPTION_ROW(SECONDS, "interval", "SECONDS", "sampling interval; implies --watch",
		FIELD(interval_ms), .fallback = "1", .min = 100, .max = WEEK_MS,
		.groups = WEIR_CLI_WATCH),
	WEIR_OPTION_ROW(SECONDS, "interval", "DURATION",
		"time until the deadline: 500ms, 60s, 2m, 1h", FIELD(interval_ms),
		.fallback = "no deadline", .min = 100, .max = WEEK_MS, .groups = WEIR_CLI_DRAIN),
	WEIR_OPTION_ROW(FLAG, "once", NULL, "print everything once, after one interval",
		FIELD(once), .groups = WEIR_CLI_TOP),
	WEIR_OPTION_ROW(SECONDS, "interval", "SECONDS", "sampling interval", FIELD(interval_ms),
		.fallback = "1", .min = 100, .max = WEEK_MS, .groups = WEIR_CLI_TOP),
	WEIR_OPTION_ROW(WORD, "sort", "ORDER", "order of the backends", FIELD(sort),
		.fallback = "service", .words = sorts, .groups = WEIR_CLI_TOP),
	WEIR_OPTION_ROW(FLAG, "wait", NULL, "wait for the end of the drain, and show the progress",
		FIELD(wait), .groups = WEIR_CLI_DRAIN),
	WEIR_OPTION_ROW(FLAG, "tcp", NULL,
		"show round-trip times and retransmits, as reported by the hosts", FIELD(tcp),
		.groups = WEIR_CLI_FIGURES),
	WEIR_OPTION_ROW(SECONDS, "for", "DURATION", "recording time: 500ms, 60s, 2m", FIELD(for_ms),
		.fallback = "60s", .min = 100, .max = 600000, .groups = WEIR_CLI_COMPARE),
	WEIR_OPTION_ROW(WORD, "durations", "HOW",
		"duration of a replayed flow that gets another backend than in the recording",
		FIELD(durations), .fallback = "scaled", .words = durations,
		.groups = WEIR_CLI_COMPARE),
	WEIR_OPTION_ROW(NUMBER, "count", "N", "stop after N samples; implies --watch", FIELD(count),
		.fallback = "run until interrupted", .min = 1, .max = 1000000000,
		.groups = WEIR_CLI_WATCH),
	WEIR_OPTION_ROW(FLAG, "strict", NULL, "treat warnings as errors", FIELD(strict),
		.groups = WEIR_CLI_STRICT),
	WEIR_OPTION_ROW(TEXT, "report", "NOTES",
		"write all notes about settings without a counterpart in Weir to this file; - = "
		"standard error",
		FIELD(report), .fallback = "standard error, as a summary", .min = 1,
		.groups = WEIR_CLI_REPORT),
	WEIR_OPTION_ROW(FLAG, "all", NULL, "print each note instead of a summary", FIELD(all),
		.groups = WEIR_CLI_REPORT),
	WEIR_OPTION_ROW(TEXT, "id", "NAME",
		"use the lines that begin with @NAME, like keepalived --config-id NAME", FIELD(id),
		.min = 1, .groups = WEIR_CLI_ID),
	WEIR_OPTION_ROW(TEXT, "config", "FILE", "configuration to check", FIELD(config),
		.fallback = "file of weir-control if it runs, otherwise /etc/weir/weir.json",
		.min = 1, .groups = WEIR_CLI_DOCTOR),
	WEIR_OPTION_ROW(TEXT, "root", "DIR",
		"check another machine: read copies of its /proc, /sys, /run and /etc below DIR; "
		"skip checks that need a running kernel",
		FIELD(root), .fallback = "this machine", .min = 1, .groups = WEIR_CLI_DOCTOR),
	WEIR_OPTION_ROW(TEXT, "run-dir", "DIR",
		"directory of the control socket; WEIR_RUN_DIR in the environment sets the default",
		FIELD(run_dir), .fallback = WEIR_RUN_DIR_DEFAULT, .min = 1),
	WEIR_OPTION_ROW(FLAG, "json", NULL, "print the result as JSON", FIELD(json)),
	WEIR_OPTION_ROW(NUMBER, "timeout", "MS",
		"time to wait for a reply from weir-control, in milliseconds", FIELD(timeout_ms),
		.fallback = "5000", .min = 1, .max = HOUR_MS),
};

static const struct weir_option_list list = {
	.row = rows, .count = sizeof(rows) / sizeof(rows[0]), .operands_max = WEIR_OPERANDS_MAX};

int weir_cli_options_parse(int argc, char **argv, const char *environment_run_dir,
	struct weir_cli_options *ret, char *why, size_t why_bytes) {
	const char *usual = environment_run_dir != NULL && environment_run_dir[0]
				    ? environment_run_dir
				    : WEIR_RUN_DIR_DEFAULT;
	struct weir_cli_options options = {
		.run_dir = usual,
		.usual_run_dir = usual,
		.worker = -1,
		.rate = -1,
		.preview = {.algorithm = WEIR_SUBSET_DETERMINISTIC},
		.capture = {.snaplen = 128},
	};
	int r = weir_command_line_parse(&list, argc, argv, &options, &options.line, why, why_bytes);

	ret->line = options.line;
	if (r == 0) {
		options.tables_ms =
			options.timeout_ms > 0 ? options.timeout_ms : WEIR_CLI_TABLES_MS;
		options.timeout_ms =
			options.timeout_ms > 0 ? options.timeout_ms : WEIR_CLI_TIMEOUT_MS;
		options.watch |= options.interval_ms > 0 || options.count > 0;
		*ret = options;
	}
	return r;
}

int weir_cli_options_check(const struct weir_cli_options *options, uint32_t groups,
	const char *command, char *why, size_t why_bytes) {
	return weir_command_line_check(&list, &options->line, groups, command, why, why_bytes);
}

const char *weir_cli_options_help(uint32_t groups, char *buffer, size_t bytes) {
	return weir_help_options(&list, groups, buffer, bytes);
}

int weir_cli_endpoint_parse(const char *text, char *address, size_t bytes, uint16_t *ret_port) {
	const char *colon = strrchr(text, ':');
	size_t length = colon != NULL ? (size_t)(colon - text) : 0;
	struct weir_address parsed;
	char copy[64], *end;
	bool brackets;
	long port;

	if (colon == NULL || length >= sizeof(copy)) {
		return -EINVAL;
	}
	brackets = length > 2 && text[0] == '[' && text[length - 1] == ']';
	memcpy(copy, text + brackets, length - 2 * brackets);
	copy[length - 2 * brackets] = '\0';
	// Without brackets the last part of an IPv6 address would be read as a port.
	if (weir_address_parse(copy, &parsed) || (parsed.family == 6) != brackets) {
		return -EINVAL;
	}
	port = strtol(colon + 1, &end, 10);
	if (colon[1] < '0' || colon[1] > '9' || *end || port < 0 || port > 65535 ||
		strlen(copy) >= bytes) {
		return -EINVAL;
	}
	memcpy(address, copy, strlen(copy) + 1);
	*ret_port = (uint16_t)port;
	return 0;
}
