// SPDX-License-Identifier: BSD-3-Clause
//
// Quorums: determines whether each service is up. A service becomes up when at least `quorum` +
// `hysteresis` of its backends are eligible, and down when fewer than `quorum` - `hysteresis` are;
// between these numbers, its state does not change. A service that is new to this process is up if
// at least `quorum` backends are eligible. Backups count only while the service runs on its
// backups. keepalived has the same rule for the sum of the weights of the real servers; it never
// counts a sorry server.
//
// Threads: only the event loop's thread.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "log.h"
#include "states.h"
#include "tables.h"

struct weir_quorum_change {
	uint16_t id; // of the service
	const char *service;
	bool known; // false: the first state of the service in this process
	bool up;
	uint32_t eligible, backends, quorum; // numbers of backends that count towards the quorum
	char why[96];
};

typedef void (*weir_quorum_changed)(void *context, const struct weir_quorum_change *change);

struct weir_quorum_state {
	bool known, up;
	char service[WEIR_CONFIG_NAME_BYTES]; // another service can get the id between two ticks
};

struct weir_quorums { // all zero: no services
	struct weir_log *log;
	struct weir_states *states; // records the changes in its history
	weir_quorum_changed changed; // NULL = no callback
	void *context;
	uint32_t ids;
	struct weir_quorum_state *state; // [ids]
};

// Returns the number of eligible backends that count towards the quorum: the primary backends, and
// the backups while the service runs on them.
uint32_t weir_quorum_eligible(const struct weir_service_state *service);

void weir_quorums_fini(struct weir_quorums *quorums);

// Update all services of the tables. Reports the first state of each service and each change; logs
// and records the changes. Call every tick.
void weir_quorums_tick(struct weir_quorums *quorums, const struct weir_tables *tables);

// Computes the state of a service from its current eligible backends, as the next tick will do: 1 =
// up, 0 = down, negative = no tick has processed the service yet, or the service was removed.
int weir_quorums_is_up(
	const struct weir_quorums *quorums, const struct weir_tables *tables, uint16_t id);
