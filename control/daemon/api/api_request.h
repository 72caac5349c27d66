// SPDX-License-Identifier: BSD-3-Clause
//
// API requests, for their handlers: arguments, already checked against the table of commands; the
// services and backends that they name; preconditions of requests.
//
// Threads: one, that of the loop.
#pragma once

#include "api.h"

struct weir_address;
struct weir_daemon;

// NULL when it was not given.
const char *weir_api_text(const struct weir_api_call *call, const char *name);
// fallback when it was not given or is null.
json_int_t weir_api_integer(
	const struct weir_api_call *call, const char *name, json_int_t fallback);

// The service that `service` names. Returns its id, or a negative number after the call was
// failed.
int weir_api_find_service(struct weir_daemon *daemon, struct weir_api_call *call);
// The one backend that `backend` and perhaps `service` name. Returns its id, or a negative number
// after the call was failed.
int weir_api_find_backend(struct weir_daemon *daemon, struct weir_api_call *call);
// Fail the call: no service has a backend of the name.
void weir_api_no_backend(
	const struct weir_daemon *daemon, struct weir_api_call *call, const char *name);
// The same as weir_api_find_backend without a word to the client. Negative: there is none, or there
// are several.
int weir_api_peek_backend(const struct weir_daemon *daemon, const struct weir_api_call *call);
// Whether tables exist, that is, a dataplane is or was attached. Returns false after the call was
// failed.
bool weir_api_has_tables(const struct weir_daemon *daemon, struct weir_api_call *call);
// Whether a dataplane is attached now. Returns false after the call was failed.
bool weir_api_has_dataplane(const struct weir_daemon *daemon, struct weir_api_call *call);
// Whether that dataplane can list and delete flows. Returns false after the call was failed.
bool weir_api_lists_flows(const struct weir_daemon *daemon, struct weir_api_call *call);

// "ADDRESS" or "ADDRESS/BITS". An IPv4-mapped one becomes that of IPv4. Returns false when it is
// neither.
bool weir_api_parse_prefix(const char *text, struct weir_address *ret, uint8_t *ret_bits);

// Publish a change that was just made; the answer reports when that cannot be done yet.
void weir_api_publish_now(struct weir_daemon *daemon, struct weir_api_call *call);
