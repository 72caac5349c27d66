// SPDX-License-Identifier: BSD-3-Clause
//
// Lists the manual settings that a change of the configuration discards: drains and maintenance of
// backends, drains of binds, weights, and policies. Operators make these settings at run time.
// Settings are stored by name, so a service, backend or bind with a new name starts without
// settings. A weight that a canary keeps is discarded only when the backend is removed.
//
// Threads: one. Keeps no state.
#pragma once

#include "config_difference.h"
#include "tables.h"

// Returns the state of the canary that keeps the weight of a backend: "running", "paused" or
// "rolled-back". NULL = there is no such canary.
typedef const char *(*weir_keeping_canary_fn)(
	const void *context, const char *service, const char *backend);

struct weir_change_hand { // input; borrowed
	const struct weir_tables *tables;
	weir_keeping_canary_fn keeping_canary; // NULL = there are no canaries
	const void *canaries; // context of keeping_canary
	const struct weir_change *change; // a change that a reload applies
	const char *service, *backend; // names in the change; "" = none
	const struct weir_config_service *from,
		*to; // the service in both configurations; NULL = not configured
};

// Writes the settings that are discarded, such as "replaces the weight set by hand: 0 -> 7" or
// "not kept if it returns: maintenance of web-2 (10.0.0.12), weight 50 of web-1", or "ends: ..." if
// only the address changes. Also writes if a canary keeps a
// weight that the change would discard. Lists at most WEIR_CHANGE_HAND_MOST settings. "" = no
// setting is discarded or kept. Returns text. Cost: at most two lookups per backend of the service.
#define WEIR_CHANGE_HAND_MOST 4u
#define WEIR_CHANGE_HAND_BYTES 1024
const char *weir_change_hand_text(
	const struct weir_change_hand *hand, char text[WEIR_CHANGE_HAND_BYTES]);
