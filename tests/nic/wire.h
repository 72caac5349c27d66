// SPDX-License-Identifier: BSD-3-Clause
//
// Wire: the other end of the queues of the NIC (nic.c). A thread reads frames from a packet socket,
// computes their hash and puts them into their receive queue. The thread also sends the packets of
// the transmit queues. It sends them in the order in which workers queued them or, if nic_state.h
// `apart` is set, a few frames of each queue in turn, except for the paused queue.
//
// Threads: wire_start and wire_stop are called by one thread; the wire has its own thread.
#pragma once

#include <stdint.h>

#include "nic_model.h"
#include "nic_state.h"

struct rte_mempool;
struct rte_ring;
struct wire;

struct wire_params {
	const char *interface;
	struct nic_model *model; // hash key and redirection table
	struct nic_state *state;
	struct rte_ring *const *rx; // [queues]; a single producer
	struct rte_ring *const *tx; // [queues]; a single consumer
	uint16_t queues;
	int place_offset; // mbuf dynamic field with the position among all sent packets
	struct rte_mempool *pool; // pool of received packets
};

// Returns 0 or negative errno.
int wire_start(const struct wire_params *params, struct wire **ret);
void wire_stop(struct wire *wire); // NULL is allowed
// Total number of packets of a transmit queue that the wire has sent, modulo 2^32. Any thread.
uint32_t wire_departed(const struct wire *wire, uint16_t queue);
