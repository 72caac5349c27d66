// SPDX-License-Identifier: BSD-3-Clause
//
// Judge: checks that no packet is lost, repeated or reordered. It writes a sequence number into the
// IPv4 identification field of each packet from the wire. When the packets of a flow come back
// encapsulated (ipip), each number must occur once, in order, and with the same backend.
//
// Threads: one.
#pragma once

#include <stdint.h>

#include "nic_state.h"

struct judge;

struct judge *judge_create(struct nic_state *state); // returns NULL if out of memory
void judge_free(struct judge *judge);

// Call for each frame from the wire before the balancer receives it. Writes the sequence number.
void judge_arrival(struct judge *judge, uint8_t *frame, uint32_t n);
// Call for each frame that the balancer sends. Ignores all packets except IPv4 in IPv4.
void judge_departure(struct judge *judge, const uint8_t *frame, uint32_t n);
