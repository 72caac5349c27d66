// SPDX-License-Identifier: BSD-3-Clause
//
// Capacity of a backend, in GCU (docs/reference/agent.md): the number of CPUs that the backend
// reports, multiplied by the speed of a CPU. The speed of a CPU is the first of these that is
// known: the speed of its model in the table of the configuration, the speed that the host has
// measured, the frequency divided by 3 GHz.
//
// Threads: any; a table is immutable.
#pragma once

#include <stdint.h>

#include "config.h"
#include "report.h"

// X(NAME, "name in JSON")
#define WEIR_CAPACITY_SOURCES(X) \
	X(NONE, "none") \
	X(TABLE, "table") \
	X(MEASURED, "measured") \
	X(FREQUENCY, "frequency")

enum weir_capacity_source {
#define X(name, text) WEIR_CAPACITY_FROM_##name,
	WEIR_CAPACITY_SOURCES(X)
#undef X
};

struct weir_host_cpus { // as reported by the host; 0 = unknown
	double cpus; // usable CPUs
	double mhz, gcu; // frequency and speed of one CPU
	uint32_t model; // weir_cpu_model_number
};

struct weir_capacity {
	enum weir_capacity_source source;
	double cpus, gcu; // gcu: speed of one CPU
	char cpu[48]; // name of the CPU model, if source is TABLE
};

struct weir_capacity_table;

// Copy the table of CPU speeds of a configuration. Returns 0 or -ENOMEM.
int weir_capacity_table_create(const struct weir_config *config, struct weir_capacity_table **ret);
void weir_capacity_table_free(struct weir_capacity_table *table); // NULL is allowed

struct weir_host_cpus weir_host_cpus_of(const struct weir_report *report);

// Returns source NONE if the number of CPUs or their speed is not known. table: NULL = empty table.
struct weir_capacity weir_capacity_of(
	const struct weir_capacity_table *table, const struct weir_host_cpus *host);

// Returns the automatic weight: GCU times 30, from 1 to 65535; 0 if source is NONE.
uint32_t weir_capacity_weight(const struct weir_capacity *capacity);

const char *weir_capacity_source_name(enum weir_capacity_source source);
