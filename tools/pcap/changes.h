// SPDX-License-Identifier: BSD-3-Clause
//
// Changes: checks the changes that the command line requests before the first packet. Otherwise a
// change could fail in the middle of a capture. Called by offline.c.
//
// Threads: one.
#pragma once

#include "config.h"
#include "options.h"

// Read the configurations of --reload into ret, at the indexes of their changes; other elements are
// unchanged. Checks that a reload can change `running` to each configuration, and that each backend
// of the other changes is in `running` or in one of the configurations. why gets one line. Returns
// 0, or a negative errno; the caller frees the elements of ret in both cases.
int weir_pcap_changes_read(const struct weir_config *running,
	const struct weir_pcap_options *options, struct weir_config *ret[WEIR_PCAP_CHANGES_MAX],
	char *why, size_t why_bytes);
