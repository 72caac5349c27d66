// SPDX-License-Identifier: BSD-3-Clause
#include "queue_tables.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define GRACE_NS 1000000 // maximum time for which packets in a device are on their way to a queue
#define STEP_NS 50000
#define STEPS 60 // maximum number of steps of a shift per call of go_on
#define SHIFTS 8 // maximum number of new shifts per call of weir_queue_tables_turn

// Returns true if the RETA of a port's device is updated when buckets move.
static bool follows(const struct weir_distributed_port *port) {
	return port->by_queue && !port->table_stays;
}

// --- set-up -------------------------------------------------------------------------------

int weir_queue_tables_create(const struct weir_spreading *spreading,
	const struct weir_distribution *distribution, const struct weir_config *config,
	const struct weir_log *log, struct weir_queue_tables **ret) {
	struct weir_queue_tables *tables;

	*ret = NULL;
	if (distribution->moves == NULL || weir_spreading_key(spreading) == NULL) {
		return 0;
	}
	tables = calloc(1, sizeof(*tables));
	if (tables == NULL) {
		return -ENOMEM;
	}
	tables->spreading = spreading;
	tables->distribution = distribution;
	tables->log = log;
	tables->settled_ns = WEIR_QUEUE_TABLES_SETTLED_NS;
	tables->retry_ns = WEIR_QUEUE_TABLES_RETRY_NS;
	for (uint32_t p = 0; p < spreading->ports; p++) {
		tables->table[p].port = config->ports[p].name;
		weir_spreading_first_queues(spreading, p, tables->table[p].queue);
		if (spreading->port[p].by_queue && spreading->port[p].table_stays) {
			weir_log_write(log, WEIR_LOG_INFO,
				"port %s: the RSS redirection table (RETA) is not updated, because "
				"an update would restart the device; workers pass packets of moved "
				"buckets to each other instead",
				tables->table[p].port);
		}
	}
	*ret = tables;
	return 0;
}

void weir_queue_tables_free(struct weir_queue_tables *tables) {
	free(tables);
}

// --- entries to change ------------------------------------------------------------------

static uint32_t mask_of(const struct weir_distributed_port *port) {
	return RTE_MIN((uint32_t)port->table_entries, WEIR_BUCKETS) - 1;
}

// Returns 1 + the index of the worker that owns all buckets of an entry, or 0 if the buckets have
// several owners.
static uint8_t worker_of(const struct weir_queue_tables *tables, uint32_t p, uint32_t entry) {
	const struct weir_moves *moves = tables->distribution->moves;
	uint32_t mask = mask_of(&tables->spreading->port[p]);
	uint32_t first = entry & mask;
	uint8_t worker = __atomic_load_n(&moves->owner[first], __ATOMIC_RELAXED);

	for (uint32_t b = first; b < WEIR_BUCKETS; b += mask + 1) {
		if (__atomic_load_n(&moves->owner[b], __ATOMIC_RELAXED) != worker) {
			return 0;
		}
	}
	return (uint8_t)(worker + 1);
}

static void look(struct weir_queue_tables *tables, uint32_t p, uint64_t now_ns) {
	struct weir_queue_table *table = &tables->table[p];

	for (uint32_t e = 0; e < tables->spreading->port[p].table_entries; e++) {
		uint8_t worker = worker_of(tables, p, e);

		if (worker != table->worker[e]) {
			table->worker[e] = worker;
			table->since_ns[e] = now_ns;
		}
	}
}

// Gets the queue to set in entry e of the RETA of port p. Returns false if no change is needed, if
// no worker has owned all buckets of the entry for long enough, if the owner polls no queue of the
// port, or if the entry has a queue that is not used.
static bool wants(const struct weir_queue_tables *tables, uint32_t p, uint32_t e, uint64_t now_ns,
	uint16_t *ret_queue) {
	const struct weir_queue_table *table = &tables->table[p];
	const struct weir_distributed_port *port = &tables->spreading->port[p];
	uint32_t workers = tables->spreading->workers;
	uint32_t worker;

	if (table->worker[e] == 0 || now_ns - table->since_ns[e] < tables->settled_ns) {
		return false;
	}
	worker = table->worker[e] - 1u;
	*ret_queue = weir_distribution_queue_of(port, workers, worker);
	return table->queue[e] < port->queues &&
	       weir_distribution_receiver(port, workers, *ret_queue) == worker &&
	       weir_distribution_receiver(port, workers, table->queue[e]) != worker;
}

