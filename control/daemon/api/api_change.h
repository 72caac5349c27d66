// SPDX-License-Identifier: BSD-3-Clause
//
// What the handlers that drain and return backends share: api_change.c for one backend, api_host.c
// for all of a host.
//
// Threads: one, that of the loop.
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "api.h"

struct weir_daemon;

// The deadline of a drain, from the argument interval_ms: CLOCK_MONOTONIC, 0 = none. On an error,
// fails the call and returns false.
bool weir_api_deadline(struct weir_api_call *call, uint64_t *ret_until_ns);
// The drains of several backends or services.
struct weir_drain_sum {
	const uint32_t *phases; // [enum weir_drain_phase], their numbers
	uint64_t until_ns; // the last deadline
	bool endless; // one has no deadline
	int at_deadline; // enum weir_config_at_deadline; negative: they differ
};
// As weir_json_drain, with the phase of those that are least far.
json_t *weir_json_drains(const struct weir_drain_sum *sum);
// Set a backend to ready, and discard its announced state and ejection. Publishes nothing.
void weir_api_make_ready(struct weir_daemon *daemon, uint16_t backend);
