// SPDX-License-Identifier: BSD-3-Clause
#include "options.h"

#include <ctype.h>
#include <errno.h>
#include <net/if.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent_message.h"
#include "daemon_options.h"
#include "help_text.h"
#include "options_decap.h"
#include "options_ports.h"
#include "terminal.h"

#define HELP_LINE_BYTES 160

#define FIELD(member) WEIR_OPTION_FIELD(struct weir_agent_options, member)

enum {
	GROUP_DECAP = 1 << WEIR_AGENT_DECAP,
	GROUP_STATS = 1 << WEIR_AGENT_STATS,
	GROUP_RUN = 1 << WEIR_AGENT_RUN,
	GROUP_LAME_DUCK = 1 << WEIR_AGENT_LAME_DUCK,
	GROUP_READY = 1 << WEIR_AGENT_READY,
	GROUP_ANNOUNCE = 1 << WEIR_AGENT_ANNOUNCE,
	GROUP_EXEC = 1 << WEIR_AGENT_EXEC,
	GROUP_STATUS = 1 << WEIR_AGENT_STATUS,
	GROUP_KEY = 1 << WEIR_AGENT_KEY,
	GROUP_DOCTOR = 1 << WEIR_AGENT_DOCTOR,
	GROUP_CAPACITY = 1 << WEIR_AGENT_CAPACITY,
	GROUP_WORDS = GROUP_ANNOUNCE | GROUP_EXEC,
	GROUP_LOCAL = GROUP_RUN | GROUP_LAME_DUCK | GROUP_READY | GROUP_STATUS | GROUP_DOCTOR |
		      GROUP_WORDS | GROUP_CAPACITY,
	GROUP_ALL = GROUP_DECAP | GROUP_STATS | GROUP_LOCAL | GROUP_KEY,
};

static int take_interface(const struct weir_option *option, const char *value, void *options,
	char *why, size_t why_bytes) {
	struct weir_agent_options *ret = options;
	char shown[IF_NAMESIZE + 8];

	(void)option;
	if (ret->interface != NULL) {
		snprintf(why, why_bytes, "is a second interface, after %s; use one interface",
			weir_terminal_text(ret->interface, shown, sizeof(shown)));
		return -EINVAL;
	}
	if (value[0] == '\0' || strlen(value) >= IF_NAMESIZE) {
		snprintf(why, why_bytes, "is not an interface name; use 1 to %d characters",
			IF_NAMESIZE - 1);
		return -EINVAL;
	}
	ret->interface = value;
	return 0;
}

static int take_cgroup(const struct weir_option *option, const char *value, void *options,
	char *why, size_t why_bytes) {
	struct weir_agent_options *ret = options;

	(void)option;
	if (ret->cgroup_count == WEIR_CPU_CGROUPS_MAX) {
		snprintf(why, why_bytes, "does not fit into the cgroup list; use at most %d",
			WEIR_CPU_CGROUPS_MAX);
		return -EINVAL;
	}
	if (value[0] != '/') {
		snprintf(why, why_bytes,
			"is not an absolute path; use a path such as "
			"/sys/fs/cgroup/system.slice/nginx.service");
		return -EINVAL;
	}
	ret->cgroups[ret->cgroup_count++] = value;
	return 0;
}

static const struct weir_option_word signals[] = {
	{"TERM", SIGTERM, NULL},
	{"QUIT", SIGQUIT, NULL},
	{"INT", SIGINT, NULL},
	{"HUP", SIGHUP, NULL},
	{"USR1", SIGUSR1, NULL},
	{"USR2", SIGUSR2, NULL},
	{"WINCH", SIGWINCH, NULL},
	{NULL, 0, NULL},
};