// Finds the next RETA entry to change, and its new queue. The search starts after the entry of the
// last shift, and continues with the other ports. Returns false if no entry must be changed.
static bool find(struct weir_queue_tables *tables, uint64_t now_ns, uint16_t *ret_queue) {
	const struct weir_spreading *spreading = tables->spreading;

	for (uint32_t i = 0; spreading->ports > 0 && i <= spreading->ports; i++) {
		uint32_t p = (tables->requested_port + i) % spreading->ports;
		uint32_t first = i == 0 ? tables->requested_entry + 1 : 0;

		if (!follows(&spreading->port[p]) || now_ns < tables->table[p].ready_ns) {
			continue;
		}
		for (uint32_t e = first; e < spreading->port[p].table_entries; e++) {
			if (wants(tables, p, e, now_ns, ret_queue)) {
				tables->requested_port = p;
				tables->requested_entry = e;
				return true;
			}
		}
	}
	return false;
}

// --- a shift --------------------------------------------------------------------------------

static void pause_ns(long ns) {
	const struct timespec pause = {.tv_nsec = ns};

	nanosleep(&pause, NULL);
}

static void request_shift(struct weir_queue_tables *tables, uint16_t queue) {
	const struct weir_distribution *distribution = tables->distribution;
	uint32_t p = tables->requested_port, e = tables->requested_entry, others = 0;
	uint32_t mask = mask_of(&tables->spreading->port[p]);
	struct weir_distributor *other[WEIR_SHIFT_OTHERS_MAX];

	_Static_assert(WEIR_SHIFT_OTHERS_MAX + 1 == WEIR_QUEUES_MAX,
		"a shift must have room for all queues of a device");
	for (uint32_t q = 0; q < tables->spreading->port[p].queues; q++) {
		if (q != queue) {
			other[others++] = weir_distribution_of(distribution, p, q);
		}
	}
	weir_shift_request(distribution->moves, mask, e & mask,
		weir_distribution_of(distribution, p, queue), other, others);
}

// Records that a device could not change its RETA. Logs only the first failure after a successful
// change. The RETA is not changed again before tables->retry_ns has passed.
static void refused(struct weir_queue_tables *tables, uint32_t p, int error, uint64_t now_ns) {
	struct weir_queue_table *table = &tables->table[p];

	tables->refusals++;
	table->ready_ns = now_ns + tables->retry_ns;
	table->read_ns = 0;
	if (!table->failed) {
		weir_log_write(tables->log, WEIR_LOG_WARN,
			"port %s: cannot update the RSS redirection table (RETA): %s; workers pass "
			"packets of moved buckets to each other instead",
			table->port, strerror(-error));
		table->failed = true;
	}
}

// Sets the requested entry of the RETA to the queue of the worker that owns its buckets, and
// continues the shift. Call while this worker holds packets of the buckets.
static void change(struct weir_queue_tables *tables, uint64_t now_ns) {
	const struct weir_spreading *spreading = tables->spreading;
	uint32_t p = tables->requested_port, e = tables->requested_entry;
	struct weir_queue_table *table = &tables->table[p];
	const struct weir_distributor *into = tables->distribution->moves->shift.into;
	uint16_t queue[WEIR_RSS_ENTRIES_MAX];
	int r;

	for (uint32_t i = 0; i < spreading->port[p].table_entries; i++) {
		queue[i] = WEIR_RSS_KEEP;
	}
	queue[e] = weir_distribution_queue_of(&spreading->port[p], spreading->workers, into->owner);
	r = weir_rss_write(spreading->device[p]->id, spreading->port[p].table_entries, queue);
	if (r < 0) {
		refused(tables, p, r, now_ns);
	} else {
		table->queue[e] = queue[e];
		table->failed = false;
		tables->shifts++;
	}
	pause_ns(GRACE_NS);
	weir_shift_drain(tables->distribution->moves);
}

