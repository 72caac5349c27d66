// SPDX-License-Identifier: BSD-3-Clause
//
// Probe: one run of a health check against one backend. What health.c and all kinds of probes
// share.
#pragma once

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "config.h"
#include "data_path.h"
#include "report.h"

enum weir_probe_outcome {
	WEIR_PROBE_PASSED,
	WEIR_PROBE_FAILED,
	WEIR_PROBE_UNKNOWN, // this host could not even ask (no descriptors, no memory, ...)
};

// Called once, from the loop, unless the probe is cancelled first. The probe is gone by then.
// report: what the backend said of itself; NULL = nothing.
typedef void (*weir_probe_fn)(void *context, enum weir_probe_outcome outcome, const char *detail,
	const struct weir_report *report);

struct weir_probe_params {
	struct weir_address address; // to connect to
	uint16_t port; // host order
	struct weir_data_path_flow *flow; // whose socket is to be connected; NULL = one of its own
	const struct weir_config_health_check *check; // valid until the probe ends
	weir_probe_fn done;
	void *context;
};

// The time that a probe has. What the loop spent on other work when it was due does not count
// against the backend, whose answer may be waiting: once, the probe gets as much time again.
struct weir_probe_deadline {
	uint64_t due_ms; // loop time
	bool extended;
};

// Returns the time from now until it is over.
static inline uint64_t weir_probe_deadline_init(struct weir_probe_deadline *deadline,
	const uv_loop_t *loop, const struct weir_config_health_check *check) {
	*deadline = (struct weir_probe_deadline){.due_ms = uv_now(loop) + check->timeout_ms};
	return check->timeout_ms;
}

// At the deadline. Returns for how long to wait once more, 0: the time is over.
static inline uint64_t weir_probe_deadline_extend(struct weir_probe_deadline *deadline,
	const uv_loop_t *loop, const struct weir_config_health_check *check) {
	uint64_t late_ms = uv_now(loop) - deadline->due_ms;

	if (late_ms == 0 || deadline->extended) {
		return 0;
	}
	deadline->extended = true;
	return late_ms < check->timeout_ms ? late_ms : check->timeout_ms;
}

// Is a failure with this (negative) errno about this host rather than about the backend?
static inline enum weir_probe_outcome weir_probe_outcome_of(int error) {
	switch (-error) {
	case EMFILE:
	case ENFILE:
	case ENOMEM:
	case ENOBUFS:
	case EADDRNOTAVAIL: // no local port left
	case EAFNOSUPPORT: // IPv6 is switched off here
	case EPERM: // a packet filter of this host
	case EACCES:
	case ENODEV: // the device of the data path is gone
		return WEIR_PROBE_UNKNOWN;
	default:
		return WEIR_PROBE_FAILED;
	}
}