static const struct weir_option_word commands[] = {
	{"decap INTERFACE", WEIR_AGENT_DECAP, "decapsulate packets until SIGTERM or SIGINT"},
	{"stats INTERFACE", WEIR_AGENT_STATS, "print the counters of a running weir-agent decap"},
	{"run", WEIR_AGENT_RUN,
		"report the state and load of this backend to its balancers, until SIGTERM"},
	{"lame-duck", WEIR_AGENT_LAME_DUCK,
		"drain: balancers stop sending new flows; wait for open connections to end"},
	{"ready", WEIR_AGENT_READY, "accept new flows, or resume after lame-duck"},
	{"announce WORD", WEIR_AGENT_ANNOUNCE,
		"announce a state for a single service, as root or as its --allow-user; WORD is "
		"starting, ready, lame-duck or down; the WORD status only prints the state"},
	{"exec -- COMMAND", WEIR_AGENT_EXEC,
		"run a server, and drain its service before SIGTERM is passed on to the server"},
	{"status", WEIR_AGENT_STATUS,
		"show the state, the load and the balancers of a running agent"},
	{"key generate", WEIR_AGENT_KEY, "print a line for the key file, with a new key"},
	{"doctor INTERFACE", WEIR_AGENT_DOCTOR,
		"check the settings that a backend needs; INTERFACE is the same as for decap"},
	{"capacity", WEIR_AGENT_CAPACITY,
		"show the CPUs of this host and their measured speed, for weights \"auto\""},
	{NULL, 0, NULL},
};

