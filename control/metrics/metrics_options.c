// SPDX-License-Identifier: BSD-3-Clause
#include "metrics_options.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon_options.h"
#include "help_text.h"

#define FIELD(member) WEIR_OPTION_FIELD(struct weir_metrics_options, member)
#define TIMEOUT_MS 5000
#define ADDRESS_BYTES 64
#define STATE_DIR_MAX 3072

// Parse an address with a port, such as "127.0.0.1:9479" or "[::1]:9479".
static int parse_listen(const char *text, struct weir_metrics_listen *ret) {
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
		.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE};
	const char *colon = strrchr(text, ':');
	size_t bytes = colon != NULL ? (size_t)(colon - text) : 0;
	unsigned long port = colon != NULL ? strtoul(colon + 1, NULL, 10) : 0;
	struct addrinfo *found;
	char address[ADDRESS_BYTES];

	if (bytes >= 2 && text[0] == '[' && text[bytes - 1] == ']') {
		text++;
		bytes -= 2;
		hints.ai_family = AF_INET6;
	} else {
		hints.ai_family = AF_INET;
	}
	if (bytes == 0 || bytes >= sizeof(address)) {
		return -EINVAL;
	}
	memcpy(address, text, bytes);
	address[bytes] = '\0';
	// getaddrinfo also accepts spaces and a sign before a port, and uses only its lower 16 bits
	if (colon[1] < '0' || colon[1] > '9' || port < 1 || port > UINT16_MAX ||
		getaddrinfo(address, colon + 1, &hints, &found) != 0) {
		return -EINVAL;
	}
	memcpy(&ret->address, found->ai_addr, found->ai_addrlen);
	ret->bytes = found->ai_addrlen;
	freeaddrinfo(found);
	return 0;
}

static int take_listen(const struct weir_option *option, const char *value, void *options,
	char *why, size_t why_bytes) {
	struct weir_metrics_options *into = options;

	(void)option;
	if (parse_listen(value, &into->listen) < 0) {
		snprintf(why, why_bytes,
			"is not an address with a port; use a value like 127.0.0.1:9479 or "
			"[::1]:9479");
		return -EINVAL;
	}
	into->listen_text = value;
	return 0;
}

static int take_host(const struct weir_option *option, const char *value, void *options, char *why,
	size_t why_bytes) {
	struct weir_metrics_options *into = options;

	(void)option;
	if (value[0] == '\0' || strchr(value, ':') != NULL) {
		snprintf(why, why_bytes, "is not a host name; use a name without a port");
		return -EINVAL;
	}
	if (into->host_count == WEIR_METRICS_HOSTS_MAX) {
		snprintf(why, why_bytes, "exceeds the maximum of %d host names",
			WEIR_METRICS_HOSTS_MAX);
		return -EINVAL;
	}
	into->hosts[into->host_count++] = value;
	return 0;
}

static const struct weir_option rows[] = {
	WEIR_OPTION_ROW(CUSTOM, "listen", "ADDRESS:PORT",
		"address and port for HTTP, without authentication or TLS: every client that can "
		"connect can read the metrics",
		.fallback = WEIR_METRICS_LISTEN_DEFAULT, .take = take_listen),
	WEIR_OPTION_ROW(CUSTOM, "host", "NAME",
		"accept requests with this host name, in addition to localhost and addresses; "
		"requests with other names are refused, so that other web sites cannot read the "
		"metrics",
		.repeatable = true, .take = take_host),
	WEIR_OPTION_ROW(FLAG, "ipvs-names", NULL,
		"add the families of node_exporter's IPVS collector (node_ipvs_...)",
		FIELD(ipvs_names)),
	WEIR_OPTION_ROW(TEXT, "run-dir", "DIR", "directory of the daemons' sockets", FIELD(run_dir),
		.fallback = WEIR_RUN_DIR_DEFAULT, .min = 1, .max = WEIR_RUN_DIR_MAX),
	WEIR_OPTION_ROW(TEXT, "state-dir", "DIR",
		"directory in which the history of the page's plots is saved; without this option, "
		"the plots are empty after a restart",
		FIELD(state_dir), .min = 1, .max = STATE_DIR_MAX),
	WEIR_OPTION_ROW(NUMBER, "timeout", "MS",
		"time to wait for a reply of weir-control, in milliseconds", FIELD(timeout_ms),
		.fallback = "5000", .min = 1, .max = 3600000),
	WEIR_OPTION_ROW(TEXT, "user", "USER",
		"user to run as; when started as root, the default is the user weir-metrics, or "
		"the user nobody if there is no such user",
		FIELD(user)),
	WEIR_OPTION_ROW(TEXT, "group", "GROUP",
		"group to run as; must have read access to weir-control; default when started "
		"as root: weir",
		FIELD(group)),
	WEIR_OPTION_ROW(FLAG, "families", NULL, "print the table of all families, and exit",
		FIELD(families)),
	{WEIR_OPTION_LOG_LEVEL, FIELD(log_level)},
	{WEIR_OPTION_LOG_FORMAT, FIELD(log_format)},
};

static const struct weir_option_list list = {.row = rows, .count = sizeof(rows) / sizeof(rows[0])};

static const struct weir_help help = {
	.usage = "weir-metrics [OPTION]...",
	.about = "Serves metrics of weir-control and weir-dataplane to Prometheus at "
		 "http://" WEIR_METRICS_LISTEN_DEFAULT "/metrics, and a page with plots at /.",
	.notes = "The program changes nothing in weir-control. It can be started, stopped and "
		 "killed at any time.\nExit status: 0 terminated by SIGTERM or SIGINT, 1 runtime "
		 "failure, 2 invalid usage.",
	.examples = "weir-metrics\n"
		    "weir-metrics --listen 192.0.2.7:9479 --host lb-0.example.net --ipvs-names",
};

const char *weir_metrics_help(char *buffer, size_t bytes) {
	return weir_help_text(&list, &help, buffer, bytes);
}

int weir_metrics_options_parse(
	int argc, char **argv, struct weir_metrics_options *ret, char *why, size_t why_bytes) {
	struct weir_metrics_options options = {.run_dir = WEIR_RUN_DIR_DEFAULT,
		.listen_text = WEIR_METRICS_LISTEN_DEFAULT,
		.timeout_ms = TIMEOUT_MS,
		.log_level = WEIR_LOG_INFO};
	struct weir_command_line line;
	int r = parse_listen(options.listen_text, &options.listen);

	if (r == 0) {
		r = weir_command_line_parse(&list, argc, argv, &options, &line, why, why_bytes);
	}
	if (r < 0) {
		return r;
	}
	options.help = line.help;
	options.version = line.version;
	*ret = options;
	return 0;
}
