// SPDX-License-Identifier: BSD-3-Clause
//
// Spreading: determines whether the packets of a port are spread over the workers by the software
// distributor or by the device, whether flows are in buckets, and the first owner of each bucket.
// Sets the RSS redirection tables (RETA) of devices accordingly.
//
// Threads: main. weir_spreading_plan is called while no worker runs.
#pragma once

#include "device.h"
#include "distribution.h"

struct weir_spreading {
	uint32_t workers;
	uint32_t ports;
	struct weir_distributed_port port[WEIR_PORTS_MAX];
	const struct weir_device *device[WEIR_PORTS_MAX]; // device of each port; borrowed
	enum weir_bucketing bucketing;
	uint8_t first_worker[WEIR_BUCKETS]; // first owner of the bucket
};

// Determine the spreading, for open devices. device: [ports]. may_share: the workers can share a
// flow memory. If flows are in buckets, sets the RETA of devices that spread flows. If this fails,
// flows are not in buckets.
void weir_spreading_plan(const struct weir_device *const *device, uint32_t ports, uint32_t workers,
	bool may_share, struct weir_spreading *ret);
// Get the initial queue of each entry of the RETA of a port. ret_queue: [port[port].table_entries].
void weir_spreading_first_queues(
	const struct weir_spreading *spreading, uint32_t port, uint16_t *ret_queue);
// If flows are in buckets, returns the key of the RSS hash that determines the bucket of a flow;
// NULL if the flow hash determines the bucket.
const struct weir_rss_key *weir_spreading_key(const struct weir_spreading *spreading);
