// SPDX-License-Identifier: BSD-3-Clause
//
// TCP statistics of backends, for backend.show and metrics.show.
//
// Threads: the thread of the loop.
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct weir_daemon;

// Returns the TCP statistics of a backend: {"age_ms", "partial", "ipv4", "ipv6"}; null if they are
// not requested from the backend's agent. All members are null if there are no statistics yet, or
// if the last statistics are too old. ipv4 or ipv6 is null if there was no connection of this
// family.
json_t *weir_json_tcp(const struct weir_daemon *daemon, uint16_t backend);

// Names of the columns of TCP rows in metrics.show. There is a row for each backend and each
// address family for which the backend had connections.
extern const char *const weir_api_tcp_columns[];
extern const uint32_t weir_api_tcp_column_count;
// Returns a TCP row; NULL if the backend has no statistics for the address family.
json_t *weir_json_tcp_row(const struct weir_daemon *daemon, uint16_t backend, bool ipv6);
