// SPDX-License-Identifier: BSD-3-Clause
//
// Announcement: the state that this agent announces to the balancers, the notices of a new one, and
// the drain of a lame duck.
//
// Threads: one, that of the event loop.
#pragma once

#include <uv.h>

#include "balancers.h"
#include "drain.h"
#include "health_state.h"
#include "log.h"

struct weir_announcement_params {
	struct weir_log *log;
	struct weir_balancers *balancers; // must outlive the announcement
	int saved; // of weir_saved_state_open, owned by the caller
	// Send a balancer the state without a probe.
	void (*notify)(void *context, const struct weir_balancer *balancer);
	// The connections at the ports of the service; UINT32_MAX = unknown.
	void (*connections)(void *context, uint32_t *ret_open, uint32_t *ret_half_open);
	void (*drained)(void *context); // the drain is done, or at its deadline
	void *context;
};

struct weir_announcement {
	struct weir_announcement_params params;
	enum weir_health_word word;
	uint32_t serial; // of the state, and of those of the ports
	uint32_t word_serial; // when the state last changed: the drain waits for this one
	char why[WEIR_AGENT_WHY_BYTES]; // zeroed behind the text
	struct weir_drain drain;
	bool final; // from here on the state is not saved
	uv_timer_t notice; // runs while a notice is unacknowledged
	uv_timer_t drain_turn; // runs while a lame duck
};

// Begins with the saved state; without one, STARTING with warm_up and READY otherwise. Sends
// nothing. Returns 0 or negative errno.
int weir_announcement_start(uv_loop_t *loop, const struct weir_announcement_params *params,
	bool warm_up, struct weir_announcement *ret);
// Run the loop afterwards to close its handles.
void weir_announcement_stop(struct weir_announcement *announcement);

// Become a lame duck, or set another deadline. Starts the drain. patient: see drain.h.
void weir_announcement_lame_duck(struct weir_announcement *announcement, uint64_t interval_ms,
	bool patient, const char *why);
void weir_announcement_ready(struct weir_announcement *announcement, const char *why);

// The states of ports have changed: the caller has logged them, and includes them in the notices.
void weir_announcement_ports(struct weir_announcement *announcement);

// The process ends on purpose: remove the saved state, and save none from here on.
void weir_announcement_is_final(struct weir_announcement *announcement);