static const struct weir_option rows[] = {
	WEIR_OPTION_ROW(CUSTOM, "interface", "NAME",
		"interface that receives packets from the balancers; same as the argument "
		"INTERFACE",
		.letter = 'i', .take = take_interface,
		.groups = GROUP_DECAP | GROUP_STATS | GROUP_DOCTOR),
	WEIR_OPTION_ROW(CUSTOM, "address", "ADDRESS", "outer destination address to accept",
		.repeatable = true, .fallback = "the current addresses of the interface",
		.take = weir_take_address, .groups = GROUP_DECAP),
	WEIR_OPTION_ROW(CUSTOM, "from", "PREFIX",
		"outer source addresses to accept: the addresses that the balancers use",
		.repeatable = true, .fallback = "any", .take = weir_take_source,
		.groups = GROUP_DECAP),
	WEIR_OPTION_ROW(CUSTOM, "forwarding", "MODE",
		"pass packets of other modes to the kernel, and decapsulate only this forwarding "
		"mode",
		.repeatable = true, .fallback = "ipip, gue and gre", .take = weir_take_forwarding,
		.words = weir_decap_forwardings, .groups = GROUP_DECAP),
	WEIR_OPTION_ROW(CUSTOM, "forwarding", "MODE",
		"forwarding mode that the balancers use for this backend", .repeatable = true,
		.fallback = "any; the MTU check uses the mode of the packets seen so far, or ipip",
		.take = weir_take_forwarding, .words = weir_forwardings, .groups = GROUP_DOCTOR),
	WEIR_OPTION_ROW(NUMBER, "gue-port", "PORT",
		"UDP port of GUE packets, the same as gue_port in the configuration of the "
		"balancers",
		FIELD(gue_port), .fallback = "6080", .min = 1, .max = UINT16_MAX,
		.groups = GROUP_DECAP | GROUP_DOCTOR),
	WEIR_OPTION_ROW(NUMBER, "gre-key", "KEY",
		"key of GRE packets, the same as gre_key in the configuration of the balancers; "
		"packets with another key, or without a key, are passed to the kernel",
		FIELD(gre_key), .fallback = "packets with any key, and without a key", .min = 1,
		.max = UINT32_MAX, .groups = GROUP_DECAP),
	WEIR_OPTION_ROW(WORD, "mode", "MODE", "XDP mode", FIELD(mode),
		.fallback = "native if the driver supports it", .words = weir_xdp_modes,
		.groups = GROUP_DECAP),
	WEIR_OPTION_ROW(FLAG, "stats", NULL, "print the counters every second while they change",
		FIELD(stats), .groups = GROUP_DECAP),
	WEIR_OPTION_ROW(FLAG, "detach", NULL,
		"remove the decap program that a crashed agent has left on INTERFACE",
		FIELD(detach), .groups = GROUP_DECAP),
	WEIR_OPTION_ROW(CUSTOM, "port", "PORT",
		"TCP port of the service, or UDP port, such as 53/udp. The agent announces the "
		"port as down when its last listening socket is closed. For a TCP port, the agent "
		"measures connections, and a drain waits until the connections end",
		.letter = 'p', .repeatable = true, .take = weir_take_port,
		.groups = GROUP_RUN | GROUP_DOCTOR),
	WEIR_OPTION_ROW(CUSTOM, "service", "NAME=PORT[,PORT]",
		"service whose state can be announced, and its ports; these ports need no --port",
		.repeatable = true, .take = weir_take_service, .groups = GROUP_RUN),
	WEIR_OPTION_ROW(CUSTOM, "service", "NAME",
		"service whose state is announced: a --service of weir-agent run",
		.fallback = "the only service that this user may announce for",
		.take = weir_take_service, .groups = GROUP_WORDS),
	WEIR_OPTION_ROW(CUSTOM, "allow-user", "USER=NAME",
		"user who may announce the state of the --service NAME; root is always allowed",
		.repeatable = true, .take = weir_take_allowed, .groups = GROUP_RUN),
	WEIR_OPTION_ROW(SECONDS, "grace", "SECONDS",
		"announce a port as down only after this time without a listening socket",
		FIELD(grace_ms), .fallback = "0", .max = 600000, .groups = GROUP_RUN),
	WEIR_OPTION_ROW(CUSTOM, "cgroup", "PATH",
		"cgroup directory of the service, for its CPU time and quota; with cgroup v1, use "
		"the option once for each controller",
		.repeatable = true, .fallback = "the whole machine", .take = take_cgroup,
		.groups = GROUP_RUN | GROUP_CAPACITY),
	WEIR_OPTION_ROW(TEXT, "orca-url", "URL",
		"URL of the load report of the application (ORCA); values in the report replace "
		"measured values",
		FIELD(orca_url), .min = 1, .groups = GROUP_RUN),
	WEIR_OPTION_ROW(SECONDS, "orca-interval", "SECONDS",
		"time between two requests to --orca-url", FIELD(orca_interval_ms), .fallback = "1",
		.min = 50, .max = 60000, .groups = GROUP_RUN),
	WEIR_OPTION_ROW(SCALED, "max-active-flows", "N",
		"maximum concurrent flows of the application, over all balancers",
		FIELD(max_active_flows), .min = 1, .max = UINT32_MAX, .groups = GROUP_RUN),
	WEIR_OPTION_ROW(FLAG, "allow-steal", NULL,
		"allow balancers to move flows whose connection is not established on this server; "
		"needs --port and CAP_NET_ADMIN",
		FIELD(allow_steal), .groups = GROUP_RUN),
	WEIR_OPTION_ROW(FLAG, "shed-idle", NULL,
		"allow balancers to end idle connections (weirctl backend shed): the client gets "
		"an RST; needs --port and CAP_NET_ADMIN",
		FIELD(shed_idle), .groups = GROUP_RUN),
	WEIR_OPTION_ROW(TEXT, "shed-hook", "COMMAND",
		"command that makes the server close connections when a balancer requests this "
		"(weirctl backend shed); needs --port; the command runs as --user",
		FIELD(shed_hook), .min = 1, .groups = GROUP_RUN),
	WEIR_OPTION_ROW(TEXT, "warm-up", "COMMAND",
		"stay \"starting\" until this command exits with 0; the command runs as --user",
		FIELD(warm_up), .min = 1, .groups = GROUP_RUN),
	WEIR_OPTION_ROW(SECONDS, "interval", "SECONDS",
		"maximum duration of a drain; for weir-agent run: of the drain after SIGTERM",
		FIELD(interval_ms), .fallback = "30", .max = 86400000,
		.groups = GROUP_RUN | GROUP_LAME_DUCK),
	WEIR_OPTION_ROW(SECONDS, "drain-timeout", "SECONDS",
		"maximum time until the stop signal is passed on to the server; at least --delay",
		FIELD(drain_timeout_ms), .fallback = "30", .max = 86400000, .groups = GROUP_EXEC),
	WEIR_OPTION_ROW(SECONDS, "delay", "SECONDS",
		"wait at least this long before the stop signal is passed on to the server; useful "
		"for UDP, where there are no connections to wait for",
		FIELD(delay_ms), .fallback = "0", .max = 3600000, .groups = GROUP_EXEC),
	WEIR_OPTION_ROW(WORD, "stop-signal", "SIGNAL", "signal that begins the drain",
		FIELD(stop_signal), .fallback = "TERM", .words = signals, .groups = GROUP_EXEC),
	WEIR_OPTION_ROW(FLAG, "starting", NULL,
		"announce the state starting until the server sends READY=1 (sd_notify)",
		FIELD(starting), .groups = GROUP_EXEC),
	WEIR_OPTION_ROW(TEXT, "then", "COMMAND",
		"run this command after the drain, unless \"ready\" cancels the drain; if no "
		"balancer probes this agent, the drain lasts for the whole --interval",
		FIELD(then), .min = 1, .groups = GROUP_LAME_DUCK),
	WEIR_OPTION_ROW(NUMBER, "udp-port", "PORT", "UDP port for the balancers' probes",
		FIELD(udp_port), .fallback = "4777", .min = 1, .max = UINT16_MAX,
		.groups = GROUP_RUN | GROUP_DOCTOR),
	WEIR_OPTION_ROW(TEXT, "key-file", "FILE",
		"file of the keys shared with the balancers; on SIGHUP, weir-agent run reads the "
		"file again",
		FIELD(key_file), .fallback = WEIR_AGENT_KEY_FILE, .min = 1,
		.groups = GROUP_RUN | GROUP_DOCTOR | GROUP_KEY),
	WEIR_OPTION_ROW(SCALED, "connections", "N", "maximum number of open connections to measure",
		FIELD(connections), .fallback = "65536", .min = 1, .max = 100000000,
		.groups = GROUP_RUN),
	WEIR_OPTION_ROW(TEXT, "user", "USER",
		"user to run as; when started as root, the default is the user weir, or nobody if "
		"weir does not exist",
		FIELD(user), .min = 1, .groups = GROUP_RUN),
	WEIR_OPTION_ROW(TEXT, "run-dir", "DIR",
		"directory of the agent's socket; each agent needs a separate directory",
		FIELD(run_dir), .fallback = WEIR_AGENT_RUN_DIR_DEFAULT, .min = 1, .max = 90,
		.groups = GROUP_LOCAL),
	{WEIR_OPTION_LOG_LEVEL, .groups = GROUP_RUN, FIELD(log_level)},
	{WEIR_OPTION_LOG_FORMAT, .groups = GROUP_RUN, FIELD(log_format)},
	WEIR_OPTION_ROW(NUMBER, "id", "N", "ID of the key", FIELD(key_id),
		.fallback = "the smallest ID that is not used in --key-file", .min = 1,
		.max = UINT16_MAX, .groups = GROUP_KEY),
	WEIR_OPTION_ROW(CUSTOM, "vip", "ADDRESS", "check that this VIP is an address of this host",
		.repeatable = true, .take = weir_take_vip, .groups = GROUP_DOCTOR),
	WEIR_OPTION_ROW(FLAG, "measure", NULL,
		"measure again, and store the result in --run-dir; weir-agent run reads the result "
		"at its start and on SIGHUP",
		FIELD(measure), .groups = GROUP_CAPACITY),
	WEIR_OPTION_ROW(FLAG, "json", NULL, "print the result as JSON", FIELD(json),
		.groups = GROUP_STATS | GROUP_STATUS | GROUP_DOCTOR | GROUP_CAPACITY),
};

