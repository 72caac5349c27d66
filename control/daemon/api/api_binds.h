// SPDX-License-Identifier: BSD-3-Clause
//
// Describes drained and removed binds, for the audit and for service.show.
//
// Threads: the thread of the loop.
#pragma once

#include <jansson.h>

#include "api.h"

struct weir_config_service;
struct weir_daemon;
struct weir_service_state;

// Writes which binds a call names (object: buffer of WEIR_AUDIT_OBJECT_BYTES), and the state of
// these binds (value: buffer of WEIR_AUDIT_VALUE_BYTES; unchanged if there are no tables, or the
// arguments are not valid or name no service).
void weir_api_binds_describe(const struct weir_daemon *daemon, const struct weir_api_call *call,
	char *object, char *value);
// Lists the drained binds of a service as text.
json_t *weir_json_drained_binds(
	const struct weir_daemon *daemon, const struct weir_config_service *service, uint16_t id);
// Lists, as text, the removed binds of a service that are still in the service table. count: their
// number.
json_t *weir_json_removed_binds(const struct weir_daemon *daemon, uint16_t id, uint32_t count);
// Writes what happens to the flows of a removed service, or of a service's removed binds, for
// example "new flows are refused for another 41.2s, open connections continue". Returns buffer.
#define WEIR_REMOVAL_TEXT_BYTES 128
const char *weir_removal_text(
	const struct weir_service_state *state, char buffer[WEIR_REMOVAL_TEXT_BYTES]);
