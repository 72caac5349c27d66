// SPDX-License-Identifier: BSD-3-Clause
//
// NIC model: makes a device of the device lab (net_ring) behave like a NIC with RSS. Simulates the
// device information, the hash key, the redirection table, and the choice of a queue for each
// packet. A program that links the model wraps the DPDK functions listed in NIC_MODEL_WRAPS
// (meson.build).
#pragma once

#include <pthread.h>

#include "device_lab.h"
#include "rss_hash.h"

#define NIC_MODEL_ENTRIES_MAX 4096
#define NIC_MODELS_MAX 4

struct nic_model {
	char name[WEIR_DEVICE_NAME_BYTES]; // name of the device
	uint16_t entries; // number of entries of the redirection table
	bool passes_hash; // the device passes a hash with each packet, if enabled
	bool no_ports; // the device's hash covers only addresses
	bool refuses_key; // the device refuses a key other than its own
	bool no_query; // the redirection table cannot be read
	// result of a change of the table: 0, or negative errno; relaxed atomic access
	int update_result;
	bool fails_late; // a change of the table returns an error, but takes effect
	unsigned int update_us; // duration of a change; relaxed atomic access
	// Current state. Calls to DPDK functions change it.
	bool asked_for_hash;
	struct weir_rss_key key;
	uint16_t queue[NIC_MODEL_ENTRIES_MAX]; // relaxed atomic access
	unsigned int updates; // number of changes of the table; relaxed atomic access
	// Held while the table changes, and from the lookup of a packet in the table until the
	// packet is in its queue.
	pthread_mutex_t lock;
};

// Make the device with this name behave like this NIC, until nic_model_release. At first, the
// entries of the redirection table contain the queues in turn (0, 1 ...), and the key differs from
// the keys of other NICs.
void nic_model_add(struct nic_model *model, const char *name, uint16_t entries, uint16_t queues);
void nic_model_release(void); // releases all models
void nic_model_lock(struct nic_model *model);
void nic_model_unlock(struct nic_model *model);
// Returns the queue of a packet with this hash. If the table can change, the caller must hold the
// lock until the packet is in the queue.
uint16_t nic_model_queue(const struct nic_model *model, uint32_t hash);
