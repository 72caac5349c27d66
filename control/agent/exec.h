// SPDX-License-Identifier: BSD-3-Clause
//
// Exec: `weir-agent exec -- COMMAND` runs a server as its child. On the stop signal (--stop-signal,
// by default SIGTERM), weir-agent exec first makes the service a lame duck. The server needs no
// change for this:
//
//   SERVING   the service is ready; with --starting it is starting until the server sends READY=1
//   DRAINING  after the stop signal: the service is a lame duck until all balancers have
//             acknowledged the state and no connection is left, but at least for --delay, and
//             at most for --drain-timeout or --delay, whichever is longer
//   STOPPING  the stop signal was sent to the server
//
// A second stop signal ends the drain. Other signals are sent to the server immediately, except the
// signals that exec_child.c lists. weir-agent exec runs as the user of the server. If weir-agent
// run is not running, weir-agent exec starts and stops the server without announcements. As PID 1,
// weir-agent exec reaps orphans.
//
// Threads: one.
#pragma once

#include "options.h"

// Returns the exit status of the server, or WEIR_AGENT_REFUSED if it cannot be started. If a signal
// has killed the server, this function kills the calling process with the same signal. As PID 1,
// the function returns 128 + signal instead.
int weir_exec_run(const struct weir_agent_options *options);

// Run `weir-agent announce WORD`. Returns the exit status.
int weir_announce_run(const struct weir_agent_options *options);
