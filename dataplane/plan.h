// SPDX-License-Identifier: BSD-3-Clause
//
// Plan: the devices that the dataplane will open and the memory that it needs, computed from the
// configuration and the kernel's interfaces before DPDK starts, because the memory limit is an
// argument of DPDK.
//
// Threads: one, before the workers exist.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config.h"
#include "device_plan.h"

struct weir_plan {
	struct weir_device_plan device[WEIR_DEVICES_MAX];
	// Number of devices. device[] contains the ports in the order of the configuration, then
	// the exception devices.
	uint32_t devices;
	struct weir_pool_plan pool[WEIR_POOLS_MAX];
	uint32_t pools;
	uint32_t workers;
	uint64_t buffer_bytes; // bytes of packet buffers on each NUMA node that has devices
	uint64_t flow_bytes; // flow tables of all workers
	uint64_t total_bytes; // total DPDK memory, on one node
};

// Computes the plan for a configuration. steer_object: path of the XDP program for AF_XDP ports
// whose device has no xdp_prog argument; "none" = the driver's own program. Returns 0, or negative
// errno with one line in why.
int weir_plan_make(const struct weir_config *config, const char *steer_object,
	struct weir_plan *ret, char *why, size_t why_bytes);
