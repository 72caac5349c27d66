// SPDX-License-Identifier: BSD-3-Clause
//
// The results of service.show, backend.show and port.show, also used by stats.show. A name as an
// argument limits the result to the objects of this name; NULL = no limit.
#pragma once

#include <jansson.h>
#include <stdint.h>

#include "api.h"
#include "link_state.h"
#include "shares.h"

struct weir_config_service;
struct weir_daemon;
struct weir_flow_steals;

// Computes the shares of the backends of one service, or of all services, like weir_shares_create.
int weir_api_shares(const struct weir_daemon *daemon, uint32_t service, struct weir_shares **ret);

// Formats a share in percent with two decimals, and with at least three significant digits. With
// 10,000 backends, each backend of a service has a share of only 0.01 %.
json_t *weir_json_percent(double value);

// Lists the binds of a service as text.
json_t *weir_json_binds(const struct weir_config_service *service);

// Prepares the rows of service.show. Returns 0 or -ENOMEM.
int weir_api_service_rows(struct weir_daemon *daemon, struct weir_api_rows *ret);
// Prepares the rows of backend.show. Returns 0 or -ENOMEM. `service` must live as long as the rows.
int weir_api_backend_rows(
	struct weir_daemon *daemon, const char *service, struct weir_api_rows *ret);

// For a backend of a removed service: returns how long the binds of the service will still refuse
// packets, in milliseconds. The binds refuse packets for some time after the deadline of the
// service's drain, and the backends stay in the tables during this time. Returns null for other
// backends.
json_t *weir_json_binds_refuse(
	const struct weir_daemon *daemon, const struct weir_backend_state *state);
// Describes the progress of the drain of a backend. Returns null if there is no drain.
json_t *weir_json_drain(const struct weir_daemon *daemon, const struct weir_backend_state *state);

// Lists the ports of the attached dataplane, with all extended statistics above 0. name: only the
// port with this name; NULL = all ports.
json_t *weir_api_ports(const struct weir_daemon *daemon, const char *name);

// Describes a worker as worker.show does. drops: also add the worker's drops, as {reason: n}.
json_t *weir_json_worker_row(const struct weir_daemon *daemon, uint32_t worker, bool drops);
json_t *weir_json_segment(const struct weir_daemon *daemon);
json_t *weir_json_agents(const struct weir_daemon *daemon);
// Returns the array `services` of flow.steals.
json_t *weir_json_flow_steals(const struct weir_flow_steals *steals, const char *service);

// Names of enum weir_admin_state, enum weir_flow_state and enum weir_health_state; "unknown" if out
// of range.
const char *weir_api_admin_name(uint8_t state);
const char *weir_api_flow_state_name(uint8_t state);
const char *weir_api_health_name(uint8_t state);
// Returns whether a service is up (quorums.h): a boolean, or null if that is not decided yet.
json_t *weir_json_up(const struct weir_daemon *daemon, uint16_t service);
