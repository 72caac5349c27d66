// SPDX-License-Identifier: BSD-3-Clause
//
// The order of services and backends in lists: that of the configuration file, so that a reload
// moves a row only if the file does. Ids would not do: a backend that a reload adds has the next
// free one.
//
// Threads: one, that of the loop.
#pragma once

#include <stdint.h>

struct weir_daemon;

struct weir_api_order {
	uint32_t count;
	uint16_t ids[];
};

// All backends of the tables (there are some tables): services as in the file, with their backends
// as in the file, and after these the ones that leave; services that leave are the last. The caller
// frees it. NULL = out of memory.
struct weir_api_order *weir_api_order(const struct weir_daemon *daemon);
// Likewise the services of the configuration; WEIR_SERVICE_NONE for one that is not in the tables.
struct weir_api_order *weir_api_service_order(const struct weir_daemon *daemon);