static const struct weir_option_list list = {
	.row = rows, .count = sizeof(rows) / sizeof(rows[0]), .operands_max = WEIR_OPERANDS_MAX};

static const struct weir_help help_of_all = {
	.usage = "weir-agent decap [--interface] INTERFACE [OPTION]...\n"
		 "weir-agent stats [--interface] INTERFACE [--json]\n"
		 "weir-agent run [--port PORT]... [OPTION]...\n"
		 "weir-agent lame-duck [--interval SECONDS] [--then COMMAND]\n"
		 "weir-agent ready\n"
		 "weir-agent announce WORD [--service NAME]\n"
		 "weir-agent exec [--service NAME] [OPTION]... -- COMMAND [ARGUMENT]...\n"
		 "weir-agent status [--json]\n"
		 "weir-agent key generate [--id N] [--key-file FILE]\n"
		 "weir-agent doctor [--interface] INTERFACE [--vip ADDRESS]... [--port PORT]... "
		 "[--json]\n"
		 "weir-agent capacity [--measure] [--json]",
	.about = "Runs on a backend. decap removes the balancers' outer headers with an XDP "
		 "program; every VIP must be an address of the loopback interface of this host. "
		 "run answers the balancers' probes with the state and load of this backend; "
		 "lame-duck and ready control weir-agent run, and status shows its state; "
		 "announce and exec set the state of a single service, and do not need root. "
		 "weir-agent COMMAND --help "
		 "describes one command.",
	.commands = commands,
	.notes = "On SIGTERM, weir-agent run drains for at most its own --interval, and then "
		 "exits with 0. A second SIGTERM, or SIGINT, stops weir-agent run immediately."
		 "\nExit status: 0 done, 1 refused (no such interface, no permission, another XDP "
		 "program, a command that failed), 2 invalid usage, 3 no decap program on "
		 "INTERFACE (for stats and --detach), or weir-agent run is not running (for "
		 "lame-duck, ready, status and announce), 4 connections are left when the "
		 "interval of lame-duck expires, or their number is unknown. doctor: 0 no warning "
		 "or fault, 1 "
		 "warnings, 2 faults. exec: the exit status of COMMAND, 127 if it is not found, "
		 "126 if it is not executable.",
	.examples = "weir-agent decap eth0 --from 10.0.0.2 --from 2001:db8:a::/64\n"
		    "weir-agent stats eth0\n"
		    "weir-agent run --port 80 --port 443\n"
		    "weir-agent lame-duck --interval 30s --then \"systemctl stop nginx\"\n"
		    "weir-agent ready\n"
		    "weir-agent announce lame-duck --service web\n"
		    "weir-agent exec --service web -- nginx -g \"daemon off;\"\n"
		    "weir-agent status\n"
		    "weir-agent key generate\n"
		    "weir-agent doctor eth0 --vip 198.51.100.10 --port 80\n"
		    "weir-agent capacity --measure",
	.groups = GROUP_ALL,
};

