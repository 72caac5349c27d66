// SPDX-License-Identifier: BSD-3-Clause
//
// Steer map: updates the VIP maps of the ports' steer programs to match the binds of the
// configuration, so that only VIP traffic reaches the dataplane. Keys and values: bpf/steer.h.
// The module keeps no state: each update reads the maps from the kernel and changes only the
// differences. A restart of weir-control or weir-dataplane therefore needs no special case. New
// keys are added before old keys are deleted, if the map has room for both.
// When a bind is removed, its TCP ports are stored as "leaving". The dataplane still gets the
// packets of open connections to a leaving port, until no such packet has arrived for the idle
// timeout of established flows. If a map has no room, leaving ports are not stored.
// The caller must publish the tables before it updates the maps, so that no packet reaches a worker
// before its service is published.
//
// Threads: one. Makes blocking system calls that take microseconds. An unprivileged process that
// holds the descriptor can update the map (Linux 5.19 or later). No globals, no logging.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "config.h"

struct weir_steer_map_changes {
	// number of keys of the configuration, without leaving keys; the same in each map
	uint32_t keys;
	// numbers of keys, each summed over all maps
	uint32_t leaving; // leaving keys
	uint32_t total; // after the update, with leaving keys
	uint32_t added, deleted;
};

// Updates the maps to match the binds of a configuration. fds: one descriptor per steered port,
// borrowed; -1 is skipped. config: NULL = all entries are deleted. now_s: CLOCK_MONOTONIC.
// ret_changes: NULL is allowed. While there are leaving keys, call this function regularly, because
// leaving keys expire. On failure one line is written to why.
// Returns 0, -ENOSPC (more keys than a map holds: no map was changed), -EINVAL (a descriptor is not
// a VIP map), -ENOMEM, or the kernel's negative errno (maps may be partly updated; call again).
int weir_steer_map_update(const int *fds, uint32_t n, const struct weir_config *config,
	uint32_t now_s, struct weir_steer_map_changes *ret_changes, char *why, size_t why_bytes);
