// SPDX-License-Identifier: BSD-3-Clause
#include "nic_model.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <rte_ethdev.h>

#include "nic_model_wraps.h"
#include "test.h"

#define WITH_PORTS (RTE_ETH_RSS_TCP | RTE_ETH_RSS_UDP)

static struct nic_model *models[NIC_MODELS_MAX];

void nic_model_add(struct nic_model *model, const char *name, uint16_t entries, uint16_t queues) {
	unsigned int i = 0;

	while (models[i] != NULL) {
		assert_true(++i < NIC_MODELS_MAX);
	}
	*model = (struct nic_model){.entries = entries, .passes_hash = true};
	assert_int_equal(pthread_mutex_init(&model->lock, NULL), 0);
	snprintf(model->name, sizeof(model->name), "%s", name);
	memset(model->key.bytes, 0x5a + (int)i, sizeof(model->key.bytes));
	for (uint32_t e = 0; e < entries && e < NIC_MODEL_ENTRIES_MAX; e++) {
		model->queue[e] = (uint16_t)(e % queues);
	}
	models[i] = model;
}

void nic_model_release(void) {
	memset(models, 0, sizeof(models));
}

void nic_model_lock(struct nic_model *model) {
	assert_int_equal(pthread_mutex_lock(&model->lock), 0);
}

void nic_model_unlock(struct nic_model *model) {
	assert_int_equal(pthread_mutex_unlock(&model->lock), 0);
}

uint16_t nic_model_queue(const struct nic_model *model, uint32_t hash) {
	return __atomic_load_n(&model->queue[hash % model->entries], __ATOMIC_RELAXED);
}

static struct nic_model *find(uint16_t device) {
	char name[RTE_ETH_NAME_MAX_LEN];

	if (rte_eth_dev_get_name_by_port(device, name) < 0) {
		return NULL;
	}
	for (unsigned int i = 0; i < NIC_MODELS_MAX; i++) {
		if (models[i] != NULL && strcmp(models[i]->name, name) == 0) {
			return models[i];
		}
	}
	return NULL;
}

// --- wrapped functions ----------------------------------------------------------------------

int __wrap_rte_eth_dev_info_get(uint16_t device, struct rte_eth_dev_info *info) {
	const struct nic_model *model = find(device);
	int r = __real_rte_eth_dev_info_get(device, info);

	if (model != NULL) {
		info->reta_size = model->entries;
		info->hash_key_size = 52;
		info->flow_type_rss_offloads = RTE_ETH_RSS_IP | WITH_PORTS;
		info->rx_offload_capa |= model->passes_hash ? RTE_ETH_RX_OFFLOAD_RSS_HASH : 0;
	}
	return r;
}

int __wrap_rte_eth_dev_configure(
	uint16_t device, uint16_t rx, uint16_t tx, const struct rte_eth_conf *conf) {
	struct nic_model *model = find(device);
	struct rte_eth_conf rest = *conf;

	if (model == NULL) {
		return __real_rte_eth_dev_configure(device, rx, tx, conf);
	}
	if (conf->rx_adv_conf.rss_conf.rss_key != NULL) {
		if (model->refuses_key) {
			return -EINVAL;
		}
		assert_int_equal(conf->rx_adv_conf.rss_conf.rss_key_len, 52);
		memcpy(model->key.bytes, conf->rx_adv_conf.rss_conf.rss_key,
			sizeof(model->key.bytes));
	}
	model->asked_for_hash = (conf->rxmode.offloads & RTE_ETH_RX_OFFLOAD_RSS_HASH) != 0;
	rest.rxmode.offloads &= ~RTE_ETH_RX_OFFLOAD_RSS_HASH;
	rest.rxmode.mq_mode = RTE_ETH_MQ_RX_NONE;
	memset(&rest.rx_adv_conf, 0, sizeof(rest.rx_adv_conf));
	return __real_rte_eth_dev_configure(device, rx, tx, &rest);
}

int __wrap_rte_eth_dev_rss_hash_conf_get(uint16_t device, struct rte_eth_rss_conf *conf) {
	const struct nic_model *model = find(device);

	if (model == NULL) {
		return -ENOTSUP;
	}
	assert_int_equal(conf->rss_key_len, 52);
	memcpy(conf->rss_key, model->key.bytes, sizeof(model->key.bytes));
	conf->rss_hf = RTE_ETH_RSS_IP | (model->no_ports ? 0 : WITH_PORTS);
	return 0;
}

int __wrap_rte_eth_dev_rss_reta_query(
	uint16_t device, struct rte_eth_rss_reta_entry64 *table, uint16_t entries) {
	const struct nic_model *model = find(device);

	if (model == NULL || model->no_query) {
		return -ENOTSUP;
	}
	assert_int_equal(entries, model->entries);
	for (uint32_t e = 0; e < entries; e++) {
		if ((table[e / 64].mask >> e % 64 & 1) != 0) {
			table[e / 64].reta[e % 64] =
				__atomic_load_n(&model->queue[e], __ATOMIC_RELAXED);
		}
	}
	return 0;
}

int __wrap_rte_eth_dev_rss_reta_update(
	uint16_t device, struct rte_eth_rss_reta_entry64 *table, uint16_t entries) {
	struct nic_model *model = find(device);
	int r;

	if (model == NULL) {
		return -ENOTSUP;
	}
	assert_int_equal(entries, model->entries);
	usleep(__atomic_load_n(&model->update_us, __ATOMIC_RELAXED) / 2);
	r = __atomic_load_n(&model->update_result, __ATOMIC_RELAXED);
	nic_model_lock(model);
	for (uint32_t e = 0; e < entries && (r == 0 || model->fails_late); e++) {
		if ((table[e / 64].mask >> e % 64 & 1) != 0) {
			__atomic_store_n(
				&model->queue[e], table[e / 64].reta[e % 64], __ATOMIC_RELAXED);
		}
	}
	nic_model_unlock(model);
	usleep(__atomic_load_n(&model->update_us, __ATOMIC_RELAXED) / 2);
	__atomic_fetch_add(&model->updates, 1, __ATOMIC_RELAXED);
	return r;
}
