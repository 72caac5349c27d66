// SPDX-License-Identifier: BSD-3-Clause
//
// Judge: checks that no packet is lost, repeated or reordered. It numbers the packets of each IPv4
// flow from the wire, in the identification field of their IP header. When they come back
// encapsulated (ipip), each number must occur once, in order, and with the same backend.
//
// Threads: one.
#pragma once

#include <stdint.h>

#include "nic_state.h"

struct judge;

struct judge *judge_create(struct nic_state *state); // NULL: no memory
void judge_free(struct judge *judge);

// A frame from the wire, before the balancer gets it: a packet of a flow is numbered.
void judge_arrival(struct judge *judge, uint8_t *frame, uint32_t n);
// A frame sent by the balancer. Anything but an IPv4 packet in an IPv4 packet is ignored.
void judge_departure(struct judge *judge, const uint8_t *frame, uint32_t n);
