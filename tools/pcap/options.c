// SPDX-License-Identifier: BSD-3-Clause
#include "options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "help_text.h"

#define WEIGHT_MAX 65535

#define FIELD(member) WEIR_OPTION_FIELD(struct weir_pcap_options, member)

static int copy_name(char to[WEIR_PCAP_NAME_BYTES], const char *from, size_t bytes) {
	if (bytes == 0 || bytes >= WEIR_PCAP_NAME_BYTES) {
		return -EINVAL;
	}
	memcpy(to, from, bytes);
	to[bytes] = '\0';
	return 0;
}

static int read_number(const char *text, uint32_t most, uint32_t *ret) {
	unsigned long value;
	char *end;

	if (text[0] < '0' || text[0] > '9') {
		return -EINVAL;
	}
	errno = 0;
	value = strtoul(text, &end, 10);
	if (errno != 0 || *end != '\0' || value > most) {
		return -EINVAL;
	}
	*ret = (uint32_t)value;
	return 0;
}

// Parses the packet number of a change. If the value contains an @, sets change->packet to the
// number after the last @, and *end to the position of this @. Otherwise sets change->packet to 1,
// and leaves *end unchanged. Returns 0 or -EINVAL.
static int read_packet(const char *value, const char **end, struct weir_pcap_change *change) {
	const char *at = strrchr(value, '@');

	change->packet = 1;
	if (at == NULL) {
		return 0;
	}
	*end = at;
	return read_number(at + 1, UINT32_MAX, &change->packet) < 0 || change->packet == 0 ? -EINVAL
											   : 0;
}

// Parses a weight, 0 to WEIGHT_MAX. equals: text of the form "=N", which ends at `end`; NULL =
// none. Returns 0 or -EINVAL.
static int read_weight(const char *equals, const char *end, uint32_t *ret) {
	char text[8] = "";

	if (equals == NULL || equals > end || (size_t)(end - equals) > sizeof(text)) {
		return -EINVAL;
	}
	memcpy(text, equals + 1, (size_t)(end - equals - 1));
	return read_number(text, WEIGHT_MAX, ret);
}

// Sets the fields that all kinds of changes have. *end: end of the value without its packet number.
// Returns 0, or -EINVAL with the rest of the message in why.
static int begin_change(const struct weir_option *option, const char *value,
	const struct weir_pcap_options *options, struct weir_pcap_change *change, const char **end,
	char *why, size_t why_bytes) {
	change->kind = (enum weir_pcap_change_kind)option->constant;
	*end = value + strlen(value);
	if (options->changes == WEIR_PCAP_CHANGES_MAX) {
		snprintf(why, why_bytes, "does not fit into the list; use at most %d changes",
			WEIR_PCAP_CHANGES_MAX);
		return -EINVAL;
	}
	if (read_packet(value, end, change) < 0) {
		snprintf(why, why_bytes, "has no number after the @; use @N with N from 1");
		return -EINVAL;
	}
	return 0;
}

// Stores the value of --reload: adds a change to another configuration.
static int take_reload(const struct weir_option *option, const char *value, void *options,
	char *why, size_t why_bytes) {
	struct weir_pcap_options *ret = options;
	struct weir_pcap_change change = {.file = value};
	const char *end;

	if (begin_change(option, value, ret, &change, &end, why, why_bytes) < 0) {
		return -EINVAL;
	}
	change.file_bytes = (size_t)(end - value);
	if (change.file_bytes == 0) {
		snprintf(why, why_bytes, "contains no file name; use %s", option->value);
		return -EINVAL;
	}
	ret->change[ret->changes++] = change;
	return 0;
}

// Stores the value of --drain, --maintenance, --down or --weight: adds a change of a backend. The
// kind of the change is the .constant of the option's row.
static int take_change(const struct weir_option *option, const char *value, void *options,
	char *why, size_t why_bytes) {
	struct weir_pcap_options *ret = options;
	struct weir_pcap_change change = {0};
	const char *slash = strchr(value, '/');
	const char *end;

	if (begin_change(option, value, ret, &change, &end, why, why_bytes) < 0) {
		return -EINVAL;
	}
	if (change.kind == WEIR_PCAP_WEIGHT) {
		const char *equals = strchr(value, '=');

		if (read_weight(equals, end, &change.weight) < 0) {
			snprintf(why, why_bytes,
				"has no weight; use SERVICE/BACKEND=N with N from 0 to %d",
				WEIGHT_MAX);
			return -EINVAL;
		}
		end = equals;
	}
	if (slash == NULL || slash > end ||
		copy_name(change.service, value, (size_t)(slash - value)) < 0 ||
		copy_name(change.backend, slash + 1, (size_t)(end - slash - 1)) < 0) {
		snprintf(why, why_bytes, "is not the name of a backend; use %s", option->value);
		return -EINVAL;
	}
	ret->change[ret->changes++] = change;
	return 0;
}

