// SPDX-License-Identifier: BSD-3-Clause
// Functions for the handlers of API requests. They read arguments, find the services and backends
// that arguments name, and check preconditions. The types of arguments were checked before, against
// the table of commands.
//
// Threads: the thread of the loop.
#pragma once

#include "api.h"

struct weir_address;
struct weir_daemon;

// Returns a string argument, or NULL if the request does not have it.
const char *weir_api_text(const struct weir_api_call *call, const char *name);
// Returns an integer argument, or fallback if the request does not have the argument or its value
// is null.
json_int_t weir_api_integer(
	const struct weir_api_call *call, const char *name, json_int_t fallback);

// Find the service named by `service`. Returns its id. On an error, fails the call and returns a
// negative number.
int weir_api_find_service(struct weir_daemon *daemon, struct weir_api_call *call);
// Find the one backend named by `backend` and optionally `service`. Returns its id. On an error,
// fails the call and returns a negative number.
int weir_api_find_backend(struct weir_daemon *daemon, struct weir_api_call *call);
// Fails the call because no service has a backend of this name. many: the command also takes all
// backends of a service.
void weir_api_no_backend(
	const struct weir_daemon *daemon, struct weir_api_call *call, const char *name, bool many);
// Finds a backend like weir_api_find_backend, but does not fail the call. Returns the id, or a
// negative number if there is no such backend, or if there are several.
int weir_api_peek_backend(const struct weir_daemon *daemon, const struct weir_api_call *call);
// Returns whether there are tables. If not, fails the call and returns false. There are tables once
// a dataplane has been attached.
bool weir_api_has_tables(const struct weir_daemon *daemon, struct weir_api_call *call);
// Returns whether a dataplane is attached now. If not, fails the call and returns false.
bool weir_api_has_dataplane(const struct weir_daemon *daemon, struct weir_api_call *call);

// Parse "ADDRESS" or "ADDRESS/BITS". An IPv4-mapped address is converted to IPv4. Returns false if
// text is neither.
bool weir_api_parse_prefix(const char *text, struct weir_address *ret, uint8_t *ret_bits);

// Publish a change. If the change cannot be published yet, the answer reports the reason.
void weir_api_publish_now(struct weir_daemon *daemon, struct weir_api_call *call);
