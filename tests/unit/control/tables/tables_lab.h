// SPDX-License-Identifier: BSD-3-Clause
//
// A segment, a table owner and one worker's reader in one process, for the tests of
// control/tables. The reader is registered as worker 0 and reports a quiescent state only when
// the test says so, so that each step of a withdrawal can be looked at.
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "reader.h"
#include "tables.h"

#define LAB_WORKERS 2
#define LAB_TABLE_SIZE 251

struct lab {
	struct weir_segment *segment;
	struct weir_tables *tables;
	struct weir_reader reader;
};

struct lab_room { // zero: a default that is roomy enough
	uint32_t max_services;
	uint32_t max_backends;
	uint64_t heap_bytes;
};

struct weir_segment *lab_segment(const struct lab_room *room);
void lab_open(struct lab *lab, const struct lab_room *room);
void lab_close(struct lab *lab);
// Forget the control process, start another one on the same segment.
void lab_restart(struct lab *lab);

// The worker of the reader has finished a burst.
void lab_quiescent(struct lab *lab);
// Tick and report in turn until nothing moves any more.
void lab_settle(struct lab *lab);

// services s0.. with one bind each (198.51.X.Y tcp 80) and backends b0.. each, weight 100.
struct weir_config *lab_config(uint32_t services, uint32_t backends);
struct weir_config *lab_config_copy(const struct weir_config *config);
void lab_config_free(struct weir_config *config);
void lab_remove_backend(struct weir_config *config, uint32_t service, uint32_t index);
void lab_remove_service(struct weir_config *config, uint32_t service);

void lab_apply(struct lab *lab, const struct weir_config *config);
uint16_t lab_id(const struct lab *lab, const char *service, const char *backend);
struct weir_backend_state lab_state(const struct lab *lab, uint16_t id);
// The row of a backend as a worker sees it now; all zeros when it has none.
struct weir_backend_row lab_row(struct lab *lab, uint16_t id);
// How many slots of a service lead to a backend, as a worker sees it now.
uint32_t lab_slots(struct lab *lab, uint16_t service, uint16_t backend);
void lab_set_flows(struct lab *lab, uint32_t worker, uint16_t backend, uint64_t flows);
struct weir_next_hop lab_hop(uint8_t last);
