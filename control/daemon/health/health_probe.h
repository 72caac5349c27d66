// SPDX-License-Identifier: BSD-3-Clause
//
// Probe: one run of a health check against one backend. What health.c, health_tcp.c and
// health_http.c share.
#pragma once

#include <errno.h>
#include <stdint.h>

#include "config.h"

enum weir_probe_outcome {
	WEIR_PROBE_PASSED,
	WEIR_PROBE_FAILED,
	WEIR_PROBE_UNKNOWN, // this host could not even ask (no descriptors, no memory, ...)
};

// Called once, from the loop, unless the probe is cancelled first. The probe is gone by then.
typedef void (*weir_probe_fn)(void *context, enum weir_probe_outcome outcome, const char *detail);

struct weir_probe_params {
	struct weir_address address;
	uint16_t port; // host order
	const struct weir_config_health_check *check; // valid until the probe ends
	weir_probe_fn done;
	void *context;
};

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
		return WEIR_PROBE_UNKNOWN;
	default:
		return WEIR_PROBE_FAILED;
	}
}
