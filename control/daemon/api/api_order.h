// SPDX-License-Identifier: BSD-3-Clause
//
// The order of services and backends in lists: the order of the configuration file, so that a
// reload moves a row only if the file moves the service or backend. The order of ids would differ,
// because a new backend gets any free id.
//
// Threads: the thread of the loop.
#pragma once

#include <stdint.h>

struct weir_daemon;

struct weir_api_order {
	uint32_t count;
	uint16_t ids[];
};

// Returns the ids of all backends of the tables, in the order of lists; the tables must exist. The
// services, and the backends of each service, are in the order of the file. Removed backends follow
// the configured backends of their service, and removed services come last. The caller frees the
// result. NULL = out of memory.
struct weir_api_order *weir_api_order(const struct weir_daemon *daemon);
// Returns the ids of the configured services, in the order of lists. A service that is not in the
// tables has the id WEIR_SERVICE_NONE. The caller frees the result. NULL = out of memory.
struct weir_api_order *weir_api_service_order(const struct weir_daemon *daemon);
