// SPDX-License-Identifier: BSD-3-Clause
//
// Worker lab: a worker with devices of device_lab.h, to which the test sends packets, and with the
// pipeline of pipeline_lab.h.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device_lab.h"
#include "frames.h"
#include "pipeline_lab.h"
#include "worker.h"

#define WORKERS 2
#define SELF 1 // the lab's pipeline belongs to worker 1
#define EXCEPTION LAB_PORTS // index of the exception device
#define DEVICES (LAB_PORTS + 1)
#define ACK 0x10

struct worker_lab {
	struct lab *lab;
	struct weir_plan plan;
	struct weir_buffers buffers;
	struct ring_device ring[DEVICES];
	struct weir_device device[DEVICES];
	struct weir_port port[LAB_PORTS];
	struct weir_transmit *transmit;
	struct weir_distributor *distributor;
	struct weir_worker *worker;
};

// The worker has ports 0 to 2. It receives packets on LAB_IN_PORT, which has an exception device.
// number: the lab's number, for the names of its devices.
struct worker_lab *worker_lab_make(unsigned int number, enum weir_config_idle idle);
void worker_lab_free(struct worker_lab *w); // also checks the sums
// Check that every packet is counted once, and that every drop has a reason.
void worker_lab_check_sums(const struct weir_worker_counters *c);
void worker_lab_add_source(struct worker_lab *w, enum weir_source_kind kind, uint8_t device);
void worker_lab_feed(struct worker_lab *w, uint8_t device, const struct frame_spec *spec);
uint32_t worker_lab_on_wire(struct worker_lab *w, uint8_t device);
// Returns a packet that belongs to no service.
struct frame_spec worker_lab_for_kernel(void);
// Fill a device's transmit queue, or take the sent packets from all devices.
void worker_lab_fill(struct worker_lab *w, uint8_t device);
void worker_lab_drain(struct worker_lab *w);
