// SPDX-License-Identifier: BSD-3-Clause
//
// The affinity table of the dataplane without packets (daemon_lab.h): a list of IPv4 clients, and
// the answers of a worker to requests about it.
//
// Threads: the caller serializes the calls.
#pragma once

#include "mailbox.h"
#include "segment.h"

#define LAB_AFFINITY_ENTRIES 4096u

struct lab_affinity {
	uint32_t entries; // 0 = the dataplane has no affinity table
	uint32_t count;
	struct {
		uint8_t client[4];
		uint16_t service, backend;
		bool proven;
	} entry[LAB_AFFINITY_ENTRIES];
};

// Returns the index of the entry of a client, or -1.
int lab_affinity_find(
	const struct lab_affinity *affinity, uint16_t service, const uint8_t client[4]);
// Complete a response to WEIR_MESSAGE_SOURCE_LOOKUP or SOURCE_DELETE. usable: whether the backend
// of the entry takes new flows. chosen: backend of the Maglev fallback.
void lab_affinity_look_up(
	struct lab_affinity *affinity, struct weir_message *message, bool usable, uint16_t chosen);
// Complete a response to WEIR_MESSAGE_SOURCE_WALK.
void lab_affinity_walk(struct lab_affinity *affinity, struct weir_segment *segment, uint32_t worker,
	struct weir_message *message);
