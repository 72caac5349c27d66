// SPDX-License-Identifier: BSD-3-Clause
//
// The state of a host, for the audit.
//
// Threads: one, that of the loop.
#pragma once

#include "api.h"

struct weir_daemon;

// The administrative states of the backends of the host that a call names, in
// WEIR_AUDIT_VALUE_BYTES. Leaves value alone if there is no such host.
void weir_api_host_describe(
	const struct weir_daemon *daemon, const struct weir_api_call *call, char *value);
