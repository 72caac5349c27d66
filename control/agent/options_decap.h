// SPDX-License-Identifier: BSD-3-Clause
//
// Addresses and forwarding modes in the options of weir-agent (options.h). Called only by
// options.c.
//
// Threads: any; no shared state.
#pragma once

#include "option.h"
#include "options.h"

extern const struct weir_option_word weir_xdp_modes[]; // values of --mode
extern const struct weir_option_word weir_forwardings[]; // values of --forwarding
extern const struct weir_option_word
	weir_decap_forwardings[]; // forwarding modes that need decapsulation

// Store a value of --address, --vip, --from or --forwarding: callbacks of type weir_option_take. An
// unknown forwarding mode is refused by weir_check_forwarding.
int weir_take_address(const struct weir_option *option, const char *value, void *options, char *why,
	size_t why_bytes);
int weir_take_vip(const struct weir_option *option, const char *value, void *options, char *why,
	size_t why_bytes);
int weir_take_source(const struct weir_option *option, const char *value, void *options, char *why,
	size_t why_bytes);
int weir_take_forwarding(const struct weir_option *option, const char *value, void *options,
	char *why, size_t why_bytes);

// Check --forwarding for the command, and --gre-key of decap. Returns 0, or -EINVAL with one line
// in why.
int weir_check_forwarding(const struct weir_agent_options *options, char *why, size_t why_bytes);
