// SPDX-License-Identifier: BSD-3-Clause
//
// The running probe of a check: starts the probe that belongs to the type of the check.
//
// Threads: only the event loop's thread.
#pragma once

#include <uv.h>

#include "agent_check.h"
#include "health_curl.h"
#include "health_exec.h"
#include "health_probe.h"

struct weir_health_run { // zeroed: no probe is running; otherwise one member is set
	struct weir_health_stream *stream;
	struct weir_health_datagram *datagram;
	struct weir_health_ping *ping;
	struct weir_health_http *http;
	struct weir_health_exec *exec;
};

struct weir_health_run_with { // what probes use in addition to their parameters
	uv_loop_t *loop;
	struct weir_health_curl *curl;
	struct weir_health_pings *pings; // NULL = no sockets for ICMP
	struct weir_programs *programs; // NULL = programs cannot run
	struct weir_health_names names; // for type exec
	struct weir_agent_check *agent_words; // words that the backend's agent-check has received
};

// Starts the probe. Returns 0, or negative errno; `done` is then not called, and no probe is
// running. `done` must zero the struct.
int weir_health_run_start(struct weir_health_run *run, const struct weir_health_run_with *with,
	const struct weir_probe_params *params);
// Cancels the probe without calling done. Does nothing if no probe is running.
void weir_health_run_cancel(struct weir_health_run *run);

// Returns the maximum number of descriptors that a probe of the check uses, except for a short time
// (health_relay.h).
unsigned int weir_health_run_descriptors(const struct weir_config_health_check *check);
