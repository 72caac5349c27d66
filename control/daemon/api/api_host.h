// SPDX-License-Identifier: BSD-3-Clause
//
// The state of a host, for the audit.
//
// Threads: the thread of the loop.
#pragma once

#include "api.h"

struct weir_daemon;

// Describes the host that a call names, by the administrative states of its backends. value: buffer
// of WEIR_AUDIT_VALUE_BYTES; not changed if there is no such host.
void weir_api_host_describe(
	const struct weir_daemon *daemon, const struct weir_api_call *call, char *value);
