// SPDX-License-Identifier: BSD-3-Clause
//
// Queue tables: updates the RSS redirection tables (RETA) of devices that spread flows (rss.h) when
// buckets move. If one worker has owned all buckets of an entry for a while, and the worker polls a
// queue of the device, a shift (shift.h) sets the entry to this queue. An entry whose buckets have
// several owners is not changed: packets of some of its buckets go through a ring.
//
// Threads: main. weir_queue_tables_turn waits for devices, and some tens of milliseconds for
// workers.
#pragma once

#include "config.h"
#include "log.h"
#include "spreading.h"

// Minimum time between the last move of an entry's buckets and the update of the entry.
#define WEIR_QUEUE_TABLES_SETTLED_NS 100000000ull
#define WEIR_QUEUE_TABLES_RETRY_NS 10000000000ull // time before a failed change is tried again
// Minimum time between two reads of a device's RETA, unless a change has failed
#define WEIR_QUEUE_TABLES_READ_NS 60000000000ull

struct weir_queue_table {
	const char *port; // name of the port, for the log
	bool failed; // the last change failed, and this was logged
	bool changed; // the last reading found an external change
	uint64_t ready_ns; // earliest time of the next change
	uint64_t read_ns; // time when the RETA was last read
	uint16_t queue[WEIR_RSS_ENTRIES_MAX]; // last known queue of each entry
	// 1 + index of the worker that owns all buckets of the entry; 0 = several workers
	uint8_t worker[WEIR_RSS_ENTRIES_MAX];
	uint64_t since_ns[WEIR_RSS_ENTRIES_MAX]; // time of the last change of `worker`
};

struct weir_queue_tables {
	const struct weir_spreading *spreading;
	const struct weir_distribution *distribution;
	const struct weir_log *log;
	uint64_t settled_ns, retry_ns; // WEIR_QUEUE_TABLES_..., or other values in tests
	uint32_t requested_port; // port and entry of the last requested shift
	uint32_t requested_entry;
	uint64_t shifts; // number of successful updates
	uint64_t refusals; // number of failed updates
	struct weir_queue_table table[WEIR_PORTS_MAX];
};

// Create the queue tables. All arguments are borrowed. config: for the names of ports. Returns 0,
// -ENOMEM; *ret is NULL if no device spreads flows in buckets.
int weir_queue_tables_create(const struct weir_spreading *spreading,
	const struct weir_distribution *distribution, const struct weir_config *config,
	const struct weir_log *log, struct weir_queue_tables **ret);
void weir_queue_tables_free(struct weir_queue_tables *tables); // NULL is allowed

// Read the RETAs if this is due, and begin at most 8 shifts. Call about every 100 ms. NULL is
// allowed.
void weir_queue_tables_turn(struct weir_queue_tables *tables, uint64_t now_ns);
