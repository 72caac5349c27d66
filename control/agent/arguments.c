// SPDX-License-Identifier: BSD-3-Clause
#include <errno.h>
#include <getopt.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arguments.h"

const char *weir_agent_arguments_usage(void) {
	return "usage: weir-agent decap [--interface] INTERFACE [options]\n"
	       "       weir-agent stats [--interface] INTERFACE [--json]\n"
	       "\n"
	       "Runs on a backend. decap takes the balancer's outer header off the packets that\n"
	       "arrive on INTERFACE (XDP), until SIGTERM or SIGINT. Every VIP must be an address\n"
	       "of this host, on its loopback interface. stats shows what a running decap "
	       "counted.\n"
	       "\n"
	       "  --interface NAME   interface towards the balancers\n"
	       "  --address ADDRESS  outer destination to accept; may be repeated\n"
	       "                     (default: the interface's own addresses, as they change)\n"
	       "  --from PREFIX      accept from these balancers alone; may be repeated\n"
	       "                     (default: from anyone)\n"
	       "  --mode MODE        native or skb (default: native where the driver can)\n"
	       "  --stats            print the counters every second while they change\n"
	       "  --detach           remove a decap program that has no owner from INTERFACE\n"
	       "  --json             stats: JSON for programs\n"
	       "  --help, --version\n"
	       "\n"
	       "example: weir-agent decap eth0 --from 10.0.0.2 --from 2001:db8:a::/64\n"
	       "\n"
	       "exit status: 0 ended as asked, 1 refused (no such interface, no permission, "
	       "another\n"
	       "XDP program, ...), 2 usage, 3 stats, --detach: no decap runs on INTERFACE\n";
}

int weir_prefix_parse(const char *text, struct weir_prefix *ret) {
	const char *slash = strchr(text, '/');
	size_t length = slash ? (size_t)(slash - text) : strlen(text);
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
	if (slash) {
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

static int set_interface(
	struct weir_agent_arguments *arguments, const char *name, char *why, size_t bytes) {
	if (arguments->interface) {
		snprintf(why, bytes, "one interface, not two: %s, %s", arguments->interface, name);
		return -EINVAL;
	}
	if (name[0] == '\0' || strlen(name) >= IF_NAMESIZE) {
		snprintf(why, bytes, "\"%s\" cannot be the name of an interface", name);
		return -EINVAL;
	}
	arguments->interface = name;
	return 0;
}

static int add_address(
	struct weir_agent_arguments *arguments, const char *text, char *why, size_t bytes) {
	if (arguments->address_count == WEIR_AGENT_LIST_MAX) {
		snprintf(why, bytes, "at most %d --address", WEIR_AGENT_LIST_MAX);
		return -EINVAL;
	}
	if (weir_address_parse(text, &arguments->addresses[arguments->address_count])) {
		snprintf(why, bytes, "--address: \"%s\" is no IPv4 or IPv6 address", text);
		return -EINVAL;
	}
	arguments->address_count++;
	return 0;
}

static int add_source(
	struct weir_agent_arguments *arguments, const char *text, char *why, size_t bytes) {
	if (arguments->source_count == WEIR_AGENT_LIST_MAX) {
		snprintf(why, bytes, "at most %d --from", WEIR_AGENT_LIST_MAX);
		return -EINVAL;
	}
	if (weir_prefix_parse(text, &arguments->sources[arguments->source_count])) {
		snprintf(why, bytes, "--from: \"%s\" is no prefix like 10.0.0.0/24", text);
		return -EINVAL;
	}
	arguments->source_count++;
	return 0;
}

static int set_mode(
	struct weir_agent_arguments *arguments, const char *text, char *why, size_t bytes) {
	if (strcmp(text, "native") == 0) {
		arguments->mode = WEIR_AGENT_MODE_NATIVE;
	} else if (strcmp(text, "skb") == 0) {
		arguments->mode = WEIR_AGENT_MODE_SKB;
	} else {
		snprintf(why, bytes, "--mode: native or skb, not \"%s\"", text);
		return -EINVAL;
	}
	return 0;
}

static int take_option(
	int option, char **argv, struct weir_agent_arguments *arguments, char *why, size_t bytes) {
	switch (option) {
	case 'i':
		return set_interface(arguments, optarg, why, bytes);
	case 'a':
		return add_address(arguments, optarg, why, bytes);
	case 'f':
		return add_source(arguments, optarg, why, bytes);
	case 'm':
		return set_mode(arguments, optarg, why, bytes);
	case 'd':
		arguments->detach = true;
		return 0;
	case 's':
		arguments->stats = true;
		return 0;
	case 'j':
		arguments->json = true;
		return 0;
	case 'h':
		arguments->help = true;
		return 0;
	case 'v':
		arguments->version = true;
		return 0;
	default:
		snprintf(why, bytes, "%s \"%s\"",
			option == ':' ? "no value after" : "unknown option", argv[optind - 1]);
		return -EINVAL;
	}
}

static int set_command(
	struct weir_agent_arguments *arguments, const char *word, char *why, size_t bytes) {
	if (word && strcmp(word, "decap") == 0) {
		arguments->command = WEIR_AGENT_DECAP;
	} else if (word && strcmp(word, "stats") == 0) {
		arguments->command = WEIR_AGENT_STATS;
	} else {
		snprintf(why, bytes, "%s%s%s", word ? "unknown command \"" : "no command",
			word ? word : "", word ? "\"" : "");
		return -EINVAL;
	}
	return 0;
}

static int check(const struct weir_agent_arguments *arguments, char *why, size_t bytes) {
	if (!arguments->interface) {
		snprintf(why, bytes, "which interface?");
		return -EINVAL;
	}
	if (arguments->command == WEIR_AGENT_STATS &&
		(arguments->address_count > 0 || arguments->source_count > 0 || arguments->stats ||
			arguments->detach || arguments->mode != WEIR_AGENT_MODE_ANY)) {
		snprintf(why, bytes, "stats takes --json and no other option");
		return -EINVAL;
	}
	if (arguments->command == WEIR_AGENT_DECAP && arguments->json) {
		snprintf(why, bytes, "--json is an option of stats");
		return -EINVAL;
	}
	return 0;
}

int weir_agent_arguments_parse(
	int argc, char **argv, struct weir_agent_arguments *ret, char *why, size_t why_bytes) {
	static const struct option options[] = {
		{"interface", required_argument, NULL, 'i'},
		{"address", required_argument, NULL, 'a'},
		{"from", required_argument, NULL, 'f'},
		{"mode", required_argument, NULL, 'm'},
		{"detach", no_argument, NULL, 'd'},
		{"stats", no_argument, NULL, 's'},
		{"json", no_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'},
		{"version", no_argument, NULL, 'v'},
		{NULL, 0, NULL, 0},
	};
	struct weir_agent_arguments arguments = {0};
	int option, error = 0;

	optind = 0; // glibc: start anew
	opterr = 0;
	while (!error && (option = getopt_long(argc, argv, ":i:", options, NULL)) != -1) {
		error = take_option(option, argv, &arguments, why, why_bytes);
	}
	if (!error && !arguments.help && !arguments.version) {
		error = set_command(
			&arguments, optind < argc ? argv[optind++] : NULL, why, why_bytes);
		for (; !error && optind < argc; optind++) {
			error = set_interface(&arguments, argv[optind], why, why_bytes);
		}
		error = error ? error : check(&arguments, why, why_bytes);
	}
	if (!error) {
		*ret = arguments;
	}
	return error;
}
