// SPDX-License-Identifier: BSD-3-Clause
//
// Parses the command line of weirctl. Options may be in any position; all other arguments are
// words. Prints nothing.
#pragma once

#include "command_line.h"
#include "subset.h"

#define WEIR_CLI_TIMEOUT_MS 5000
#define WEIR_CLI_TABLES_MS 60000 // default timeout of commands that walk flow or affinity tables

// Groups of options; each command lists the groups that it accepts.
enum weir_cli_option {
	WEIR_CLI_SERVICE = 1 << 0, // --service
	WEIR_CLI_WATCH = 1 << 1, // --watch, --interval, --count
	WEIR_CLI_SUBSET = 1 << 2, // --clients, --backends, --size, --algorithm, --mode, --salt
	WEIR_CLI_STRICT = 1 << 3, // --strict
	WEIR_CLI_DRAIN = 1 << 4, // --interval, --wait
	WEIR_CLI_COMPARE = 1 << 5, // --for, --durations
	WEIR_CLI_REPORT = 1 << 6, // --report, --all
	WEIR_CLI_ID = 1 << 7, // --id
	WEIR_CLI_DOCTOR = 1 << 8, // --config, --root
	WEIR_CLI_TOP = 1 << 9, // --once, --interval, --sort
	WEIR_CLI_FLOWS = 1 << 10, // --backend, --worker, --state, --client, --limit
	// struct weir_cli_capture, --backend, --client, --duration, --rate
	WEIR_CLI_CAPTURE = 1 << 11,
	WEIR_CLI_TRACE = 1 << 12, // --packets, --duration
	WEIR_CLI_CANARY = 1 << 13, // struct weir_cli_canary except --promote, --rollback; --dry-run
	WEIR_CLI_CANARY_STOP = 1 << 14, // --promote, --rollback
	WEIR_CLI_FIGURES = 1 << 15, // --tcp
	WEIR_CLI_SHED = 1 << 16, // struct weir_cli_shed, --rate, --duration, --dry-run
};

enum weir_cli_durations { WEIR_CLI_SCALED, WEIR_CLI_MEASURED };

// Options of subset preview.
struct weir_cli_preview {
	uint32_t clients; // 0 = not set
	uint32_t backends; // 0 = not set
	uint32_t size; // 0 = not set
	uint32_t salt;
	enum weir_subset_algorithm algorithm;
	enum weir_subset_mode mode;
};

enum weir_cli_protocol { WEIR_CLI_ANY_PROTOCOL, WEIR_CLI_TCP, WEIR_CLI_UDP, WEIR_CLI_ICMP };

extern const char *const weir_cli_actions[]; // names of actions, indexed by enum weir_action

// Options of capture start.
struct weir_cli_capture {
	uint64_t reasons; // bit i selects enum weir_drop_reason i; 0 = any
	uint32_t actions; // bit i selects enum weir_action i; 0 = any
	enum weir_cli_protocol protocol;
	const char *destination; // NULL = any
	int port; // port of the destination; 0 = any
	int packets; // maximum number of packets of a capture or a trace; 0 = not set
	int snaplen;
	bool force;
};

#define WEIR_CLI_STEPS_MOST 16

// Options of canary start and stop; 0 = not set.
struct weir_cli_canary {
	double steps[WEIR_CLI_STEPS_MOST]; // percentages
	int step_count;
	int every_ms;
	double error_ratio, latency_ratio;
	int min_requests;
	bool promote, rollback;
};

// Options of backend shed; 0 = not set.
struct weir_cli_shed {
	bool to_mean, stop;
	int idle_ms;
};

struct weir_cli_options { // strings are constants, or point into argv or the environment
	const char *run_dir;
	const char *usual_run_dir; // run directory that is used without --run-dir
	bool json, watch, strict, wait, once, all, tcp;
	bool dry_run; // --dry-run of a canary or a shed
	int timeout_ms;
	int tables_ms; // timeout of commands that walk flow or affinity tables
	int interval_ms; // --interval of --watch, top or a drain; 0 = not set
	int for_ms; // --for or --duration of a comparison, capture, trace or shed; 0 = not set
	int durations; // enum weir_cli_durations
	int sort; // enum weir_top_sort
	int count; // --count: number of samples of --watch; 0 = until interrupted
	const char *service;
	const char *backend, *state, *client; // filter of flows or captured packets; NULL = any
	int worker; // worker whose flows are listed; -1 = any
	int limit; // maximum number of flows to list; 0 = no limit
	const char *report; // file for the notes of an import; NULL or "-" = standard error
	const char *id; // NAME: the import uses keepalived lines that begin with @NAME; NULL = none
	const char *config; // configuration file for doctor; NULL = default
	const char *root; // directory with another machine's files; NULL = this machine
	struct weir_cli_preview preview;
	struct weir_cli_capture capture;
	struct weir_cli_canary canary;
	struct weir_cli_shed shed;
	double rate; // --rate of a capture or a shed, per second; negative = not set
	struct weir_command_line line; // its operands are the words of the command
};

// Parse a command line. environment_run_dir: value of the environment variable WEIR_RUN_DIR, or
// NULL. Returns 0, or -EINVAL with one line in why and the words before the error in ret->line.
int weir_cli_options_parse(int argc, char **argv, const char *environment_run_dir,
	struct weir_cli_options *ret, char *why, size_t why_bytes);

// Refuse options that the command does not accept. groups: bits of enum weir_cli_option. Returns 0,
// or -EINVAL and one line in why.
int weir_cli_options_check(const struct weir_cli_options *options, uint32_t groups,
	const char *command, char *why, size_t why_bytes);

// Write the options of these groups for --help. groups: bits of enum weir_cli_option. buffer: has
// WEIR_HELP_BYTES bytes. Returns buffer.
const char *weir_cli_options_help(uint32_t groups, char *buffer, size_t bytes);

// Parse an address with a port, such as "198.51.100.10:80" or "[2001:db8::10]:80". address: gets at
// most bytes - 1 characters. Returns 0 or -EINVAL.
int weir_cli_endpoint_parse(const char *text, char *address, size_t bytes, uint16_t *ret_port);
