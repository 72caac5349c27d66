// SPDX-License-Identifier: BSD-3-Clause
//
// RSS redirection tables, and the information that rss.c gets from a device. There is no device:
// the test replaces functions of DPDK. test_worker_moves.c covers a complete shift.
#include "queue_tables.h"
#include "test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_eal.h>
#include <rte_ethdev.h>
#include <rte_memory.h>

#define ENTRIES 128u
#define SECOND 1000000000ull
#define START (1000 * SECOND)

// --- the device -----------------------------------------------------------------------------

static struct {
	uint16_t entries; // current number of entries of the device's table
	uint16_t queue[WEIR_RSS_ENTRIES_MAX];
	unsigned int updates;
	bool grows; // the device's table gets the size that was last set
	bool lies; // the device accepts changes but makes none
	bool no_key; // the device does not report its key
} device;

int __wrap_rte_eth_dev_rss_reta_query(
	uint16_t id, struct rte_eth_rss_reta_entry64 *table, uint16_t entries);
int __wrap_rte_eth_dev_rss_reta_query(
	uint16_t id, struct rte_eth_rss_reta_entry64 *table, uint16_t entries) {
	(void)id;
	if (entries != device.entries) {
		return -EINVAL;
	}
	for (uint32_t e = 0; e < entries; e++) {
		table[e / 64].reta[e % 64] = device.queue[e];
	}
	return 0;
}

int __wrap_rte_eth_dev_rss_reta_update(
	uint16_t id, struct rte_eth_rss_reta_entry64 *table, uint16_t entries);
int __wrap_rte_eth_dev_rss_reta_update(
	uint16_t id, struct rte_eth_rss_reta_entry64 *table, uint16_t entries) {
	(void)id;
	if (entries != device.entries && !device.grows) {
		return -EINVAL;
	}
	device.entries = entries;
	device.updates++;
	for (uint32_t e = 0; e < entries; e++) {
		if (!device.lies && (table[e / 64].mask >> e % 64 & 1) != 0) {
			device.queue[e] = table[e / 64].reta[e % 64];
		}
	}
	return 0;
}

int __wrap_rte_eth_dev_rss_hash_conf_get(uint16_t id, struct rte_eth_rss_conf *conf);
int __wrap_rte_eth_dev_rss_hash_conf_get(uint16_t id, struct rte_eth_rss_conf *conf) {
	(void)id;
	conf->rss_hf = RTE_ETH_RSS_IP | RTE_ETH_RSS_TCP | RTE_ETH_RSS_UDP;
	if (!device.no_key) {
		memset(conf->rss_key, 0x5a, conf->rss_key_len);
	}
	return 0;
}

// --- information ----------------------------------------------------------------------------

// If the number of queues is a power of two, mlx5 has one entry per queue until its table is set.
TEST(small_tables_of_mlx5_grow) {
	static const struct {
		const char *driver;
		uint16_t entries;
		bool grows, usable, restarts;
	} cases[] = {
		{"mlx5_pci", 4, true, true, true},
		{"mlx5_pci", 512, true, true, true},
		{"mlx5_pci", 4, false, false, true},
		{"net_other", 4, true, false, false},
		{"net_other", 512, false, true, false},
		{NULL, 512, false, true, false},
	};

	for (unsigned int i = 0; i < RTE_DIM(cases); i++) {
		const struct rte_eth_dev_info info = {
			.driver_name = cases[i].driver, .reta_size = 512, .hash_key_size = 40};
		struct weir_rss rss;

		memset(&device, 0, sizeof(device));
		device.entries = cases[i].entries;
		device.grows = cases[i].grows;
		rss = weir_rss_find(0, &info, 4, true);
		assert_int_equal(rss.usable, cases[i].usable);
		assert_int_equal(rss.restarts, cases[i].restarts);
		assert_int_equal(rss.entries, cases[i].usable ? 512 : 0);
		if (!rss.usable) {
			assert_int_equal(rss.why, WEIR_BUCKETING_RSS_TABLE);
		}
		for (uint32_t e = 0; e < 512 && device.updates > 0; e++) {
			assert_int_equal(device.queue[e], e % 4);
		}
	}
}

