// SPDX-License-Identifier: BSD-3-Clause
//
// TCP figures of backends, for backend.show and metrics.show.
//
// Threads: one, that of the loop.
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct weir_daemon;

// {"age_ms", "partial", "ipv4", "ipv6"}; null: not requested from the backend's agent. age_ms is
// null if there are none, a family is null if it had no connection.
json_t *weir_json_tcp(const struct weir_daemon *daemon, uint16_t backend);

// Of the backends of metrics.show, one row for each family that had a connection.
extern const char *const weir_api_tcp_columns[];
extern const uint32_t weir_api_tcp_column_count;
// Returns NULL if there are none.
json_t *weir_json_tcp_row(const struct weir_daemon *daemon, uint16_t backend, bool ipv6);