// Find the first line in `lines` that contains "weir-agent COMMAND".
static const char *line_of(
	const char *lines, const char *command, char line[static HELP_LINE_BYTES]) {
	char begin[64];

	snprintf(begin, sizeof(begin), "weir-agent %.*s", (int)strcspn(command, " "), command);
	lines = strstr(lines, begin);
	snprintf(line, HELP_LINE_BYTES, "%.*s", (int)strcspn(lines, "\n"), lines);
	return line;
}

const char *weir_agent_help_words(int command, char *buffer, size_t bytes) {
	return weir_help_words(
		"weir-agent", command >= 0 ? commands[command].name : NULL, buffer, bytes);
}

const char *weir_agent_help(int command, char *buffer, size_t bytes) {
	char usage[HELP_LINE_BYTES], example[HELP_LINE_BYTES], about[HELP_LINE_BYTES];
	struct weir_help help = help_of_all;

	if (command >= 0) {
		const struct weir_option_word *word = &commands[command];

		snprintf(about, sizeof(about), "%c%s.", toupper((unsigned char)word->help[0]),
			word->help + 1);
		help.usage = line_of(help.usage, word->name, usage);
		help.examples = line_of(help.examples, word->name, example);
		help.about = about;
		help.commands = NULL;
		help.groups = 1u << command;
	}
	return weir_help_text(&list, &help, buffer, bytes);
}

static int take_interface_operands(struct weir_agent_options *options,
	const struct weir_command_line *line, char *why, size_t why_bytes) {
	char reason[128], shown[64];

	for (int i = 1; i < line->operands; i++) {
		if (take_interface(NULL, line->operand[i], options, reason, sizeof(reason))) {
			snprintf(why, why_bytes, "\"%s\" %s",
				weir_terminal_text(line->operand[i], shown, sizeof(shown)), reason);
			return -EINVAL;
		}
	}
	if (options->interface == NULL) {
		snprintf(why, why_bytes, "INTERFACE is missing; use weir-agent %s",
			commands[options->command].name);
		return -EINVAL;
	}
	return 0;
}

static int take_operands(struct weir_agent_options *options, const struct weir_command_line *line,
	char *why, size_t why_bytes) {
	bool is_key = options->command == WEIR_AGENT_KEY;
	char shown[64];

	if (options->command == WEIR_AGENT_DECAP || options->command == WEIR_AGENT_STATS ||
		options->command == WEIR_AGENT_DOCTOR) {
		return take_interface_operands(options, line, why, why_bytes);
	}
	if (options->command == WEIR_AGENT_ANNOUNCE) {
		if (line->operands != 2) {
			snprintf(why, why_bytes,
				"use exactly one WORD: starting, ready, lame-duck, down or "
				"status");
			return -EINVAL;
		}
		options->word = line->operand[1];
		return 0;
	}
	if (is_key && (line->operands < 2 || strcmp(line->operand[1], "generate") != 0)) {
		snprintf(why, why_bytes, "use weir-agent key generate");
		return -EINVAL;
	}
	if (line->operands > 1 + is_key) {
		snprintf(why, why_bytes, "unexpected \"%s\"; %s",
			weir_terminal_text(line->operand[1 + is_key], shown, sizeof(shown)),
			options->command == WEIR_AGENT_EXEC ? "put \"--\" before the command"
							    : "leave it out");
		return -EINVAL;
	}
	return 0;
}

