// SPDX-License-Identifier: BSD-3-Clause
//
// Changes of states and events of backends and services, in the order in which they were added. If
// all places are in use, the service with the most changes loses its oldest one: a service with
// thousands of failing backends does not displace the changes of others.
//
// Threads: only the event loop's thread.
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "health_state.h"
#include "layout.h"

#define WEIR_STATES_EVENT_BYTES 320 // size of the text of an event, which can name binds
#define WEIR_STATES_HISTORY 1024u // number of changes and events kept, of all backends and services

struct weir_states_change {
	uint64_t time_ms; // milliseconds since 1970
	char service[WEIR_NAME_BYTES];
	char backend[WEIR_NAME_BYTES]; // "": an event of the service
	enum weir_health_state from, to; // equal: an event without a change of state
	char source[16]; // source of the change: "check", ...
	char why[WEIR_STATES_EVENT_BYTES];
	// If this is the oldest kept change of its service: number of older ones, which are no
	// longer kept; otherwise 0.
	uint64_t older;
};

struct weir_changes_service { // a service with at least one change
	uint32_t kept; // number of changes; 0 = this element is not in use
	uint16_t oldest; // place of the oldest change
	uint64_t lost; // number of changes that are no longer kept
};

#define WEIR_CHANGES_GONE_MOST 8192u // above the number of services

// Zeroed = no changes. About 0.5 MB.
struct weir_changes {
	struct weir_states_change change[WEIR_STATES_HISTORY];
	uint16_t service_of[WEIR_STATES_HISTORY]; // index of the service, for each place of change
	struct weir_changes_service service[WEIR_STATES_HISTORY];
	uint16_t order[WEIR_STATES_HISTORY]; // places of change in use, the oldest first
	uint32_t count; // number of places in use
	// {service: number of lost changes} of services without a kept change, at most
	// WEIR_CHANGES_GONE_MOST. Only with more services than places. NULL = none.
	json_t *gone;
};

void weir_changes_fini(struct weir_changes *changes);

// Adds a change; copied. Its member older is ignored.
void weir_changes_add(struct weir_changes *changes, const struct weir_states_change *change);

// Gets the n-th most recent change; n = 0 is the last one. Returns false if there is none.
bool weir_changes_get(
	const struct weir_changes *changes, uint32_t n, struct weir_states_change *ret);

// Returns the number of changes of a service that are no longer kept if no change of it is kept;
// otherwise 0. Above 0 only with more services than WEIR_STATES_HISTORY.
uint64_t weir_changes_lost(const struct weir_changes *changes, const char *service);
