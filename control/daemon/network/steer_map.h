// SPDX-License-Identifier: BSD-3-Clause
//
// Steer map: keeps the VIP maps of the ports' steer programs equal to the configuration's binds, so
// that only VIP traffic reaches the dataplane. Keys and their meaning: bpf/steer.h.
//
// The kernel's map is the only state: each update reads it and changes only the differences, so a
// restarted control process, or a new map of a restarted dataplane, needs no special case. New keys
// are added before old ones are deleted.
//
// TCP ports whose bind was removed are entered as leaving, so that the dataplane gets the packets
// of their open connections, until none has come for the idle timeout of established flows. They
// are left out where the map has no room for them.
//
// Order for the caller: publish the tables first, then update, so that no packet reaches a worker
// before its service is published.
//
// Threads: one. Blocking system calls of microseconds; works for the unprivileged holder of a
// descriptor (Linux 5.19 or later). No globals, no logging.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "config.h"

struct weir_steer_map_changes { // over all maps
	uint32_t keys; // wanted per map, without leaving ones
	uint32_t leaving; // keys, at most in a map
	uint32_t added;
	uint32_t deleted;
};

// Update the maps to the binds of config. fds: one per steered port, -1 is skipped, borrowed.
// config NULL: empty the maps. now_s: CLOCK_MONOTONIC. ret_changes may be NULL; with leaving keys,
// call again from time to time, as they expire. why gets one line on failure.
// Returns 0, -ENOSPC (more keys than a map holds: no map was changed), -EINVAL (a descriptor is not
// a VIP map), -ENOMEM, or the kernel's negative errno (maps may be partly updated; call again).
int weir_steer_map_update(const int *fds, uint32_t n, const struct weir_config *config,
	uint32_t now_s, struct weir_steer_map_changes *ret_changes, char *why, size_t why_bytes);