// Stores the value of --mac: the MAC address of the ingress port.
static int take_mac(const struct weir_option *option, const char *value, void *options, char *why,
	size_t why_bytes) {
	struct weir_pcap_options *ret = options;
	unsigned int part[6];
	int end = 0;

	(void)option;
	if (sscanf(value, "%2x:%2x:%2x:%2x:%2x:%2x%n", &part[0], &part[1], &part[2], &part[3],
		    &part[4], &part[5], &end) != 6 ||
		strlen(value) != 17 || end != 17 ||
		strspn(value, "0123456789abcdefABCDEF:") != 17 || (part[0] & 1) != 0 ||
		strcmp(value, "00:00:00:00:00:00") == 0) {
		snprintf(why, why_bytes,
			"is not a valid unicast MAC address; use one like 02:00:00:00:00:01");
		return -EINVAL;
	}
	for (unsigned int i = 0; i < 6; i++) {
		ret->mac[i] = (uint8_t)part[i];
	}
	ret->has_mac = true;
	return 0;
}

#define CHANGE(option, kind_, value_, help_) \
	{.name = (option), \
		.kind = WEIR_OPTION_CUSTOM, \
		.repeatable = true, \
		.value = (value_), \
		.help = (help_), \
		.constant = (kind_), \
		.take = take_change}

static const struct weir_option rows[] = {
	WEIR_OPTION_ROW(FLAG, "json", NULL, "print one JSON object instead of lines", FIELD(json)),
	CHANGE("drain", WEIR_PCAP_DRAIN, "SERVICE/BACKEND[@N]",
		"set the administrative state to drain"),
	CHANGE("maintenance", WEIR_PCAP_MAINTENANCE, "SERVICE/BACKEND[@N]",
		"set the administrative state to maintenance"),
	CHANGE("down", WEIR_PCAP_DOWN, "SERVICE/BACKEND[@N]", "set the health state to refusing"),
	CHANGE("weight", WEIR_PCAP_WEIGHT, "SERVICE/BACKEND=N[@N]",
		"override the weight, 0 to 65535"),
	WEIR_OPTION_ROW(CUSTOM, "reload", "CONFIG[@N]", "switch to another configuration",
		.repeatable = true, .constant = WEIR_PCAP_RELOAD, .take = take_reload),
	WEIR_OPTION_ROW(TEXT, "in-port", "NAME", "ingress port of the packets", FIELD(in_port),
		.fallback = "the first port"),
	WEIR_OPTION_ROW(CUSTOM, "mac", "MAC",
		"MAC address of the ingress port: frames to other addresses are dropped",
		.fallback = "accepts any unicast address", .take = take_mac),
	WEIR_OPTION_ROW(TEXT, "out-port", "NAME", "egress port to the backends", FIELD(out_port),
		.fallback = "the first port"),
	WEIR_OPTION_ROW(NUMBER, "worker", "N", "worker that processes all packets", FIELD(worker),
		.fallback = "0", .max = WEIR_CONFIG_CORES_MAX - 1),
};

static const struct weir_option_list list = {
	.row = rows, .count = sizeof(rows) / sizeof(rows[0]), .operands_max = WEIR_OPERANDS_MAX};

static const struct weir_help help = {
	.usage = "weir-pcap [OPTION]... CONFIG IN.pcap OUT.pcap",
	.about = "Show what Weir would do with the packets of a capture: run them through the "
		 "tables and the packet pipeline of CONFIG, without a NIC and without root. Prints "
		 "the action for each packet; OUT.pcap gets the packets that Weir would send.",
	.notes =
		"All backends are healthy and their next hops are resolved. With @N, a change is "
		"made before packet N of the capture, otherwise before the first packet. The clock "
		"follows the timestamps of the packets. IN.pcap is pcap or pcapng with Ethernet "
		"frames; - is standard input.\n"
		"Exit status: 0 all packets processed, 1 failed, 2 invalid usage.",
	.examples = "weir-pcap weir.json web.pcap sent.pcap --drain web/web-1",
};

const char *weir_pcap_help(char *buffer, size_t bytes) {
	return weir_help_text(&list, &help, buffer, bytes);
}

int weir_pcap_options_parse(
	int argc, char **argv, struct weir_pcap_options *ret, char *why, size_t why_bytes) {
	struct weir_pcap_options options = {0};
	struct weir_command_line line;
	int r = weir_command_line_parse(&list, argc, argv, &options, &line, why, why_bytes);

	if (r < 0) {
		return r;
	}
	options.help = line.help;
	options.version = line.version;
	if (!line.help && !line.version) {
		if (line.operands != 3) {
			snprintf(why, why_bytes,
				"%d argument%s instead of 3; use CONFIG IN.pcap OUT.pcap",
				line.operands, line.operands == 1 ? "" : "s");
			return -EINVAL;
		}
		if (strcmp(line.operand[2], "-") == 0) {
			snprintf(why, why_bytes,
				"OUT.pcap cannot be -: the report is written to standard output");
			return -EINVAL;
		}
		options.config = line.operand[0];
		options.input = line.operand[1];
		options.output = line.operand[2];
	}
	*ret = options;
	return 0;
}
