// SPDX-License-Identifier: BSD-3-Clause
//
// What operators set at run time, and a change of the configuration ends: drains and maintenance of
// backends, drains of binds, weights, policies. All belong to names: under another name a service,
// backend or bind begins without them. A weight that a canary keeps does not end.
//
// Threads: one. Pure.
#pragma once

#include "config_difference.h"
#include "tables.h"

// The state of the canary that keeps the weight of a backend, "running", "paused" or "rolled-back";
// NULL = none does.
typedef const char *(*weir_keeping_canary_fn)(
	const void *context, const char *service, const char *backend);

struct weir_change_hand { // input; borrowed
	const struct weir_tables *tables;
	weir_keeping_canary_fn keeping_canary; // NULL = there are no canaries
	const void *canaries; // its context
	const struct weir_change *change; // that a reload applies
	const char *service, *backend; // names in it; "" = none
	const struct weir_config_service *from, *to; // of that name; NULL = not configured
};

// "replaces the weight set by hand: 0 -> 7", "ends: maintenance of web-2 (10.0.0.12), weight 50 of
// web-1": at most WEIR_CHANGE_HAND_MOST are named. "" = nothing ends. Returns text. Cost: one
// lookup per backend of the service at most.
#define WEIR_CHANGE_HAND_MOST 4u
#define WEIR_CHANGE_HAND_BYTES 1024
const char *weir_change_hand_text(
	const struct weir_change_hand *hand, char text[WEIR_CHANGE_HAND_BYTES]);
