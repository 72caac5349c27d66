// SPDX-License-Identifier: BSD-3-Clause
//
// The order of services and backends in lists is the order of the configuration file, so that a
// reload moves a row only if the file moves the service or backend. The order of ids would not do:
// a new backend gets any free id.
//
// Threads: the thread of the loop.
#pragma once

#include <stdint.h>

struct weir_daemon;

struct weir_api_order {
	uint32_t count;
	uint16_t ids[];
};

// The ordered ids of all backends of the tables, which must exist: services as in the file; in each
// service, backends as in the file, then removed backends; removed services last. The caller frees
// the result. NULL = out of memory.
struct weir_api_order *weir_api_order(const struct weir_daemon *daemon);
// The ordered ids of the configured services; WEIR_SERVICE_NONE for a service that is not in the
// tables. The caller frees the result. NULL = out of memory.
struct weir_api_order *weir_api_service_order(const struct weir_daemon *daemon);
