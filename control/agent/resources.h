// SPDX-License-Identifier: BSD-3-Clause
//
// Resources of `weir-agent run`: everything that the process acquires before it drops its initial
// privileges. These are helper processes, sockets, files of the run directory, and keys.
//
// Threads: call before other threads start.
#pragma once

#include <stddef.h>

#include "agent_keys.h"
#include "datagrams.h"
#include "log.h"
#include "options.h"
#include "words.h"

struct weir_agent_resources {
	// Descriptors; -1 = none. A function that takes ownership of a descriptor sets the member
	// to -1.
	int meter_helper; // from weir_meter_helper_start; none without TCP ports
	int steal_helper; // from weir_steal_helper_start; none without --allow-steal
	int shed_helper; // from weir_shed_helper_start; none without --shed-idle and --shed-hook
	int local_fd; // from weir_local_socket_open
	int saved; // from weir_saved_state_open
	int capacity_cache; // from weir_capacity_cache_open; any negative value = none
	struct weir_word_listeners listeners;
	struct weir_datagrams datagrams;
	struct weir_agent_keys keys;
	uid_t key_owner; // the user that may own the key file, beside root
};

// Start the helpers, read the keys, open sockets and files, and then drop the privileges. The keys
// are read directly into ret, so that no copy of the keys is left in memory. Returns 0. On an error
// returns negative errno, writes one line into why, and closes everything.
int weir_agent_resources_open(const struct weir_agent_options *options, struct weir_log *log,
	struct weir_agent_resources *ret, char *why, size_t why_bytes);
// Close all descriptors, which terminates the helpers, and wipe the keys.
void weir_agent_resources_close(struct weir_agent_resources *resources);
