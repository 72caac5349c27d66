// SPDX-License-Identifier: BSD-3-Clause
//
// Probe: one run of a health check against one backend. Shared by health_check.c and all types of
// probes.
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
	// this host could not run the probe: no file descriptors, no memory, ...
	WEIR_PROBE_UNKNOWN,
};

// Called once, from the loop, when a probe has ended; not called if the probe was cancelled. The
// probe must not be used any more. detail, report: valid during the call. report: the report
// in the backend's answer; NULL = none.
typedef void (*weir_probe_fn)(void *context, enum weir_probe_outcome outcome, const char *detail,
	const struct weir_report *report);

struct weir_probe_params {
	struct weir_address address; // address to connect to
	uint16_t port; // host order
	// Connection via the data path, whose socket the probe must use; NULL = the probe creates a
	// socket.
	struct weir_data_path_flow *flow;
	const struct weir_config_health_check *check; // valid until the probe ends
	weir_probe_fn done;
	void *context;
};

// Deadline of a probe. If the loop was busy with other work at the deadline, an answer may have
// arrived without being read. So the deadline is extended once, by the time for which the loop was
// busy, but by at most the timeout of the check.
struct weir_probe_deadline {
	uint64_t due_ms; // loop time
	bool extended;
};

// Sets the deadline of a probe that starts now. Returns the time until the deadline.
static inline uint64_t weir_probe_deadline_init(struct weir_probe_deadline *deadline,
	const uv_loop_t *loop, const struct weir_config_health_check *check) {
	*deadline = (struct weir_probe_deadline){.due_ms = uv_now(loop) + check->timeout_ms};
	return check->timeout_ms;
}

// Call at the deadline. Returns the time by which the deadline is extended; 0 = timed out.
static inline uint64_t weir_probe_deadline_extend(struct weir_probe_deadline *deadline,
	const uv_loop_t *loop, const struct weir_config_health_check *check) {
	uint64_t late_ms = uv_now(loop) - deadline->due_ms;

	if (late_ms == 0 || deadline->extended) {
		return 0;
	}
	deadline->extended = true;
	return late_ms < check->timeout_ms ? late_ms : check->timeout_ms;
}

// Returns the outcome of a failure with this (negative) errno: UNKNOWN if this host, not the
// backend, causes the failure.
static inline enum weir_probe_outcome weir_probe_outcome_of(int error) {
	switch (-error) {
	case EMFILE:
	case ENFILE:
	case ENOMEM:
	case ENOBUFS:
	case EAGAIN: // the send buffer of the socket is full
	case EADDRNOTAVAIL: // this host has no free local port
	case EAFNOSUPPORT: // IPv6 is disabled on this host
	case EPROTONOSUPPORT: // packet sockets are not allowed
	case ENOLINK: // the link of the backend is not known yet
	case ENONET: // this host has no address of the VIP's family
	case EPERM: // a packet filter of this host dropped the packet
	case EACCES:
	case ENODEV: // the device of the data path was removed
		return WEIR_PROBE_UNKNOWN;
	default:
		return WEIR_PROBE_FAILED;
	}
}
