// SPDX-License-Identifier: BSD-3-Clause
#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"

const char weir_pcap_usage[] =
	"Usage: weir-pcap [OPTION]... CONFIG IN.pcap OUT.pcap\n"
	"What would Weir do with these packets? Runs them through the tables and the packet\n"
	"pipeline of CONFIG, without a NIC and without root. Prints a verdict for each packet;\n"
	"OUT.pcap holds what would be sent.\n"
	"\n"
	"  --json                         one JSON object instead of lines\n"
	"  --drain SERVICE/BACKEND        administrative state drain; may be repeated\n"
	"  --down SERVICE/BACKEND         health state refusing; may be repeated\n"
	"  --weight SERVICE/BACKEND=N     run-time weight 0..65535; may be repeated\n"
	"  --in-port NAME                 port that the packets arrive on (default: the first)\n"
	"  --out-port NAME                port that leads to the backends (default: the first)\n"
	"  --worker N                     worker that gets all packets (default: 0)\n"
	"  --help, --version\n"
	"\n"
	"All backends are healthy and have a known next hop. Packet timestamps are the clock.\n"
	"IN.pcap may be pcap or pcapng with Ethernet frames; - is standard input.\n"
	"Exit status: 0 all packets processed, 1 not, 2 wrong usage.\n"
	"\n"
	"Example: weir-pcap weir.json web.pcap sent.pcap --drain web/web-1\n";

// OPTION_CHANGE + enum weir_pcap_change_kind: the options that change a backend.
enum option_value {
	OPTION_JSON = 256,
	OPTION_IN_PORT,
	OPTION_OUT_PORT,
	OPTION_WORKER,
	OPTION_CHANGE
};

static const struct option long_options[] = {
	{"json", no_argument, NULL, OPTION_JSON},
	{"drain", required_argument, NULL, OPTION_CHANGE + WEIR_PCAP_DRAIN},
	{"down", required_argument, NULL, OPTION_CHANGE + WEIR_PCAP_DOWN},
	{"weight", required_argument, NULL, OPTION_CHANGE + WEIR_PCAP_WEIGHT},
	{"in-port", required_argument, NULL, OPTION_IN_PORT},
	{"out-port", required_argument, NULL, OPTION_OUT_PORT},
	{"worker", required_argument, NULL, OPTION_WORKER},
	{"help", no_argument, NULL, 'h'},
	{"version", no_argument, NULL, 'V'},
	{NULL, 0, NULL, 0},
};

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

static int read_change(struct weir_pcap_options *options, enum weir_pcap_change_kind kind,
	const char *text, char *why, size_t why_bytes) {
	struct weir_pcap_change change = {.kind = kind};
	const char *slash = strchr(text, '/');
	const char *end = text + strlen(text);

	if (options->changes == WEIR_PCAP_CHANGES_MAX) {
		snprintf(why, why_bytes, "more than %d backend changes", WEIR_PCAP_CHANGES_MAX);
		return -EINVAL;
	}
	if (kind == WEIR_PCAP_WEIGHT) {
		end = strchr(text, '=');
		if (end == NULL || read_number(end + 1, 65535, &change.weight) < 0) {
			snprintf(why, why_bytes,
				"\"%s\": expected SERVICE/BACKEND=N with N from 0 to 65535", text);
			return -EINVAL;
		}
	}
	if (slash == NULL || slash > end ||
		copy_name(change.service, text, (size_t)(slash - text)) < 0 ||
		copy_name(change.backend, slash + 1, (size_t)(end - slash - 1)) < 0) {
		snprintf(why, why_bytes, "\"%s\": expected SERVICE/BACKEND%s", text,
			kind == WEIR_PCAP_WEIGHT ? "=N" : "");
		return -EINVAL;
	}
	options->change[options->changes++] = change;
	return 0;
}

static int read_operands(
	struct weir_pcap_options *options, int count, char **operand, char *why, size_t why_bytes) {
	if (options->help || options->version) {
		return 0;
	}
	if (count != 3) {
		snprintf(why, why_bytes, "expected CONFIG IN.pcap OUT.pcap, got %d operand%s",
			count, count == 1 ? "" : "s");
		return -EINVAL;
	}
	options->config = operand[0];
	options->input = operand[1];
	options->output = operand[2];
	return 0;
}

int weir_pcap_options_read(
	int argc, char **argv, struct weir_pcap_options *ret, char *why, size_t why_bytes) {
	struct weir_pcap_options options = {0};
	int option, error;

	optind = 0; // start anew, whoever used getopt before
	opterr = 0;
	while ((option = getopt_long(argc, argv, ":hV", long_options, NULL)) != -1) {
		switch (option) {
		case OPTION_JSON:
			options.json = true;
			break;
		case OPTION_IN_PORT:
			options.in_port = optarg;
			break;
		case OPTION_OUT_PORT:
			options.out_port = optarg;
			break;
		case OPTION_WORKER:
			if (read_number(optarg, WEIR_CONFIG_CORES_MAX - 1, &options.worker) < 0) {
				snprintf(why, why_bytes,
					"--worker \"%s\": expected a number from 0 to %d", optarg,
					WEIR_CONFIG_CORES_MAX - 1);
				return -EINVAL;
			}
			break;
		case 'h':
			options.help = true;
			break;
		case 'V':
			options.version = true;
			break;
		case ':':
			snprintf(why, why_bytes, "%s needs an argument", argv[optind - 1]);
			return -EINVAL;
		case '?':
			snprintf(why, why_bytes, "unknown option %s", argv[optind - 1]);
			return -EINVAL;
		default:
			error = read_change(&options,
				(enum weir_pcap_change_kind)(option - OPTION_CHANGE), optarg, why,
				why_bytes);
			if (error < 0) {
				return error;
			}
		}
	}
	error = read_operands(&options, argc - optind, argv + optind, why, why_bytes);
	if (error == 0) {
		*ret = options;
	}
	return error;
}
