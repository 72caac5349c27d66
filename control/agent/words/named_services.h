// SPDX-License-Identifier: BSD-3-Clause
//
// Named services: groups of ports of this host, such as `web=80,443,53/udp`, each with the user
// whose processes may announce its state. A port is in at most one service, so that no user can
// announce the state of another user's port. The states of all ports fit into one answer to a
// probe.
//
// Threads: any; no shared state.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "report.h"

#define WEIR_NAMED_SERVICES_MAX WEIR_PORT_WORDS_MOST // each service has a port
#define WEIR_SERVICE_NAME_BYTES 32
#define WEIR_SERVICE_USER_BYTES 64

struct weir_service_port {
	uint16_t port;
	uint8_t protocol; // IPPROTO_TCP or IPPROTO_UDP
};

struct weir_named_service {
	char name[WEIR_SERVICE_NAME_BYTES];
	char user[WEIR_SERVICE_USER_BYTES]; // name or numeric ID of the user; "" = only root
	struct weir_service_port port[WEIR_PORT_WORDS_MOST];
	uint32_t port_count;
};

struct weir_named_services {
	struct weir_named_service service[WEIR_NAMED_SERVICES_MAX];
	uint32_t count;
};

// Returns whether this is a valid name: up to 31 letters, digits, '-', '_' and '.', but not '.' or
// '-' as first character.
bool weir_service_name_is_valid(const char *name, size_t bytes);

// Parse "80", "80/tcp" or "53/udp". Returns 0 or -EINVAL.
int weir_service_port_parse(const char *text, size_t bytes, struct weir_service_port *ret);

// Add a service: NAME=PORT[,PORT]... Returns 0. On an error returns -EINVAL, leaves services
// unchanged, and writes the rest of an error message into why. The caller writes the value in front
// of this text.
int weir_named_services_add(
	struct weir_named_services *services, const char *value, char *why, size_t why_bytes);

// Set the user who may announce for an existing service: USER=NAME. Return values: see
// weir_named_services_add.
int weir_named_services_allow(
	struct weir_named_services *services, const char *value, char *why, size_t why_bytes);
