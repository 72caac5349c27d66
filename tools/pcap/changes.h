// SPDX-License-Identifier: BSD-3-Clause
//
// Changes: checks the changes of the command line before the first packet, so that no change fails
// in the middle of a capture. Called by offline.c.
//
// Threads: one.
#pragma once

#include "config.h"
#include "options.h"

// Read the configurations of --reload into ret, each at the index of its change; other elements are
// unchanged. A reload must be able to change `running` to each of them, and each backend named by
// another change must be in one of them, or in `running`. why gets one line. Returns 0, or a
// negative errno; the caller frees the elements of ret in both cases.
int weir_pcap_changes_read(const struct weir_config *running,
	const struct weir_pcap_options *options, struct weir_config *ret[WEIR_PCAP_CHANGES_MAX],
	char *why, size_t why_bytes);
