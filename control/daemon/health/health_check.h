// SPDX-License-Identifier: BSD-3-Clause
//
// A health check of one backend: schedules and runs probes, and keeps the verdict and the counts.
// Does not depend on other checks.
//
// Threads: only the event loop's thread. Callbacks are called from the loop, and from
// weir_health_check_agent_result.
#pragma once

#include "health.h"
#include "health_curl.h"
#include "health_params.h"
#include "health_starts.h"

struct weir_health_check;

struct weir_health_checking { // data that all checks share, owned by the caller
	uv_loop_t *loop;
	struct weir_health_curl *curl;
	struct weir_health_pings *pings; // NULL = no sockets for ICMP
	struct weir_programs *programs; // NULL = programs cannot run
	struct weir_data_path *path; // NULL = no data path
	struct weir_health_starts starts, program_starts; // program_starts: for checks of type exec
	struct weir_health_durations durations;
	uint64_t random; // state of the random numbers for jitter, not 0
	uint32_t covering; // number of checks whose cover.is_open is true
	weir_health_fn on_health;
	weir_health_report_fn on_report;
	weir_health_excuse_fn excuse; // NULL = none
	weir_health_names_fn names; // NULL = backends have no names
	void *context; // context of the four callbacks above
	// Called when the verdict on a backend has changed to FAILING, before on_health and
	// on_report. Not called for a check that runs alongside. Must discard the states that the
	// backend announced in its answers, for all of its checks.
	void (*forget)(struct weir_health *health, uint16_t backend);
	struct weir_health *health; // first argument of `forget`
};

void weir_health_checking_init(struct weir_health_checking *checking, uv_loop_t *loop);
// Call after checks were freed or set, because queued probes can then start. Starts them in the
// next iteration of the loop.
void weir_health_checking_wake(struct weir_health_checking *checking);

// Creates a check for a target's backend, with the target's initial verdict and announced state.
// The check starts to run when weir_health_check_set is called. Returns NULL if out of memory.
struct weir_health_check *weir_health_check_create(
	struct weir_health_checking *checking, const struct weir_health_target *target);
// Sets the target of the check. The first probe starts after the delay; the type agent has no
// probe. The verdict and the announced state are kept. params: the parameters of the target. The
// check takes over one reference to the parameters, which the caller has already counted in
// `users`.
void weir_health_check_set(struct weir_health_check *check, const struct weir_health_target *target,
	struct weir_health_params *params, uint64_t delay_ms);
// Returns whether the check already checks this target, with the same parameters.
bool weir_health_check_is_of(
	const struct weir_health_check *check, const struct weir_health_target *target);

// These functions are described in health.h, under the same names without "_check".
void weir_health_check_set_hop(
	struct weir_health_check *check, const struct weir_data_path_hop *hop);
void weir_health_check_set_far(struct weir_health_check *check, bool far);
void weir_health_check_set_idle(struct weir_health_check *check, uint32_t interval_ms);
void weir_health_check_clear_words(struct weir_health_check *check);
void weir_health_check_restart(struct weir_health_check *check);
void weir_health_check_agent_result(struct weir_health_check *check,
	enum weir_probe_outcome outcome, const char *detail, uint32_t duration_ms);
void weir_health_check_status(
	const struct weir_health_check *check, struct weir_health_status *ret);
uint64_t weir_health_check_unchecked_ms(const struct weir_health_check *check);

// The libuv handles are closed in the next iterations of the loop. NULL is allowed.
void weir_health_check_free(struct weir_health_check *check);