static int take_command(struct weir_agent_options *options, const struct weir_command_line *line,
	char *why, size_t why_bytes) {
	int command = 0;
	int r = weir_command_line_command(commands, line, &command, why, why_bytes);

	if (r == 0) {
		options->command = (enum weir_agent_command)command;
		r = take_operands(options, line, why, why_bytes);
	}
	return r == 0 ? weir_command_line_check(&list, line, 1u << options->command,
				line->operand[0], why, why_bytes)
		      : r;
}

// Returns the command to which --help applies: the first argument. Returns -1 if there is no
// argument, or if the argument is not a command.
static int help_of(const struct weir_command_line *line) {
	char why[128];
	int command;

	return line->operands > 0 && weir_command_line_command(
					     commands, line, &command, why, sizeof(why)) == 0
		       ? command
		       : -1;
}

enum weir_agent_shed_method weir_agent_options_shed(const struct weir_agent_options *options) {
	return options->shed_idle           ? WEIR_AGENT_SHED_IDLE
	       : options->shed_hook != NULL ? WEIR_AGENT_SHED_HOOK
					    : WEIR_AGENT_SHED_NO_METHOD;
}

static int check(struct weir_agent_options *options, char *why, size_t why_bytes) {
	if (options->allow_steal && options->port_count == 0) {
		snprintf(why, why_bytes,
			"--allow-steal needs --port; name the ports whose flows may be moved");
		return -EINVAL;
	}
	if ((options->shed_idle || options->shed_hook != NULL) && options->port_count == 0) {
		snprintf(why, why_bytes,
			"%s needs --port; name the ports whose connections may be ended",
			options->shed_idle ? "--shed-idle" : "--shed-hook");
		return -EINVAL;
	}
	if (options->shed_idle && options->shed_hook != NULL) {
		snprintf(why, why_bytes,
			"--shed-idle and --shed-hook exclude each other; use --shed-hook if the "
			"server can close connections");
		return -EINVAL;
	}
	if (options->command == WEIR_AGENT_EXEC && options->program == NULL) {
		snprintf(why, why_bytes, "COMMAND is missing; use weir-agent exec -- COMMAND");
		return -EINVAL;
	}
	if (weir_check_forwarding(options, why, why_bytes)) {
		return -EINVAL;
	}
	return weir_check_services(options, why, why_bytes);
}

// Finds the program of `exec ... -- PROGRAM`. *ret_program: the arguments after "--". Returns the
// number of arguments before "--", or argc if the command line has no program.
static int cut_program(int argc, char **argv, char ***ret_program) {
	struct weir_agent_options options = {0};
	struct weir_command_line line;
	char why[256];
	int end = 1;

	while (end < argc && strcmp(argv[end], "--") != 0) {
		end++;
	}
	(void)weir_command_line_parse(&list, end, argv, &options, &line, why, sizeof(why));
	if (end + 1 >= argc || help_of(&line) != WEIR_AGENT_EXEC) {
		return argc;
	}
	*ret_program = &argv[end + 1];
	return end;
}

int weir_agent_options_parse(
	int argc, char **argv, struct weir_agent_options *ret, char *why, size_t why_bytes) {
	struct weir_agent_options options = {
		.udp_port = WEIR_AGENT_PORT,
		.gue_port = WEIR_GUE_PORT,
		.key_file = WEIR_AGENT_KEY_FILE,
		.run_dir = WEIR_AGENT_RUN_DIR_DEFAULT,
		.orca_interval_ms = 1000,
		.interval_ms = 30000,
		.drain_timeout_ms = 30000,
		.stop_signal = SIGTERM,
		.log_level = WEIR_LOG_INFO,
	};
	struct weir_command_line line;
	int r;

	argc = cut_program(argc, argv, &options.program);
	r = weir_command_line_parse(&list, argc, argv, &options, &line, why, why_bytes);
	options.help_of = ret->help_of = help_of(&line);
	if (r) {
		return r;
	}
	options.help = line.help;
	options.version = line.version;
	if (!line.help && !line.version) {
		r = take_command(&options, &line, why, why_bytes);
		if (r == 0) {
			r = check(&options, why, why_bytes);
		}
	}
	if (r == 0) {
		*ret = options;
	}
	return r;
}
