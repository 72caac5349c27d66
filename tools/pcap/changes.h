// SPDX-License-Identifier: BSD-3-Clause
//
// Changes: checks all changes that the command line requests. The check is made before the first
// packet, so that no change fails in the middle of a capture. Called by offline.c.
//
// Threads: one.
#pragma once

#include "config.h"
#include "options.h"

// Checks all changes of the command line. Reads the configuration of each --reload into ret, at the
// index of its change; does not change other elements of ret. A reload must be able to change
// `running` to each of these configurations. The backend of each other change must be in
// the configuration that is in use at its packet. Returns 0, or a negative errno with one line in
// why. The caller frees the elements of ret in both cases.
int weir_pcap_changes_read(const struct weir_config *running,
	const struct weir_pcap_options *options, struct weir_config *ret[WEIR_PCAP_CHANGES_MAX],
	char *why, size_t why_bytes);
