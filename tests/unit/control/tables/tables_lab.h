// SPDX-License-Identifier: BSD-3-Clause
//
// A segment, a table owner and one worker's reader in one process, for the tests of control/tables.
// The segment is mapped twice, for the dataplane and for control. The reader is worker 0. The
// reader processes the update log whenever a test reads its state. The reader reports a quiescent
// state only when the test requests it, so that the test can check each step of a removal.
#pragma once

#include "reader.h"
#include "tables.h"
#include "test.h"

#define LAB_WORKERS 2
#define LAB_TABLE_SIZE 251

struct lab {
	struct weir_segment *segment; // mapping of the dataplane, through which it writes counters
	struct weir_segment *control; // mapping of control, through which it writes tables
	struct weir_tables *tables;
	struct weir_reader reader;
	struct weir_backend_row *rows; // [max_backends] rows loaded by the reader
};

struct lab_room { // a value of zero means a sufficiently large default
	uint32_t workers;
	uint32_t max_services;
	uint32_t max_backends;
	uint64_t heap_bytes;
	enum weir_bucketing bucketing;
};

struct weir_segment *lab_segment(const struct lab_room *room);
// returns control's mapping of the segment
struct weir_segment *lab_attach(const struct weir_segment *segment);
// Worker 0 of lab->segment goes online and offline.
void lab_worker_start(struct lab *lab);
void lab_worker_stop(struct lab *lab);
void lab_open(struct lab *lab, const struct lab_room *room);
void lab_close(struct lab *lab);
// Simulate a restart of control: discard its state, and open the tables of the segment again.
void lab_restart(struct lab *lab);

// Worker 0 loads all publications, and finishes a burst.
void lab_quiescent(struct lab *lab);
// Return the tables that the worker uses now.
const struct weir_services_view *lab_services(struct lab *lab);
const struct weir_selection_view *lab_selection(struct lab *lab, uint16_t service);
// Returns the selection of a service that this worker would use if it started now.
struct weir_policy_table lab_table_of(const struct lab *lab, uint16_t service, uint32_t worker);
// Tick and report alternately until nothing changes.
void lab_settle(struct lab *lab);

// Returns a configuration with services s0, s1, and so on. Each has one bind (198.51.X.Y tcp 80),
// and backends b0, b1, and so on with weight 100.
struct weir_config *lab_config(uint32_t services, uint32_t backends);
struct weir_config *lab_config_copy(const struct weir_config *config);
void lab_config_free(struct weir_config *config);
void lab_remove_backend(struct weir_config *config, uint32_t service, uint32_t index);
void lab_remove_service(struct weir_config *config, uint32_t service);

void lab_apply(struct lab *lab, const struct weir_config *config);
uint16_t lab_id(const struct lab *lab, const char *service, const char *backend);
struct weir_backend_state lab_state(const struct lab *lab, uint16_t id);
// Returns the row of a backend that the worker uses now, or all zeros if there is no row.
struct weir_backend_row lab_row(struct lab *lab, uint16_t id);
// Returns how many slots of a service have this backend, in the worker's tables.
uint32_t lab_slots(struct lab *lab, uint16_t service, uint16_t backend);
// What is published, and the number of publications so far.
struct lab_published {
	weir_ref services;
	weir_ref selection[WEIR_SERVICES_MAX];
	uint64_t publications;
};
void lab_published(const struct lab *lab, struct lab_published *ret);
void lab_assert_published(const struct lab *lab, const struct lab_published *expected);
// Publish. Returns the number of published rows and blobs, without identities.
uint32_t lab_publish(struct lab *lab);
void lab_set_flows(struct lab *lab, uint32_t worker, uint16_t backend, uint64_t flows);
struct weir_next_hop lab_hop(uint8_t last);
// Set the next hop of every backend to lab_hop(1), and publish it.
void lab_resolve(struct lab *lab);
