// SPDX-License-Identifier: BSD-3-Clause
#include "memory_need.h"

#include <stdbool.h>
#include <string.h>

#include "config_host.h"
#include "device.h"

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)
#define ROOMS_MAX 32u // maximum number of ports and exception devices
#define DESCRIPTORS 1024u // descriptors per queue
#define RING 1024u // packets in a ring between workers
#define HOLD 2048u // packets that a worker holds while a bucket moves
#define WORKER_PACKETS 640u // packets in a worker's caches and bursts
#define PARTS 1024u // number of partitions of a flow table that workers share
#define ADDRESSES_MAX 65536u // maximum number of destinations of IPv6 flows

// Buffers for packets. Devices whose buffers have the same size share a pool.
struct need {
	uint64_t workers, devices, ports;
	uint32_t rooms; // number of different buffer sizes
	uint64_t room[ROOMS_MAX]; // buffer sizes, in bytes
	uint64_t queued[ROOMS_MAX]; // buffers of this size in queues
};

static uint64_t larger(uint64_t a, uint64_t b) {
	return a > b ? a : b;
}

// --- buffers --------------------------------------------------------------------------------

static uint64_t count_queues(
	const char *root, const struct weir_config *config, const struct weir_config_port *port) {
	const struct weir_doctor_device device = weir_doctor_device_of(port);
	uint32_t queues = 0;

	if (port->queues > 0) {
		return port->queues;
	}
	if (device.af_xdp) { // all queues of the interface
		queues = weir_config_count_queues(root, device.interface);
	}
	return queues > 0 ? queues : device.pci[0] != '\0' ? config->workers.count : 1;
}

static void add_device(struct need *need, uint32_t mtu, bool af_xdp, uint64_t queues) {
	// headroom (256 bytes more with AF_XDP), Ethernet header with two tags, FCS, MTU; 2176 is
	// the minimum of DPDK
	uint64_t room = larger((128 + 22 + 4 + mtu + (af_xdp ? 256 : 0) + 127) / 128 * 128, 2176);
	uint32_t i = 0;

	while (i < need->rooms && need->room[i] != room) {
		i++;
	}
	if (i == need->rooms) {
		need->room[need->rooms++] = room;
	}
	need->queued[i] += queues * (af_xdp ? 2 * DESCRIPTORS + 4096 : 2 * DESCRIPTORS);
	need->devices++;
}

static uint64_t buffer_bytes(const struct need *need) {
	const uint64_t others = need->workers - 1;
	uint64_t travelling = need->workers * WORKER_PACKETS + HOLD +
			      need->devices * (DESCRIPTORS + others * RING) +
			      need->ports * others * RING;
	uint64_t bytes = 0;

	travelling += others > 0 ? need->workers * HOLD : 0;
	for (uint32_t i = 0; i < need->rooms; i++) {
		bytes += 4 * MIB + (need->queued[i] + travelling) * (need->room[i] + 272);
	}
	return bytes;
}

// --- flow tables ----------------------------------------------------------------------------

// Returns the size in bytes of a hash table. slots: number of slots in a bucket. fill, part_fill:
// percentage of slots in use, on average and in the fullest partition of a shared table.
static uint64_t bucket_bytes(
	uint64_t flows, uint64_t slots, uint64_t fill, uint64_t part_fill, bool shared) {
	uint64_t mean = shared ? (flows + PARTS - 1) / PARTS : flows, root = 0;
	uint64_t buckets = mean * 100 / (fill * slots) + 1;

	if (shared) {
		while (root * root < mean) {
			root++;
		}
		buckets = larger(buckets, (mean + 4 * root + 4) * 100 / (part_fill * slots) + 1);
		buckets = (buckets + 7) / 8 * 8 * PARTS;
	}
	return buckets * (64 + slots * 4);
}

static uint64_t table_bytes(uint64_t flows, uint64_t flows6, bool shared) {
	return bucket_bytes(flows, 4, 75, 90, shared) + bucket_bytes(flows6, 2, 50, 75, shared);
}

static uint64_t flow_bytes(const struct weir_config *config) {
	const struct weir_config_flow_table *flows = &config->flow_table;
	const uint64_t workers = config->workers.count, all = flows->flows_per_worker * workers;
	const uint64_t all6 = larger(all * flows->ipv6_percent / 100, 1);
	// Each worker has a list of the destinations of IPv6 flows, 26 bytes each, and a buffer for
	// parts of the table that move to another worker.
	const uint64_t own = 26 * (all6 < ADDRESSES_MAX ? all6 + 1 : ADDRESSES_MAX) + MIB / 4;
	const uint64_t parcel = 18ull * config->segment.max_backends + 26ull * ADDRESSES_MAX / 64;
	uint64_t separate = workers * (own + table_bytes(flows->flows_per_worker,
						     larger(all6 / workers, 1), false));

	return workers == 1
		       ? separate
		       : larger(separate, workers * (own + parcel) + table_bytes(all, all6, true));
}

// --- total ----------------------------------------------------------------------------------

uint64_t weir_memory_need(const char *root, const struct weir_config *config) {
	const uint64_t workers = config->workers.count;
	const uint64_t per_worker = 2 * MIB + 128ull * config->fragments.entries +
				    241ull * config->segment.max_backends +
				    1126ull * config->segment.max_services;
	struct need need = {.workers = workers, .ports = config->port_count};

	for (uint32_t i = 0; i < config->port_count; i++) {
		const struct weir_config_port *port = &config->ports[i];

		add_device(&need, port->mtu, weir_doctor_device_of(port).af_xdp,
			count_queues(root, config, port));
		if (port->exception[0] != '\0') {
			add_device(&need, port->mtu,
				strncmp(port->exception, "net_af_xdp", strlen("net_af_xdp")) == 0,
				1);
		}
	}
	// A ring between workers needs 8 bytes for each packet, and less than 1024 bytes more.
	return 16 * MIB + 8ull * config->flow_table.affinity_sources + 4 * MIB * need.devices +
	       buffer_bytes(&need) + flow_bytes(config) + workers * per_worker +
	       (need.devices + need.ports) * (workers - 1) * 9 * RING;
}

uint64_t weir_memory_pages(uint64_t bytes, uint64_t page_bytes) {
	// Several heaps and pools each begin on a new page.
	return (bytes + page_bytes - 1) / page_bytes + (page_bytes < GIB ? 8 : 0);
}
