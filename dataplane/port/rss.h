// SPDX-License-Identifier: BSD-3-Clause
//
// RSS: reads and sets how a device spreads flows over its receive queues. The queue of a flow
// depends on the key of the device's hash (rss_hash.h), and on its redirection table (RETA), whose
// index is the low bits of the hash. If a device spreads flows, flows can be in buckets (moves.h)
// only if key and RETA are known and the RETA can be set.
//
// Threads: main. No worker may call these functions, because drivers wait for their device.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "layout.h"
#include "rss_hash.h"

#define WEIR_RSS_ENTRIES_MAX 4096
#define WEIR_RSS_KEY_ROOM 64 // maximum length of the key of a device
#define WEIR_RSS_KEEP 0xffffu // do not change the entry

struct rte_eth_conf;
struct rte_eth_dev_info;

struct weir_rss {
	bool usable; // packets carry a hash of addresses and ports, and the RETA can be read
	enum weir_bucketing why; // reason if not usable
	// A change of the RETA restarts the device, so change it only while no worker runs
	bool restarts;
	uint16_t entries; // entries of the RETA, a power of two
	struct weir_rss_key key;
};

// Changes the configuration of a device: requests RSS with this key, and the hash of each packet,
// if the device supports these features. conf: the configuration to change. key: WEIR_RSS_KEY_ROOM
// bytes; borrowed until the device is configured.
void weir_rss_request(const struct rte_eth_dev_info *info, uint8_t *key, struct rte_eth_conf *conf);
// Get the RSS configuration of a started device. reports: the device was configured to pass the
// hash with each packet. info: read before the device was configured. Call before workers run,
// because this function may set the RETA.
struct weir_rss weir_rss_find(
	uint16_t device, const struct rte_eth_dev_info *info, uint16_t queues, bool reports);
// Read the RETA into ret_queue[entries]. Returns 0, or negative errno without a result.
int weir_rss_read(uint16_t device, uint16_t entries, uint16_t *ret_queue);
// Set entries of the RETA: queue[entries], WEIR_RSS_KEEP = keep the entry. Returns 0, or negative
// errno; after an error some entries may have been set.
int weir_rss_write(uint16_t device, uint16_t entries, const uint16_t *queue);
