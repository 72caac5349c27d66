// SPDX-License-Identifier: BSD-3-Clause
//
// Next hops: the next hop and path MTU of each backend, as the kernel has them (neighbours.h), for
// the tables, the history of states, and the source address of health checks.
//
// Threads: one, that of the loop.
#pragma once

#include <uv.h>

#include "config.h"
#include "health.h"
#include "log.h"
#include "path_mtu.h"
#include "states.h"
#include "tables.h"

struct weir_next_hops;

// states, health: borrowed. changed: something in the tables is to be published. Returns 0 or
// negative errno.
int weir_next_hops_create(uv_loop_t *loop, struct weir_log *log, struct weir_states *states,
	struct weir_health *health, void (*changed)(void *context), void *context,
	struct weir_next_hops **ret);
// Take the path MTU of backends from these sockets, which are owned from here on.
void weir_next_hops_listen(struct weir_next_hops *hops, struct weir_path_mtu_sockets *sockets);
// Memory is released by the loop's next iterations. NULL is fine.
void weir_next_hops_free(struct weir_next_hops *hops);

// Follow the backends of these tables over the ports of their segment (the former ones while there
// is none). After each weir_tables_apply and each new segment. tables: borrowed until the next
// call. Returns 0 or negative errno.
int weir_next_hops_configure(
	struct weir_next_hops *hops, struct weir_tables *tables, const struct weir_config *config);
