// SPDX-License-Identifier: BSD-3-Clause
//
// Agent-check probe, like HAProxy's agent-check: connects, sends a line if one is configured, and
// reads one line. The probe passes if a complete line was received, even if the line is not valid.
// The line is converted to the report (agent_check.h).
//
// Threads: only the event loop's thread.
#pragma once

#include "agent_check.h"
#include "health_stream.h"

// Starts a probe. words: the last words that the agent has sent. The reply updates `words`, which
// must stay valid until the probe ends. Returns 0, or negative errno; `done` is then not called.
int weir_health_agent_check_start(uv_loop_t *loop, const struct weir_probe_params *params,
	struct weir_agent_check *words, struct weir_health_stream **ret);