TEST(a_key_that_is_not_reported_is_none) {
	const struct rte_eth_dev_info info = {.reta_size = 512, .hash_key_size = 52};
	struct weir_rss rss;

	memset(&device, 0, sizeof(device));
	device.entries = 512;
	rss = weir_rss_find(0, &info, 4, true);
	assert_true(rss.usable);
	assert_int_equal(rss.key.bytes[WEIR_RSS_KEY_BYTES - 1], 0x5a);
	device.no_key = true;
	rss = weir_rss_find(0, &info, 4, true);
	assert_false(rss.usable);
	assert_int_equal(rss.why, WEIR_BUCKETING_RSS_HASH);
}

// --- changes --------------------------------------------------------------------------------

struct tables {
	struct weir_spreading spreading;
	struct weir_distribution distribution;
	struct weir_device device;
	struct weir_config config;
	struct weir_config_port port;
	struct weir_log log;
	uint32_t workers; // number of workers, and of queues
	struct weir_queue_tables *tables;
	char last_line[256];
	unsigned int lines;
};

static bool on_line(void *context, enum weir_log_level level, const char *line) {
	struct tables *lab = context;

	(void)level;
	lab->lines++;
	snprintf(lab->last_line, sizeof(lab->last_line), "%s", line);
	return false;
}

static struct tables *make(uint32_t workers, bool stays) {
	static struct weir_flow_parcel *const parcels[WEIR_WORKERS_MAX];
	struct tables *lab = calloc(1, sizeof(*lab));
	struct weir_moves_params params = {.workers = workers,
		.distributor = lab->distribution.distributor,
		.distributors = workers,
		.parcel = parcels,
		.socket = SOCKET_ID_ANY};

	assert_non_null(lab);
	memset(&device, 0, sizeof(device));
	device.entries = ENTRIES;
	lab->log = (struct weir_log){
		.fd = -1, .level = WEIR_LOG_INFO, .filter = on_line, .filter_context = lab};
	snprintf(lab->port.name, sizeof(lab->port.name), "wan");
	lab->config.ports = &lab->port;
	lab->spreading = (struct weir_spreading){.workers = workers,
		.ports = 1,
		.port = {{.by_queue = true,
			.queues = (uint16_t)workers,
			.table_entries = ENTRIES,
			.table_stays = stays}},
		.device = {&lab->device},
		.bucketing = WEIR_BUCKETING_YES};
	lab->spreading.port[0].key = &lab->device.rss.key;
	for (uint32_t b = 0; b < WEIR_BUCKETS; b++) {
		lab->spreading.first_worker[b] = (uint8_t)(b % ENTRIES % workers);
	}
	for (uint32_t e = 0; e < ENTRIES; e++) {
		device.queue[e] = (uint16_t)(e % workers);
	}
	lab->distribution.ports = 1;
	lab->distribution.distributors = workers;
	lab->distribution.further[0] = 1;
	lab->workers = workers;
	for (uint32_t q = 0; q < workers; q++) {
		assert_int_equal(weir_distributor_create(q, workers, q, SOCKET_ID_ANY,
					 &lab->distribution.distributor[q]),
			0);
	}
	for (uint32_t b = 0; b < WEIR_BUCKETS; b++) {
		for (uint32_t q = 0; q < workers; q++) {
			lab->distribution.distributor[q]->worker[b] =
				lab->spreading.first_worker[b];
		}
	}
	assert_int_equal(weir_moves_create(&params, &lab->distribution.moves), 0);
	assert_int_equal(weir_queue_tables_create(&lab->spreading, &lab->distribution, &lab->config,
				 &lab->log, &lab->tables),
		0);
	return lab;
}

static void unmake(struct tables *lab) {
	weir_queue_tables_free(lab->tables);
	weir_distribution_free(&lab->distribution);
	free(lab);
}

// Make this worker the owner of all buckets of the entry.
static void give(struct tables *lab, uint32_t entry, uint8_t worker) {
	for (uint32_t b = entry; b < WEIR_BUCKETS; b += ENTRIES) {
		lab->distribution.moves->owner[b] = worker;
	}
}

// Do the work of the main thread, and of workers without packets, for a second.
static void run(struct tables *lab, uint64_t from_ns) {
	for (uint64_t now_ns = from_ns; now_ns < from_ns + SECOND; now_ns += SECOND / 100) {
		weir_queue_tables_turn(lab->tables, now_ns);
		for (uint32_t w = 0; w < lab->workers; w++) {
			struct weir_mover *mover = &lab->distribution.moves->mover[w];

			weir_distributor_switch(lab->distribution.distributor[w]);
			weir_distributor_received(lab->distribution.distributor[w], 0);
			if (weir_mover_is_shifting(mover) && weir_mover_shift(mover) != NULL) {
				weir_mover_shift_end(mover);
			}
		}
	}
}

