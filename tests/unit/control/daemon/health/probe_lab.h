// SPDX-License-Identifier: BSD-3-Clause
//
// For tests of single probes: the result of a probe, and a loop that runs the probe.
#pragma once

#include "health_http.h"
#include "watch_lab.h"

struct result {
	int calls;
	enum weir_probe_outcome outcome;
	char detail[96];
	bool reported;
	struct weir_report report;
};

// The callback `done` of a probe. context: a struct result.
void probe_done(void *context, enum weir_probe_outcome outcome, const char *detail,
	const struct weir_report *report);
bool probe_has_result(void *context);

// Run a probe with libcurl until it has a result. When the probe has started to connect, the loop
// does other work for stall_ms.
struct result probe_curl(const char *address, uint16_t port,
	const struct weir_config_health_check *check, unsigned int stall_ms);
// Run a probe and check its result. what: name of the check, for the message.
void probe_expect(const char *address, uint16_t port, const struct weir_config_health_check *check,
	enum weir_probe_outcome outcome, const char *detail, const char *what);
