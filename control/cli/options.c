// SPDX-License-Identifier: BSD-3-Clause
#include "options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "captured.h"
#include "config.h"
#include "daemon_options.h"
#include "help_text.h"
#include "nearest.h"
#include "packet_facts.h"
#include "top_view.h"

#define HOUR_MS 3600000
#define WEEK_MS 604800000
#define BACKENDS_MAX 65534 // the maximum of a segment; also for the clients of a preview

#define FIELD(member) WEIR_OPTION_FIELD(struct weir_cli_options, member)

#define X(name, key) {key, WEIR_SUBSET_##name, NULL},
static const struct weir_option_word algorithms[] = {WEIR_SUBSET_ALGORITHMS(X){NULL, 0, NULL}};
#undef X
#define X(name, key) {key, WEIR_SUBSET_MODE_##name, NULL},
static const struct weir_option_word modes[] = {WEIR_SUBSET_MODES(X){NULL, 0, NULL}};
#undef X

static const struct weir_option_word durations[] = {
	{"scaled", WEIR_CLI_SCALED, "scaled by the mean flow duration of that backend"},
	{"measured", WEIR_CLI_MEASURED, "as long as at its recorded backend"}, {NULL, 0, NULL}};

#define X(name, word, help, key) {word, WEIR_TOP_##name, help},
static const struct weir_option_word sorts[] = {WEIR_TOP_SORTS(X){NULL, 0, NULL}};
#undef X

static const struct weir_option_word protocols[] = {{"tcp", WEIR_CLI_TCP, NULL},
	{"udp", WEIR_CLI_UDP, NULL}, {"icmp", WEIR_CLI_ICMP, NULL}, {NULL, 0, NULL}};

const char *const weir_cli_actions[] = {
#define X(name, key) [WEIR_ACTION_##name] = (key),
	WEIR_ACTIONS(X)
#undef X
};

// The bit of a name in a list, for an option that may be repeated.
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
		"\"weirctl stats show\" lists the counted ones", &ret->capture.reasons, why,
		why_bytes);
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

