// SPDX-License-Identifier: BSD-3-Clause
//
// Declares the replacement (__wrap_) of each DPDK function that the NIC model replaces, and the
// original functions that the model calls (__real_). In programs that link the model, the linker
// redirects calls to the replacements. In tests/nic, functions with DPDK's names call the
// replacements.
#pragma once

#include <stdint.h>

struct rte_eth_conf;
struct rte_eth_dev_info;
struct rte_eth_rss_conf;
struct rte_eth_rss_reta_entry64;

int __real_rte_eth_dev_info_get(uint16_t device, struct rte_eth_dev_info *info);
int __wrap_rte_eth_dev_info_get(uint16_t device, struct rte_eth_dev_info *info);
int __real_rte_eth_dev_configure(
	uint16_t device, uint16_t rx, uint16_t tx, const struct rte_eth_conf *conf);
int __wrap_rte_eth_dev_configure(
	uint16_t device, uint16_t rx, uint16_t tx, const struct rte_eth_conf *conf);
int __wrap_rte_eth_dev_rss_hash_conf_get(uint16_t device, struct rte_eth_rss_conf *conf);
int __wrap_rte_eth_dev_rss_reta_query(
	uint16_t device, struct rte_eth_rss_reta_entry64 *table, uint16_t entries);
int __wrap_rte_eth_dev_rss_reta_update(
	uint16_t device, struct rte_eth_rss_reta_entry64 *table, uint16_t entries);
