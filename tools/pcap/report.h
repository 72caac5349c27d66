// SPDX-License-Identifier: BSD-3-Clause
//
// Report: prints the action for each packet, as lines of text or as one JSON object. Called by
// main.c.
//
// Every packet is counted as exactly one of forwarded, replied, kernel and dropped.
//
// Threads: one.
#pragma once

#include <stdio.h>

#include "offline.h"

struct weir_pcap_report;

// Begin a report that is printed to `out` (borrowed). json: print one JSON object instead of lines
// of text. tables: each backend in the tables gets a total, even without packets. Returns 0,
// -ENOMEM.
int weir_pcap_report_begin(
	FILE *out, bool json, const struct weir_tables *tables, struct weir_pcap_report **ret);
// Report one packet and the action for it. Call in the order of the capture. number: number of the
// packet, from 1.
void weir_pcap_report_packet(struct weir_pcap_report *report, uint64_t number,
	const struct weir_capture_frame *frame, const struct weir_offline_result *result);
// Report the totals and, in the JSON object, the error that ended the run early (NULL = none).
// Frees the report. Returns 0, -EIO (some output could not be written).
int weir_pcap_report_end(
	struct weir_pcap_report *report, const struct weir_tables *tables, const char *error);
