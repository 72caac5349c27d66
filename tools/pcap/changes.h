// SPDX-License-Identifier: BSD-3-Clause
//
// Changes: checks all changes that the command line requests. The check is made before the first
// packet, because otherwise a change could fail in the middle of a capture. Called by offline.c.
//
// Threads: one.
#pragma once

#include "config.h"
#include "options.h"

// Reads the configuration of each --reload into ret, at the index of its change. Does not change
// other elements of ret. Checks that a reload can change `running` to each configuration. Checks
// that each backend of the other changes is in `running` or in one of the configurations. why gets
// one line. Returns 0, or a negative errno; the caller frees the elements of ret in both cases.
int weir_pcap_changes_read(const struct weir_config *running,
	const struct weir_pcap_options *options, struct weir_config *ret[WEIR_PCAP_CHANGES_MAX],
	char *why, size_t why_bytes);
