// SPDX-License-Identifier: BSD-3-Clause
//
// DNS probe: sends one query over UDP. The answer must have the expected response code and, if the
// check has an address, a record with this address. The address is not required in a truncated
// answer. Datagrams that do not answer the query are ignored.
//
// Threads: only the event loop's thread.
#pragma once

#include "health_datagram.h"

// Starts a probe. Returns 0, or negative errno; `done` is then not called.
int weir_health_dns_start(
	uv_loop_t *loop, const struct weir_probe_params *params, struct weir_health_datagram **ret);
