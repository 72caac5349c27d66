// SPDX-License-Identifier: BSD-3-Clause
//
// RSS: how a device spreads flows over its receive queues: the key of its hash (rss_hash.h) and its
// redirection table (RETA), which the low bits of the hash index. Flows are in buckets where both
// are known and the RETA can be set.
//
// Threads: main. Drivers wait for their device: no worker may call these.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "layout.h"
#include "rss_hash.h"

#define WEIR_RSS_ENTRIES_MAX 4096
#define WEIR_RSS_KEY_ROOM 64 // of the longest key of a device
#define WEIR_RSS_KEEP 0xffffu // leave the entry as it is

struct rte_eth_conf;
struct rte_eth_dev_info;

struct weir_rss {
	bool usable; // packets carry the hash, of addresses and ports, and the table can be set
	enum weir_bucketing why; // if not
	bool restarts; // the device, when its RETA changes: only while no worker uses it
	uint16_t entries; // of the table: a power of two
	struct weir_rss_key key;
};

// Enable RSS, its hash with each packet and this key, as far as the device supports them. key:
// WEIR_RSS_KEY_ROOM bytes; borrowed until the device is configured.
void weir_rss_request(const struct rte_eth_dev_info *info, uint8_t *key, struct rte_eth_conf *conf);
// RSS of a started device. reports: it was configured to pass the hash with each packet. info: from
// before it was configured. Before workers run: the table may be set.
struct weir_rss weir_rss_find(
	uint16_t device, const struct rte_eth_dev_info *info, uint16_t queues, bool reports);
// Read the table into ret_queue[entries]. Returns 0, or negative errno: nothing is read.
int weir_rss_read(uint16_t device, uint16_t entries, uint16_t *ret_queue);
// Set entries of the table: queue[entries], WEIR_RSS_KEEP = not this one. Returns 0 or negative
// errno: then it may be set in part.
int weir_rss_write(uint16_t device, uint16_t entries, const uint16_t *queue);
