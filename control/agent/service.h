// SPDX-License-Identifier: BSD-3-Clause
//
// Service: `weir-agent run`. Answers the balancers' probes, announces the backend's state to the
// balancers, measures the requested values, and executes the commands of weir-agent on this host:
//
//   resources      the helper processes, sockets, files and keys that need the initial privileges
//   probes         the balancers' datagrams, and the answers
//   announcement   the announced state, its notices, and the drain; saved_state restores the
//                  state after a crash
//   load           the measured values; meter_demand loads the meter on demand
//   capacity       the measured speed of the CPUs; capacity_demand measures it on demand
//   steal_answers  whether a flow can be moved to another backend
//   shed           ends connections when a balancer requests this
//   commands       status, lame-duck, ready; local_socket receives them
//
// Threads: one, the event loop's. The ORCA poll also uses a worker thread of libuv, and
// capacity_demand measures in a thread.
#pragma once

#include "log_limit.h"
#include "options.h"

// Run `weir-agent run` from start to end. Returns the exit status.
int weir_service_run(const struct weir_agent_options *options, struct weir_log *log,
	struct weir_log_limit *limit);
