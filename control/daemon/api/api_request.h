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
// Returns an integer argument. fallback: value to return if the request does not have the argument,
// or if the argument is null.
json_int_t weir_api_integer(
	const struct weir_api_call *call, const char *name, json_int_t fallback);

// Find the service that the argument `service` names. The call must have this argument, and the
// tables must exist. Returns its id. On an error, fails the call and returns a negative number.
int weir_api_find_service(struct weir_daemon *daemon, struct weir_api_call *call);
// Find the backend that the argument `backend`, and optionally `service`, names. The call must have
// the argument `backend`, and the tables must exist. Returns its id. On an error, also if several
// backends have this name or the backend was removed, fails the call and returns a negative number.
int weir_api_find_backend(struct weir_daemon *daemon, struct weir_api_call *call);
// Like weir_api_find_backend. If there is no such backend, finds a removed one that the tables
// still have, as weir_api_find_removed_backend does.
int weir_api_find_any_backend(struct weir_daemon *daemon, struct weir_api_call *call);
// Finds a removed backend that the tables still have. service: NULL = of any service. If several
// have this name, the only one with flows. The tables must exist. Returns its id, -ENOENT (none) or
// -EEXIST (several; fails the call).
int weir_api_find_removed_backend(struct weir_daemon *daemon, struct weir_api_call *call,
	const char *service, const char *name);
// Fails the call because no service has a backend of this name. many: the command also accepts
// "SERVICE/" for all backends of a service, which the message then mentions.
void weir_api_no_backend(
	const struct weir_daemon *daemon, struct weir_api_call *call, const char *name, bool many);
// Finds the backend that the arguments `backend` and `service` name, and does not fail the call.
// Returns its id, -ENOENT (no backend of this name, no argument `backend`, or no tables) or -EEXIST
// (several services have a backend of this name).
int weir_api_peek_backend(const struct weir_daemon *daemon, const struct weir_api_call *call);
// Returns whether the tables exist; they exist after a dataplane was attached. If they do not
// exist, fails the call and returns false.
bool weir_api_has_tables(const struct weir_daemon *daemon, struct weir_api_call *call);
// Returns whether a dataplane is attached now. If no dataplane is attached, fails the call and
// returns false.
bool weir_api_has_dataplane(const struct weir_daemon *daemon, struct weir_api_call *call);

// Parse "ADDRESS" or "ADDRESS/BITS". An IPv4-mapped address with more than 96 bits is converted to
// IPv4. Returns false if text is not valid.
bool weir_api_parse_prefix(const char *text, struct weir_address *ret, uint8_t *ret_bits);
// Parses "ADDRESS" without "/BITS". An IPv4-mapped address is converted to IPv4.
bool weir_api_parse_address(const char *text, struct weir_address *ret);

// Publishes all changes. If a dataplane is attached, and publishing fails, the answer to the call
// will contain the reason.
void weir_api_publish_now(struct weir_daemon *daemon, struct weir_api_call *call);

#define WEIR_API_WHY_BYTES 480 // for a text that explains the answer to a lookup

// Fails the call because a lookup could not start or be completed (flow_lookup.h). error:
// -ENOTCONN, -EBUSY, -ETIMEDOUT or -ENOMEM.
void weir_api_fail_lookup(struct weir_api_call *call, int error);
// Fails the call because a list of flows or of affinity entries could not start or be completed
// (flow_lists.h). error: -ENOTCONN, -EBUSY, -ETIMEDOUT or -ENOMEM.
void weir_api_fail_list(struct weir_api_call *call, int error);
