// SPDX-License-Identifier: BSD-3-Clause
#include "spreading.h"

#include <rte_ethdev.h>

#include "rss.h"

static struct weir_distributed_port port_of(
	const struct weir_device *device, uint32_t port, uint32_t workers) {
	bool spreads = device->spreads && device->rx_queues > 1;

	return (struct weir_distributed_port){.distributed = workers > 1 && !spreads,
		.by_queue = workers > 1 && spreads && device->rss.usable,
		.why = device->rss.why,
		.owner = port % workers,
		.queues = device->rx_queues,
		.table_entries = device->rss.entries,
		.table_stays = device->rss.restarts,
		.key = &device->rss.key,
		.socket = rte_eth_dev_socket_id(device->id)};
}

void weir_spreading_first_queues(
	const struct weir_spreading *spreading, uint32_t port, uint16_t *ret_queue) {
	const struct weir_distributed_port *of = &spreading->port[port];

	for (uint32_t e = 0; e < of->table_entries; e++) {
		ret_queue[e] = weir_distribution_queue_of(
			of, spreading->workers, spreading->first_worker[e % WEIR_BUCKETS]);
	}
}

static int lead_to_first_workers(const struct weir_spreading *spreading, uint32_t p) {
	uint16_t queue[WEIR_RSS_ENTRIES_MAX];

	weir_spreading_first_queues(spreading, p, queue);
	return weir_rss_write(spreading->device[p]->id, spreading->port[p].table_entries, queue);
}

void weir_spreading_plan(const struct weir_device *const *device, uint32_t ports, uint32_t workers,
	bool may_share, struct weir_spreading *ret) {
	*ret = (struct weir_spreading){.workers = workers, .ports = ports};
	for (uint32_t p = 0; p < ports; p++) {
		ret->device[p] = device[p];
		ret->port[p] = port_of(device[p], p, workers);
	}
	ret->bucketing = weir_distribution_bucketing(ret->port, ports, workers, may_share);
	for (uint32_t b = 0; b < WEIR_BUCKETS; b++) {
		ret->first_worker[b] =
			(uint8_t)weir_distribution_first_worker(ret->port, ports, workers, b);
	}
	for (uint32_t p = 0; p < ports && ret->bucketing == WEIR_BUCKETING_YES; p++) {
		if (ret->port[p].by_queue && lead_to_first_workers(ret, p) < 0) {
			ret->bucketing = WEIR_BUCKETING_RSS_TABLE;
		}
	}
}

const struct weir_rss_key *weir_spreading_key(const struct weir_spreading *spreading) {
	return weir_distribution_key(spreading->port, spreading->ports);
}
