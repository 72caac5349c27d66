// SPDX-License-Identifier: BSD-3-Clause
//
// Ports and services in the options of weir-agent (options.h). Called only by options.c.
//
// Threads: any; no shared state.
#pragma once

#include "option.h"
#include "options.h"

// Store a value of --port, --service or --allow-user: callbacks of type weir_option_take.
int weir_take_port(const struct weir_option *option, const char *value, void *options, char *why,
	size_t why_bytes);
int weir_take_service(const struct weir_option *option, const char *value, void *options, char *why,
	size_t why_bytes);
int weir_take_allowed(const struct weir_option *option, const char *value, void *options, char *why,
	size_t why_bytes);

// Check --service and --allow-user; call this function when the command is known. For each service,
// sets the user who may announce its state. Returns 0, or -EINVAL with one line in why.
int weir_check_services(struct weir_agent_options *options, char *why, size_t why_bytes);
