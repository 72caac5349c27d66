// SPDX-License-Identifier: BSD-3-Clause
//
// A health check of one backend: when it runs, its probe, its verdict and counts.
// Independent of other checks.
//
// Threads: only the event loop's thread. Callbacks are called from the loop, and from
// weir_health_check_agent_result.
#pragma once

#include "health.h"
#include "health_curl.h"
#include "health_params.h"
#include "health_starts.h"

struct weir_health_check;

struct weir_health_checking { // data of all checks, owned by the caller
	uv_loop_t *loop;
	struct weir_health_curl *curl;
	struct weir_data_path *path; // NULL = no data path
	struct weir_health_starts starts;
	struct weir_health_durations durations;
	uint64_t random; // state of the random numbers for jitter, not 0
	weir_health_fn on_health;
	weir_health_report_fn on_report;
	weir_health_excuse_fn excuse; // NULL = none
	void *context; // context of the three callbacks above
	// The verdict on a backend changed to FAILING. Called before the other callbacks, to forget
	// the announced states in answers to all checks of the backend.
	void (*forget)(struct weir_health *health, uint16_t backend);
	struct weir_health *health; // for `forget`
};

void weir_health_checking_init(struct weir_health_checking *checking, uv_loop_t *loop);

// A check for a target's backend, with its initial verdict and word. It runs once
// weir_health_check_set was called. Returns NULL if out of memory.
struct weir_health_check *weir_health_check_create(
	struct weir_health_checking *checking, const struct weir_health_target *target);
// Check this target from now on, first after the delay. params: those of the target; takes over
// one of their users. The verdict and the word are kept.
void weir_health_check_set(struct weir_health_check *check, const struct weir_health_target *target,
	struct weir_health_params *params, uint64_t delay_ms);
// Whether the check already is a check of this target, with the same parameters.
bool weir_health_check_is_of(
	const struct weir_health_check *check, const struct weir_health_target *target);

// These functions do the same as the functions of health.h with similar names.
void weir_health_check_set_source(
	struct weir_health_check *check, const struct weir_address *source, uint8_t source_bits);
void weir_health_check_set_far(struct weir_health_check *check, bool far);
void weir_health_check_set_idle(struct weir_health_check *check, uint32_t interval_ms);
void weir_health_check_clear_words(struct weir_health_check *check);
void weir_health_check_restart(struct weir_health_check *check);
void weir_health_check_agent_result(struct weir_health_check *check,
	enum weir_probe_outcome outcome, const char *detail, uint32_t duration_ms);
void weir_health_check_status(
	const struct weir_health_check *check, struct weir_health_status *ret);
uint64_t weir_health_check_unchecked_ms(const struct weir_health_check *check);

// Handles close in the next iterations of the loop. NULL is allowed.
void weir_health_check_free(struct weir_health_check *check);
