// SPDX-License-Identifier: BSD-3-Clause
#include "options.h"

#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "help_text.h"
#include "terminal.h"

#define FIELD(member) WEIR_OPTION_FIELD(struct weir_agent_options, member)

enum { GROUP_DECAP = 1 << WEIR_AGENT_DECAP, GROUP_STATS = 1 << WEIR_AGENT_STATS };

int weir_prefix_parse(const char *text, struct weir_prefix *ret) {
	const char *slash = strchr(text, '/');
	size_t length = slash != NULL ? (size_t)(slash - text) : strlen(text);
	struct weir_prefix prefix = {0};
	char address[64], *end;
	uint32_t most;

	if (length >= sizeof(address)) {
		return -EINVAL;
	}
	memcpy(address, text, length);
	address[length] = '\0';
	if (weir_address_parse(address, &prefix.address)) {
		return -EINVAL;
	}
	most = prefix.address.family == 4 ? 32 : 128;
	prefix.bits = most;
	if (slash != NULL) {
		unsigned long bits = strtoul(slash + 1, &end, 10);

		if (slash[1] < '0' || slash[1] > '9' || *end != '\0' || bits > most) {
			return -EINVAL;
		}
		prefix.bits = (uint32_t)bits;
	}
	for (uint32_t i = 0; i < 16; i++) {
		uint32_t kept = prefix.bits > i * 8 ? prefix.bits - i * 8 : 0;

		prefix.address.bytes[i] &= kept >= 8 ? 0xff : (uint8_t)(0xff00 >> kept);
	}
	*ret = prefix;
	return 0;
}