TEST(an_entry_follows_its_buckets) {
	struct tables *lab = make(2, false);

	run(lab, START);
	assert_int_equal(device.updates, 0);
	give(lab, 4, 1);
	run(lab, START + SECOND);
	assert_int_equal(device.updates, 1);
	assert_int_equal(device.queue[4], 1);
	assert_int_equal(lab->lines, 0);
	unmake(lab);
}

TEST(sixty_four_workers_have_a_queue_each) {
	struct tables *lab = make(WEIR_WORKERS_MAX, false);

	run(lab, START);
	assert_int_equal(device.updates, 0);
	give(lab, 0, 63);
	give(lab, 127, 0);
	run(lab, START + SECOND);
	assert_int_equal(device.updates, 2);
	assert_int_equal(device.queue[0], 63);
	assert_int_equal(device.queue[127], 0);
	unmake(lab);
}

// If a device would restart on a change of its table, the table is kept, and this is logged.
TEST(a_device_that_would_restart_keeps_its_table) {
	struct tables *lab = make(2, true);

	assert_int_equal(lab->lines, 1);
	assert_non_null(strstr(lab->last_line, "wan: the RSS redirection table"));
	give(lab, 4, 1);
	run(lab, START);
	assert_int_equal(device.updates, 0);
	assert_int_equal(weir_shift_state(lab->distribution.moves), WEIR_SHIFT_NOTHING);
	unmake(lab);
}

// Entries changed externally or by a reset are restored within about a minute; this is logged once.
TEST(tables_changed_by_others_are_restored) {
	struct tables *lab = make(2, false);
	uint64_t now_ns = START;

	run(lab, now_ns);
	for (uint32_t e = 0; e < ENTRIES; e++) {
		device.queue[e] = 0;
	}
	for (uint32_t i = 0; i < 60; i++) {
		run(lab, now_ns += SECOND);
	}
	assert_int_equal(lab->lines, 1);
	assert_non_null(strstr(lab->last_line, "wan: 64 of 128 entries"));
	for (uint32_t i = 0; i < 65; i++) { // until the table was read again
		run(lab, now_ns += SECOND);
	}
	assert_int_equal(device.updates, 64);
	for (uint32_t e = 0; e < ENTRIES; e++) {
		assert_int_equal(device.queue[e], e % 2);
	}
	assert_int_equal(lab->lines, 1);
	// A device that ignores changes causes another log message.
	device.lies = true;
	device.queue[1] = 0;
	for (uint32_t i = 0; i < 300; i++) {
		run(lab, now_ns += SECOND);
	}
	assert_int_equal(lab->lines, 2);
	assert_non_null(strstr(lab->last_line, "wan: 1 of 128 entries"));
	assert_in_range(device.updates, 65, 64 + 5);
	unmake(lab);
}

// Packets of an entry with an unused queue are lost, even if no worker owns all of its buckets.
TEST(entries_with_unused_queues_are_restored) {
	struct tables *lab = make(2, false);

	run(lab, START);
	lab->distribution.moves->owner[4] = 1;
	device.queue[4] = device.queue[5] = 7;
	for (uint32_t i = 1; i < 65; i++) { // until the table was read again
		run(lab, START + i * SECOND);
	}
	assert_int_equal(device.queue[4], 0);
	assert_int_equal(device.queue[5], 1);
	assert_int_equal(device.updates, 1);
	assert_non_null(strstr(lab->last_line, "wan: 2 of 128 entries"));
	assert_int_equal(lab->lines, 1);
	unmake(lab);
}

// Uses 256 MB of memory, because 64 workers have 4,032 rings.
static int start_eal(void **state) {
	static char *argv[] = {"test", "--no-huge", "--no-pci", "--no-shconf", "--no-telemetry",
		"-m", "256", "--log-level=error", "-l", "0", NULL};

	(void)state;
	return rte_eal_init(10, argv) < 0 ? -1 : 0;
}

TEST_GROUP(start_eal);
