// SPDX-License-Identifier: BSD-3-Clause
//
// Creates the results of service.show, backend.show and port.show, also for stats.show and
// metrics.show. An argument that is a name limits the result to the objects with this name; NULL =
// no limit.
#pragma once

#include <jansson.h>
#include <stdint.h>

#include "api.h"
#include "link_state.h"
#include "shares.h"

struct weir_config_service;
struct weir_daemon;
struct weir_flow_steals;

// Computes the shares of the backends of a service. service: id, or WEIR_SHARES_ALL. Returns the
// result of weir_shares_create.
int weir_api_shares(const struct weir_daemon *daemon, uint32_t service, struct weir_shares **ret);

// Returns a percentage with two decimals, or with more decimals so that there are at least three
// significant digits: with 10,000 backends, each backend of a service has a share of only 0.01 %.
json_t *weir_json_percent(double value);
// Returns null for a negative value, else as weir_json_percent.
json_t *weir_json_percent_or_null(double value);

// Writes for how many new flows of the last minute every backend of the service was at its limit,
// how many of them were rejected, how many spilled, and what happens to such flows now. "" if there
// were none. Returns text.
#define WEIR_API_LIMITED_BYTES 224
const char *weir_api_limited_text(const struct weir_daemon *daemon,
	const struct weir_service_state *service, char text[WEIR_API_LIMITED_BYTES]);

// Lists the binds of a service as text.
json_t *weir_json_binds(const struct weir_config_service *service);

// Prepares the rows of service.show. Returns 0 or -ENOMEM.
int weir_api_service_rows(struct weir_daemon *daemon, struct weir_api_rows *ret);
// Prepares the rows of backend.show. service: only backends of this service; NULL = all; must
// outlive the rows. Returns 0 or -ENOMEM.
int weir_api_backend_rows(
	struct weir_daemon *daemon, const char *service, struct weir_api_rows *ret);

// Returns for how many milliseconds the binds of a removed service will still refuse packets. They
// refuse packets for some time after the deadline of the service's drain, and the backends stay in
// the tables during this time. Returns null if the backend does not belong to a removed service, or
// if the service still drains.
json_t *weir_json_binds_refuse(
	const struct weir_daemon *daemon, const struct weir_backend_state *state);
// Returns the progress of the drain of a backend as JSON, or null if there is no drain.
json_t *weir_json_drain(const struct weir_daemon *daemon, const struct weir_backend_state *state);

// Lists the ports of the attached dataplane, with all extended statistics above 0. name: only the
// port with this name; NULL = all ports.
json_t *weir_api_ports(const struct weir_daemon *daemon, const char *name);

// Returns a worker in the format of worker.show. drops: also add the worker's drops, as {reason:
// n}.
json_t *weir_json_worker_row(const struct weir_daemon *daemon, uint32_t worker, bool drops);
json_t *weir_json_segment(const struct weir_daemon *daemon);
json_t *weir_json_agents(const struct weir_daemon *daemon);
// Returns the member `services` of flow.steals: an array. service: only this service; NULL = all.
json_t *weir_json_flow_steals(const struct weir_flow_steals *steals, const char *service);

// Return the name of a state: enum weir_admin_state, enum weir_flow_state or enum
// weir_health_state; "unknown" if the value is out of range.
const char *weir_api_admin_name(uint8_t state);
const char *weir_api_flow_state_name(uint8_t state);
const char *weir_api_health_name(uint8_t state);
// Returns whether a service is up (quorums.h): a boolean, or null if that is not decided yet.
json_t *weir_json_up(const struct weir_daemon *daemon, uint16_t service);