static int take_interface(const struct weir_option *option, const char *value, void *options,
	char *why, size_t why_bytes) {
	struct weir_agent_options *ret = options;
	char shown[IF_NAMESIZE + 8];

	(void)option;
	if (ret->interface != NULL) {
		snprintf(why, why_bytes, "is a second interface next to %s; use one",
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

static int take_address(const struct weir_option *option, const char *value, void *options,
	char *why, size_t why_bytes) {
	struct weir_agent_options *ret = options;

	(void)option;
	if (ret->address_count == WEIR_AGENT_LIST_MAX) {
		snprintf(why, why_bytes, "is one too many; use at most %d", WEIR_AGENT_LIST_MAX);
		return -EINVAL;
	}
	if (weir_address_parse(value, &ret->addresses[ret->address_count])) {
		snprintf(why, why_bytes,
			"is not an IPv4 or IPv6 address; use one like 10.0.0.11 or 2001:db8::11");
		return -EINVAL;
	}
	ret->address_count++;
	return 0;
}

static int take_source(const struct weir_option *option, const char *value, void *options,
	char *why, size_t why_bytes) {
	struct weir_agent_options *ret = options;

	(void)option;
	if (ret->source_count == WEIR_AGENT_LIST_MAX) {
		snprintf(why, why_bytes, "is one too many; use at most %d", WEIR_AGENT_LIST_MAX);
		return -EINVAL;
	}
	if (weir_prefix_parse(value, &ret->sources[ret->source_count])) {
		snprintf(why, why_bytes,
			"is not a prefix; use one like 10.0.0.0/24 or 2001:db8::/64");
		return -EINVAL;
	}
	ret->source_count++;
	return 0;
}

static const struct weir_option_word modes[] = {
	{"native", WEIR_AGENT_MODE_NATIVE, NULL},
	{"skb", WEIR_AGENT_MODE_SKB, NULL},
	{NULL, 0, NULL},
};

static const struct weir_option_word commands[] = {
	{"decap INTERFACE", WEIR_AGENT_DECAP, "decapsulate packets until SIGTERM or SIGINT"},
	{"stats INTERFACE", WEIR_AGENT_STATS, "print the counters of a running decap"},
	{NULL, 0, NULL},
};

static const struct weir_option rows[] = {
	{.name = "interface",
		.letter = 'i',
		.kind = WEIR_OPTION_CUSTOM,
		.value = "NAME",
		.help = "interface that receives packets from the balancers; the same as INTERFACE",
		.take = take_interface},
	{.name = "address",
		.kind = WEIR_OPTION_CUSTOM,
		.repeatable = true,
		.value = "ADDRESS",
		.help = "outer destination address to accept",
		.fallback = "the interface's own addresses, as they change",
		.take = take_address,
		.groups = GROUP_DECAP},
	{.name = "from",
		.kind = WEIR_OPTION_CUSTOM,
		.repeatable = true,
		.value = "PREFIX",
		.help = "outer source addresses to accept: the balancers",
		.fallback = "any",
		.take = take_source,
		.groups = GROUP_DECAP},
	{.name = "mode",
		.kind = WEIR_OPTION_WORD,
		.value = "MODE",
		.help = "XDP mode",
		.fallback = "native if the driver supports it",
		.words = modes,
		.groups = GROUP_DECAP,
		FIELD(mode)},
	{.name = "stats",
		.help = "print the counters every second while they change",
		.groups = GROUP_DECAP,
		FIELD(stats)},
	{.name = "detach",
		.help = "detach a stale decap program, whose weir-agent has died, from INTERFACE",
		.groups = GROUP_DECAP,
		FIELD(detach)},
	{.name = "json",
		.help = "stats only: print the counters as JSON",
		.groups = GROUP_STATS,
		FIELD(json)},
};

static const struct weir_option_list list = {
	.row = rows, .count = sizeof(rows) / sizeof(rows[0]), .operands_max = WEIR_OPERANDS_MAX};

static const struct weir_help help = {
	.usage = "weir-agent decap [--interface] INTERFACE [OPTION]...\n"
		 "weir-agent stats [--interface] INTERFACE [--json]",
	.about = "Decapsulate packets from the balancers on a backend, with an XDP program. Every "
		 "VIP "
		 "must be an address of the loopback interface of this host.",
	.commands = commands,
	.notes = "Exit status: 0 done, 1 refused (no such interface, no permission, another XDP "
		 "program), 2 invalid usage, 3 no decap runs on INTERFACE (stats, --detach).",
	.examples = "weir-agent decap eth0 --from 10.0.0.2 --from 2001:db8:a::/64",
	.groups = GROUP_DECAP | GROUP_STATS,
};

const char *weir_agent_help(char *buffer, size_t bytes) {
	return weir_help_text(&list, &help, buffer, bytes);
}

static int take_operands(struct weir_agent_options *options, const struct weir_command_line *line,
	char *why, size_t why_bytes) {
	char reason[128], shown[64];
	int command = 0;
	int r = weir_command_line_command(commands, line, &command, why, why_bytes);

	options->command = (enum weir_agent_command)command;
	for (int i = 1; r == 0 && i < line->operands; i++) {
		r = take_interface(NULL, line->operand[i], options, reason, sizeof(reason));
		if (r) {
			snprintf(why, why_bytes, "\"%s\" %s",
				weir_terminal_text(line->operand[i], shown, sizeof(shown)), reason);
		}
	}
	if (r == 0 && options->interface == NULL) {
		snprintf(why, why_bytes, "INTERFACE is missing; use weir-agent %s",
			commands[command].name);
		r = -EINVAL;
	}
	return r;
}

int weir_agent_options_parse(
	int argc, char **argv, struct weir_agent_options *ret, char *why, size_t why_bytes) {
	struct weir_agent_options options = {0};
	struct weir_command_line line;
	int r = weir_command_line_parse(&list, argc, argv, &options, &line, why, why_bytes);

	if (r) {
		return r;
	}
	options.help = line.help;
	options.version = line.version;
	if (!line.help && !line.version) {
		r = take_operands(&options, &line, why, why_bytes);
		if (r == 0) {
			r = weir_command_line_check(&list, &line, 1u << options.command,
				line.operand[0], why, why_bytes);
		}
	}
	if (r == 0) {
		*ret = options;
	}
	return r;
}
