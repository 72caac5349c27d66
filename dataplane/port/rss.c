// SPDX-License-Identifier: BSD-3-Clause
#include "rss.h"

#include <errno.h>
#include <string.h>

#include <rte_ethdev.h>

#define WITH_PORTS \
	(RTE_ETH_RSS_NONFRAG_IPV4_TCP | RTE_ETH_RSS_NONFRAG_IPV4_UDP | \
		RTE_ETH_RSS_NONFRAG_IPV6_TCP | RTE_ETH_RSS_NONFRAG_IPV6_UDP)
#define WANTED (RTE_ETH_RSS_IP | RTE_ETH_RSS_TCP | RTE_ETH_RSS_UDP)
#define GROUP RTE_ETH_RETA_GROUP_SIZE
#define GROUPS_MAX (WEIR_RSS_ENTRIES_MAX / GROUP)

void weir_rss_request(
	const struct rte_eth_dev_info *info, uint8_t *key, struct rte_eth_conf *conf) {
	conf->rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
	conf->rx_adv_conf.rss_conf.rss_hf = WANTED & info->flow_type_rss_offloads;
	conf->rxmode.offloads |= info->rx_offload_capa & RTE_ETH_RX_OFFLOAD_RSS_HASH;
	if (info->hash_key_size >= WEIR_RSS_KEY_BYTES && info->hash_key_size <= WEIR_RSS_KEY_ROOM) {
		conf->rx_adv_conf.rss_conf.rss_key = key;
		conf->rx_adv_conf.rss_conf.rss_key_len = info->hash_key_size;
	}
}

// Returns whether the driver has written the key of the device. If the driver cannot read the key,
// it may leave the buffer all zero.
static bool is_set(const uint8_t key[WEIR_RSS_KEY_ROOM]) {
	static const uint8_t zeroes[WEIR_RSS_KEY_BYTES];

	return memcmp(key, zeroes, sizeof(zeroes)) != 0;
}

static bool find_key(
	uint16_t device, const struct rte_eth_dev_info *info, struct weir_rss_key *ret) {
	uint8_t key[WEIR_RSS_KEY_ROOM] = {0};
	struct rte_eth_rss_conf conf = {.rss_key = key, .rss_key_len = info->hash_key_size};

	if (info->hash_key_size < WEIR_RSS_KEY_BYTES || info->hash_key_size > WEIR_RSS_KEY_ROOM ||
		rte_eth_dev_rss_hash_conf_get(device, &conf) < 0 ||
		(conf.rss_hf & WITH_PORTS) != WITH_PORTS || !is_set(key)) {
		return false;
	}
	memcpy(ret->bytes, key, sizeof(ret->bytes));
	return true;
}

int weir_rss_read(uint16_t device, uint16_t entries, uint16_t *ret_queue) {
	struct rte_eth_rss_reta_entry64 table[GROUPS_MAX];
	int r;

	if (entries < GROUP || entries > WEIR_RSS_ENTRIES_MAX || (entries & (entries - 1)) != 0) {
		return -EINVAL;
	}
	memset(table, 0, sizeof(table));
	for (uint32_t g = 0; g < entries / GROUP; g++) {
		table[g].mask = UINT64_MAX;
	}
	r = rte_eth_dev_rss_reta_query(device, table, entries);
	for (uint32_t e = 0; e < entries && r == 0; e++) {
		ret_queue[e] = table[e / GROUP].reta[e % GROUP];
	}
	return r;
}

// Returns true if the driver restarts the device to change the RETA. mlx5 does this: packets are
// lost, and queues that workers poll are freed.
static bool restarts(const struct rte_eth_dev_info *info) {
	return info->driver_name != NULL && strncmp(info->driver_name, "mlx5", 4) == 0;
}

// Returns the number of entries of the device's RETA, or 0 if the RETA cannot be read. With mlx5,
// if the number of queues is a power of two, the RETA has only one entry per queue until it is
// changed for the first time; therefore this function may set it once.
static uint16_t find_table(uint16_t device, const struct rte_eth_dev_info *info, uint16_t queues) {
	uint16_t queue[WEIR_RSS_ENTRIES_MAX];

	if (weir_rss_read(device, info->reta_size, queue) == 0) {
		return info->reta_size;
	}
	for (uint32_t e = 0; e < WEIR_RSS_ENTRIES_MAX; e++) {
		queue[e] = (uint16_t)(e % queues);
	}
	return restarts(info) && weir_rss_write(device, info->reta_size, queue) == 0 &&
			       weir_rss_read(device, info->reta_size, queue) == 0
		       ? info->reta_size
		       : 0;
}

struct weir_rss weir_rss_find(
	uint16_t device, const struct rte_eth_dev_info *info, uint16_t queues, bool reports) {
	struct weir_rss rss = {.why = WEIR_BUCKETING_RSS_HASH, .restarts = restarts(info)};

	if (!reports || !find_key(device, info, &rss.key)) {
		return rss;
	}
	rss.why = WEIR_BUCKETING_RSS_TABLE;
	rss.entries = find_table(device, info, queues);
	rss.usable = rss.entries > 0;
	return rss;
}

int weir_rss_write(uint16_t device, uint16_t entries, const uint16_t *queue) {
	struct rte_eth_rss_reta_entry64 table[GROUPS_MAX];

	if (entries < GROUP || entries > WEIR_RSS_ENTRIES_MAX) {
		return -EINVAL;
	}
	memset(table, 0, sizeof(table));
	for (uint32_t e = 0; e < entries; e++) {
		if (queue[e] != WEIR_RSS_KEEP) {
			table[e / GROUP].mask |= UINT64_C(1) << e % GROUP;
			table[e / GROUP].reta[e % GROUP] = queue[e];
		}
	}
	return rte_eth_dev_rss_reta_update(device, table, entries);
}
