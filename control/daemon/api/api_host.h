// SPDX-License-Identifier: BSD-3-Clause
//
// Describes the state of a host, for the audit.
//
// Threads: the thread of the loop.
#pragma once

#include "api.h"

struct weir_daemon;

// Writes how many backends of the host that a call names are in each administrative state, and the
// deadline of their drains. value: buffer of WEIR_AUDIT_VALUE_BYTES; unchanged if there is no such
// host.
void weir_api_host_describe(
	const struct weir_daemon *daemon, const struct weir_api_call *call, char *value);
