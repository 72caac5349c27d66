// SPDX-License-Identifier: BSD-3-Clause
//
// NIC model: what a NIC with RSS adds to a device of the device lab (net_ring): its facts, the key
// of its hash, its table of queues, and which queue a packet comes to. Programs that link it wrap
// the calls of DPDK in NIC_MODEL_WRAPS (meson.build).
#pragma once

#include <pthread.h>

#include "device_lab.h"
#include "rss_hash.h"

#define NIC_MODEL_ENTRIES_MAX 4096
#define NIC_MODELS_MAX 4

struct nic_model {
	char name[WEIR_DEVICE_NAME_BYTES]; // of the device
	uint16_t entries; // of its table
	bool tells_hash; // with each packet, if asked to
	bool no_ports; // its hash is one of addresses only
	bool refuses_key; // that is not its own
	bool no_query; // its table cannot be read
	int update_result; // of a change of the table: 0, or negative errno; relaxed
	bool fails_late; // then it has changed nevertheless
	unsigned int update_us; // how long that takes; relaxed
	// As configured and set.
	bool asked_for_hash;
	struct weir_rss_key key;
	uint16_t queue[NIC_MODEL_ENTRIES_MAX]; // relaxed
	unsigned int updates; // changes of the table; relaxed
	pthread_mutex_t
		lock; // no packet is between the table and its queue while the table changes
};

// The device of that name is this NIC from now on, until nic_model_forget. Its table leads to its
// queues in turn, its key is one of its own.
void nic_model_add(struct nic_model *model, const char *name, uint16_t entries, uint16_t queues);
void nic_model_forget(void); // all of them
void nic_model_lock(struct nic_model *model);
void nic_model_unlock(struct nic_model *model);
// The queue that a packet with this hash comes to. Locked until it is there, if the table may
// change.
uint16_t nic_model_queue(const struct nic_model *model, uint32_t hash);
