// SPDX-License-Identifier: BSD-3-Clause
//
// Exec: `weir-agent exec -- COMMAND` runs a server as its child. On SIGTERM it first makes the
// service a lame duck. The server needs no change for this:
//
//   SERVING   the service is ready (with --starting: after the server has sent READY=1)
//   DRAINING  after SIGTERM: the service is a lame duck until all balancers have acknowledged
//             the state and no connection is left, or until --drain-timeout
//   STOPPING  the signal was sent to the server
//
// Other signals, and a second SIGTERM during the drain, are sent to the server immediately.
// weir-agent exec runs as the user of the server. If weir-agent run is not running, the server is
// started and stopped without announcements. As PID 1, weir-agent exec reaps orphans.
//
// Threads: one.
#pragma once

#include "options.h"

// Returns the exit status of the server. If a signal has killed the server, this function kills the
// calling process with the same signal. As PID 1, it returns 128 + signal instead.
int weir_exec_run(const struct weir_agent_options *options);

// Run `weir-agent announce WORD`. Returns the exit status.
int weir_announce_run(const struct weir_agent_options *options);