// Continue the requested shift, if there is one. Returns false if the shift has not ended.
static bool go_on(struct weir_queue_tables *tables, uint64_t now_ns) {
	for (unsigned int step = 0; step < STEPS; step++) {
		switch (weir_shift_state(tables->distribution->moves)) {
		case WEIR_SHIFT_NOTHING:
		case WEIR_SHIFT_REFUSED:
			return true;
		case WEIR_SHIFT_HOLDING:
			change(tables, now_ns);
			break;
		case WEIR_SHIFT_REQUESTED:
		case WEIR_SHIFT_DRAINING:
			pause_ns(STEP_NS);
			break;
		}
	}
	return false;
}

static void log_differences(
	struct weir_queue_tables *tables, uint32_t p, const uint16_t *found, uint32_t entries) {
	struct weir_queue_table *table = &tables->table[p];
	uint32_t others = 0;

	for (uint32_t e = 0; e < entries; e++) {
		others += found[e] != table->queue[e];
	}
	// After a failed change, differences are expected.
	if (others > 0 && !table->changed && !table->failed) {
		weir_log_write(tables->log, WEIR_LOG_WARN,
			"port %s: %u of %u entries of the RSS redirection table (RETA) %s changed "
			"externally or by a device reset; restoring entries",
			table->port, others, entries, others == 1 ? "was" : "were");
	}
	table->changed = others > 0;
}

// Sets entries with unused queues, whose packets are lost, to used queues. Needs no shift, because
// none of these packets is on its way to a worker.
static void leave_unused_queues(struct weir_queue_tables *tables, uint32_t p, uint64_t now_ns) {
	const struct weir_spreading *spreading = tables->spreading;
	const struct weir_distributed_port *port = &spreading->port[p];
	uint16_t *queue = tables->table[p].queue, used[WEIR_RSS_ENTRIES_MAX];
	bool found = false;
	int r = 0;

	weir_spreading_first_queues(spreading, p, used);
	for (uint32_t e = 0; e < port->table_entries; e++) {
		if (queue[e] < port->queues) {
			used[e] = WEIR_RSS_KEEP;
		} else {
			found = true;
		}
	}
	if (found) {
		r = weir_rss_write(spreading->device[p]->id, port->table_entries, used);
	}
	if (r < 0) {
		refused(tables, p, r, now_ns);
		return;
	}
	for (uint32_t e = 0; e < port->table_entries; e++) {
		queue[e] = used[e] == WEIR_RSS_KEEP ? queue[e] : used[e];
	}
}

// Reads the RETA of a port's device, unless it was read recently or a change failed recently. The
// RETA may have been changed externally, or by a reset of the device.
static void read_table(struct weir_queue_tables *tables, uint32_t p, uint64_t now_ns) {
	const struct weir_spreading *spreading = tables->spreading;
	struct weir_queue_table *table = &tables->table[p];
	uint32_t entries = spreading->port[p].table_entries;
	uint16_t found[WEIR_RSS_ENTRIES_MAX];

	if (now_ns - table->read_ns < WEIR_QUEUE_TABLES_READ_NS || now_ns < table->ready_ns) {
		return;
	}
	table->read_ns = now_ns;
	if (weir_rss_read(spreading->device[p]->id, (uint16_t)entries, found) == 0) {
		log_differences(tables, p, found, entries);
		memcpy(table->queue, found, entries * sizeof(found[0]));
		leave_unused_queues(tables, p, now_ns);
	}
}

void weir_queue_tables_turn(struct weir_queue_tables *tables, uint64_t now_ns) {
	uint16_t queue;

	if (tables == NULL || !go_on(tables, now_ns)) {
		return;
	}
	for (uint32_t p = 0; p < tables->spreading->ports; p++) {
		if (follows(&tables->spreading->port[p])) {
			read_table(tables, p, now_ns);
			look(tables, p, now_ns);
		}
	}
	for (unsigned int i = 0; i < SHIFTS && find(tables, now_ns, &queue); i++) {
		request_shift(tables, queue);
		if (!go_on(tables, now_ns)) {
			break;
		}
	}
}
