// SPDX-License-Identifier: BSD-3-Clause
//
// Wire: what lies behind the queues of the NIC (nic.c). A thread reads frames from a packet socket,
// computes their hash, looks up their queue and puts them there; and sends what the balancer puts
// into the transmit queues, in its order or (state: apart) a few frames of each in turn, but for
// the one that pauses.
//
// Threads: wire_start and wire_stop by one; the thread is the wire's own.
#pragma once

#include <stdint.h>

#include "nic_model.h"
#include "nic_state.h"

struct rte_mempool;
struct rte_ring;
struct wire;

struct wire_params {
	const char *interface;
	struct nic_model *model; // its key, and its table
	struct nic_state *state;
	struct rte_ring *const *rx; // [queues]; a single producer
	struct rte_ring *const *tx; // [queues]; a single consumer
	uint16_t queues;
	int place_offset; // of what tells the order of packets that are sent, by its number
	struct rte_mempool *pool; // for what is received
};

// Returns 0 or negative errno.
int wire_start(const struct wire_params *params, struct wire **ret);
void wire_stop(struct wire *wire); // NULL is allowed
// Packets of a transmit queue that the wire has sent, ever, modulo 2^32. By any thread.
uint32_t wire_departed(const struct wire *wire, uint16_t queue);