static const struct weir_option rows[] = {
	{.name = "clients",
		.kind = WEIR_OPTION_NUMBER,
		.value = "N",
		.help = "number of clients with a subset each: groups, instances or workers",
		.min = 1,
		.max = BACKENDS_MAX,
		.groups = WEIR_CLI_SUBSET,
		FIELD(preview.clients)},
	{.name = "backends",
		.kind = WEIR_OPTION_NUMBER,
		.value = "M",
		.help = "backends of the service",
		.min = 1,
		.max = BACKENDS_MAX,
		.groups = WEIR_CLI_SUBSET,
		FIELD(preview.backends)},
	{.name = "size",
		.kind = WEIR_OPTION_NUMBER,
		.value = "K",
		.help = "backends per subset",
		.min = 1,
		.max = BACKENDS_MAX,
		.groups = WEIR_CLI_SUBSET,
		FIELD(preview.size)},
	{.name = "algorithm",
		.kind = WEIR_OPTION_WORD,
		.value = "NAME",
		.help = "subset algorithm",
		.fallback = "deterministic",
		.words = algorithms,
		.groups = WEIR_CLI_SUBSET,
		FIELD(preview.algorithm)},
	{.name = "mode",
		.kind = WEIR_OPTION_WORD,
		.value = "NAME",
		.help = "mode of the deterministic algorithm",
		.fallback = "spread",
		.words = modes,
		.groups = WEIR_CLI_SUBSET,
		FIELD(preview.mode)},
	{.name = "salt",
		.kind = WEIR_OPTION_NUMBER,
		.value = "N",
		.help = "salt of the hash",
		.fallback = "0",
		.max = UINT32_MAX,
		.groups = WEIR_CLI_SUBSET,
		FIELD(preview.salt)},
	{.name = "service",
		.kind = WEIR_OPTION_TEXT,
		.value = "SERVICE",
		.help = "only this service",
		.groups = WEIR_CLI_SERVICE,
		FIELD(service)},
	{.name = "backend",
		.kind = WEIR_OPTION_TEXT,
		.value = "[SERVICE/]NAME",
		.help = "only flows of this backend",
		.min = 1,
		.groups = WEIR_CLI_FLOWS,
		FIELD(backend)},
	{.name = "backend",
		.kind = WEIR_OPTION_TEXT,
		.value = "[SERVICE/]NAME",
		.help = "only packets for this backend; needs the service, here or by --service",
		.min = 1,
		.groups = WEIR_CLI_CAPTURE,
		FIELD(backend)},
	{.name = "drop-reason",
		.kind = WEIR_OPTION_CUSTOM,
		.repeatable = true,
		.value = "REASON",
		.help = "only packets dropped, or answered, for this reason",
		.take = take_reason,
		.groups = WEIR_CLI_CAPTURE},
	{.name = "action",
		.kind = WEIR_OPTION_CUSTOM,
		.repeatable = true,
		.value = "ACTION",
		.help = "only packets with this verdict: forward, reply, kernel, drop or offer (to "
			"the next worker)",
		.take = take_action,
		.groups = WEIR_CLI_CAPTURE},
	{.name = "client",
		.kind = WEIR_OPTION_TEXT,
		.value = "PREFIX",
		.help = "only packets from these clients: an address, or a prefix like "
			"192.0.2.0/24",
		.min = 1,
		.groups = WEIR_CLI_CAPTURE,
		FIELD(client)},
	{.name = "destination",
		.kind = WEIR_OPTION_TEXT,
		.value = "ADDRESS",
		.help = "only packets to this address",
		.min = 1,
		.groups = WEIR_CLI_CAPTURE,
		FIELD(capture.destination)},
	{.name = "protocol",
		.kind = WEIR_OPTION_WORD,
		.value = "PROTOCOL",
		.help = "only packets of this protocol",
		.words = protocols,
		.groups = WEIR_CLI_CAPTURE,
		FIELD(capture.protocol)},
	{.name = "port",
		.kind = WEIR_OPTION_NUMBER,
		.value = "N",
		.help = "only packets to this TCP or UDP port",
		.min = 1,
		.max = 65535,
		.groups = WEIR_CLI_CAPTURE,
		FIELD(capture.port)},
	{.name = "packets",
		.kind = WEIR_OPTION_NUMBER,
		.value = "N",
		.help = "end after N packets",
		.fallback = "run until interrupted",
		.min = 1,
		.max = 1000000000,
		.groups = WEIR_CLI_CAPTURE,
		FIELD(capture.packets)},
	{.name = "packets",
		.kind = WEIR_OPTION_NUMBER,
		.value = "N",
		.help = "end after N packets",
		.fallback = "10",
		.min = 1,
		.max = 1000000000,
		.groups = WEIR_CLI_TRACE,
		FIELD(capture.packets)},
	{.name = "duration",
		.kind = WEIR_OPTION_SECONDS,
		.value = "SECONDS",
		.help = "end after this time: 500ms, 60s, 2m, 1h",
		.fallback = "run until interrupted",
		.min = 100,
		.max = WEEK_MS,
		.groups = WEIR_CLI_CAPTURE | WEIR_CLI_TRACE,
		FIELD(for_ms)},
	{.name = "snaplen",
		.kind = WEIR_OPTION_NUMBER,
		.value = "BYTES",
		.help = "bytes to capture of each frame",
		.fallback = "128",
		.min = 64,
		.max = 1536,
		.groups = WEIR_CLI_CAPTURE,
		FIELD(capture.snaplen)},
	{.name = "rate",
		.kind = WEIR_OPTION_NUMBER,
		.value = "N",
		.help = "maximum number of packets that a worker copies per second; the others are "
			"counted",
		.fallback = "10000",
		.min = 1,
		.max = 1000000,
		.groups = WEIR_CLI_CAPTURE,
		FIELD(capture.rate)},
	{.name = "force",
		.kind = WEIR_OPTION_FLAG,
		.help = "replace FILE if it exists",
		.groups = WEIR_CLI_CAPTURE,
		FIELD(capture.force)},
	{.name = "worker",
		.kind = WEIR_OPTION_NUMBER,
		.value = "N",
		.help = "only flows of this worker",
		.max = 63,
		.groups = WEIR_CLI_FLOWS,
		FIELD(worker)},
	{.name = "state",
		.kind = WEIR_OPTION_TEXT,
		.value = "STATE",
		.help = "only flows in this state: syn-seen, young, established, closing, udp-seen "
			"or udp",
		.min = 1,
		.groups = WEIR_CLI_FLOWS,
		FIELD(state)},
	{.name = "client",
		.kind = WEIR_OPTION_TEXT,
		.value = "PREFIX",
		.help = "only flows of these clients: an address, or a prefix like 192.0.2.0/24",
		.min = 1,
		.groups = WEIR_CLI_FLOWS,
		FIELD(client)},
	{.name = "limit",
		.kind = WEIR_OPTION_NUMBER,
		.value = "N",
		.help = "stop after N flows",
		.fallback = "all",
		.min = 1,
		.max = 1000000000,
		.groups = WEIR_CLI_FLOWS,
		FIELD(limit)},
	{.name = "watch",
		.kind = WEIR_OPTION_FLAG,
		.help = "refresh continuously, as rates per second",
		.groups = WEIR_CLI_WATCH,
		FIELD(watch)},
	{.name = "interval",
		.kind = WEIR_OPTION_SECONDS,
		.value = "SECONDS",
		.help = "sampling interval; implies --watch",
		.fallback = "1",
		.min = 100,
		.max = WEEK_MS,
		.groups = WEIR_CLI_WATCH,
		FIELD(interval_ms)},
	{.name = "interval",
		.kind = WEIR_OPTION_SECONDS,
		.value = "DURATION",
		.help = "time until the deadline: 500ms, 60s, 2m, 1h",
		.fallback = "no deadline",
		.min = 100,
		.max = WEEK_MS,
		.groups = WEIR_CLI_DRAIN,
		FIELD(interval_ms)},
	{.name = "once",
		.kind = WEIR_OPTION_FLAG,
		.help = "print everything once, after one interval",
		.groups = WEIR_CLI_TOP,
		FIELD(once)},
	{.name = "interval",
		.kind = WEIR_OPTION_SECONDS,
		.value = "SECONDS",
		.help = "sampling interval",
		.fallback = "1",
		.min = 100,
		.max = WEEK_MS,
		.groups = WEIR_CLI_TOP,
		FIELD(interval_ms)},
	{.name = "sort",
		.kind = WEIR_OPTION_WORD,
		.value = "ORDER",
		.help = "order of the backends",
		.fallback = "new-flows",
		.words = sorts,
		.groups = WEIR_CLI_TOP,
		FIELD(sort)},
	{.name = "wait",
		.kind = WEIR_OPTION_FLAG,
		.help = "wait for the end of the drain, and show the progress",
		.groups = WEIR_CLI_DRAIN,
		FIELD(wait)},
	{.name = "for",
		.kind = WEIR_OPTION_SECONDS,
		.value = "DURATION",
		.help = "recording time: 500ms, 60s, 2m",
		.fallback = "60s",
		.min = 100,
		.max = 600000,
		.groups = WEIR_CLI_COMPARE,
		FIELD(for_ms)},
	{.name = "durations",
		.kind = WEIR_OPTION_WORD,
		.value = "HOW",
		.help = "duration of a flow at another backend",
		.fallback = "scaled",
		.words = durations,
		.groups = WEIR_CLI_COMPARE,
		FIELD(durations)},
	{.name = "count",
		.kind = WEIR_OPTION_NUMBER,
		.value = "N",
		.help = "stop after N samples; implies --watch",
		.fallback = "run until interrupted",
		.min = 1,
		.max = 1000000000,
		.groups = WEIR_CLI_WATCH,
		FIELD(count)},
	{.name = "strict",
		.kind = WEIR_OPTION_FLAG,
		.help = "treat warnings as errors",
		.groups = WEIR_CLI_STRICT,
		FIELD(strict)},
	{.name = "report",
		.kind = WEIR_OPTION_TEXT,
		.value = "NOTES",
		.help = "file for the notes about what has no counterpart",
		.fallback = "standard error",
		.min = 1,
		.groups = WEIR_CLI_REPORT,
		FIELD(report)},
	{.name = "id",
		.kind = WEIR_OPTION_TEXT,
		.value = "NAME",
		.help = "use the lines that begin with @NAME, like keepalived --config-id NAME",
		.min = 1,
		.groups = WEIR_CLI_ID,
		FIELD(id)},
	{.name = "config",
		.kind = WEIR_OPTION_TEXT,
		.value = "FILE",
		.help = "configuration to check",
		.fallback = "that of weir-control, else /etc/weir/weir.json",
		.min = 1,
		.groups = WEIR_CLI_DOCTOR,
		FIELD(config)},
	{.name = "root",
		.kind = WEIR_OPTION_TEXT,
		.value = "DIR",
		.help = "read proc, sys, run and etc below DIR, copies from another machine; "
			"checks that need a live kernel are skipped",
		.fallback = "this machine",
		.min = 1,
		.groups = WEIR_CLI_DOCTOR,
		FIELD(root)},
	{.name = "run-dir",
		.kind = WEIR_OPTION_TEXT,
		.value = "DIR",
		.help = "directory of the control socket; also WEIR_RUN_DIR in the environment",
		.fallback = WEIR_RUN_DIR_DEFAULT,
		.min = 1,
		FIELD(run_dir)},
	{.name = "json", .kind = WEIR_OPTION_FLAG, .help = "print the result as JSON", FIELD(json)},
	{.name = "timeout",
		.kind = WEIR_OPTION_NUMBER,
		.value = "MS",
		.help = "how long to wait for the daemon's reply, in milliseconds",
		.fallback = "5000",
		.min = 1,
		.max = HOUR_MS,
		FIELD(timeout_ms)},
};

static const struct weir_option_list list = {
	.row = rows, .count = sizeof(rows) / sizeof(rows[0]), .operands_max = WEIR_OPERANDS_MAX};

int weir_cli_options_parse(int argc, char **argv, const char *environment_run_dir,
	struct weir_cli_options *ret, char *why, size_t why_bytes) {
	struct weir_cli_options options = {
		.run_dir = environment_run_dir != NULL && environment_run_dir[0]
				   ? environment_run_dir
				   : WEIR_RUN_DIR_DEFAULT,
		.timeout_ms = WEIR_CLI_TIMEOUT_MS,
		.worker = -1,
		.preview = {.algorithm = WEIR_SUBSET_DETERMINISTIC},
		.capture = {.snaplen = 128, .rate = 10000},
	};
	int r = weir_command_line_parse(&list, argc, argv, &options, &options.line, why, why_bytes);

	if (r == 0) {
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
