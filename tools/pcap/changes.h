// SPDX-License-Identifier: BSD-3-Clause
//
// Changes: checks the changes of the command line before the first packet, so that none fails in
// the middle of a capture. Called by offline.c.
//
// Threads: one.
#pragma once

#include "config.h"
#include "options.h"

// Read the configurations of --reload into ret, at the place of their change; the other places stay
// as they are. Each must be one that a reload can change `running` to, and each backend that
// another change names must be in one of them, or in `running`. why gets one line. Returns 0, or a
// negative errno; the caller frees what is in ret in either case.
int weir_pcap_changes_read(const struct weir_config *running,
	const struct weir_pcap_options *options, struct weir_config *ret[WEIR_PCAP_CHANGES_MAX],
	char *why, size_t why_bytes);
