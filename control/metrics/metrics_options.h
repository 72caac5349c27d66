// SPDX-License-Identifier: BSD-3-Clause
//
// Parses the command line of weir-metrics.
//
// Threads: main.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

#include "log.h"

#define WEIR_METRICS_LISTEN_DEFAULT "127.0.0.1:9479"
#define WEIR_METRICS_HOSTS_MAX 16
#define WEIR_METRICS_USER_DEFAULT "weir-metrics" // if this user exists

struct weir_metrics_listen {
	struct sockaddr_storage address;
	socklen_t bytes;
};

struct weir_metrics_options {
	const char *run_dir, *user, *group;
	const char *state_dir; // NULL = none
	const char *listen_text;
	struct weir_metrics_listen listen;
	const char *hosts[WEIR_METRICS_HOSTS_MAX];
	unsigned int host_count;
	unsigned int timeout_ms;
	bool ipvs_names;
	bool families, help, version;
	enum weir_log_level log_level;
	enum weir_log_format log_format;
};

// Parse the command line. Returns 0, or -EINVAL with one line in why.
int weir_metrics_options_parse(
	int argc, char **argv, struct weir_metrics_options *ret, char *why, size_t why_bytes);
const char *weir_metrics_help(char *buffer, size_t bytes);
