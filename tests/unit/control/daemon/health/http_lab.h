// SPDX-License-Identifier: BSD-3-Clause
//
// Servers for probes over HTTP and HTTPS: nginx, socat and openssl, in the network namespace of the
// process. Needs root.
#pragma once

#include <string.h>

#include "probe_lab.h"

#define NGINX_PORT 8100
#define TALKER_PORT 8101 // sends data that is not HTTP
#define SILENT_PORT 8102 // sends nothing
#define CLOSER_PORT 8103 // closes each connection at once
// the certificate of web.example for this server name; an untrusted certificate for other names
#define TLS_PORT 8104
#define OLD_PORT 8105 // an expired certificate of web.example
#define ADDRESS_PORT 8106 // a certificate for the address 127.0.0.1
#define GROUP_PORT 8107 // TLS with only Diffie-Hellman in a custom group

struct lab {
	char dir[64];
	pid_t pids[5];
};

// Group set-up and tear-down: *state is a struct lab.
int http_lab_start(void **state);
int http_lab_stop(void **state);

static inline struct weir_config_health_check check_of(const char *path) {
	struct weir_config_health_check check = {
		.type = WEIR_CHECK_HTTP,
		.url.status_first = 200,
		.url.status_last = 399,
		.timeout_ms = 2000,
	};

	strcpy(check.url.path, path);
	return check;
}

static inline struct result probe(
	const char *address, uint16_t port, const struct weir_config_health_check *check) {
	return probe_curl(address, port, check, 0);
}

static inline void expect(const char *address, uint16_t port,
	const struct weir_config_health_check *check, enum weir_probe_outcome outcome,
	const char *detail) {
	probe_expect(address, port, check, outcome, detail, check->url.path);
}
