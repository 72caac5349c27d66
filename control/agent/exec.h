// SPDX-License-Identifier: BSD-3-Clause
//
// Exec: `weir-agent exec -- COMMAND`, runs a server as its child, so that SIGTERM alone is a lame
// duck without any change of the server:
//
//   SERVING   the service is ready (with --starting: once the server notifies READY=1)
//   DRAINING  from SIGTERM: lame-duck, until all balancers have acknowledged it and no connection
//   is
//             left, or until --drain-timeout
//   STOPPING  the server has got the signal
//
// All other signals go to the server at once, and a second SIGTERM during the drain. It runs as the
// server's user. Without an agent the server runs and stops all the same. As process 1 it reaps.
//
// Threads: one.
#pragma once

#include "options.h"

// Returns the exit status: the server's. Does not return if a signal has ended the server: the same
// one ends this process, except as process 1, which exits with 128 + signal.
int weir_exec_run(const struct weir_agent_options *options);

// `weir-agent announce WORD`. Returns the exit status.
int weir_announce_run(const struct weir_agent_options *options);
