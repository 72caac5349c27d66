// SPDX-License-Identifier: BSD-3-Clause
//
// Announcement: announces the state of this host to the balancers, sends notices when the state
// changes, and runs the drain of a lame duck.
//
// Threads: one, the event loop's.
#pragma once

#include <uv.h>

#include "balancers.h"
#include "drain.h"
#include "health_state.h"
#include "log.h"

struct weir_announcement_params {
	struct weir_log *log;
	struct weir_balancers *balancers; // must outlive the announcement
	int saved; // descriptor from weir_saved_state_open, owned by the caller
	// Sends the state to one balancer, without waiting for the balancer's next probe.
	void (*notify)(void *context, const struct weir_balancer *balancer);
	// Counts the connections at the ports of the service; UINT32_MAX = unknown.
	void (*connections)(void *context, uint32_t *ret_open, uint32_t *ret_half_open);
	void (*drained)(void *context); // called when the drain is done or at its deadline
	void *context;
};

struct weir_announcement {
	struct weir_announcement_params params;
	enum weir_health_word word;
	uint32_t serial; // increases with each change of the state or of a port's state
	// Value of `serial` when the host's state last changed. A drain waits until the balancers
	// acknowledge this value.
	uint32_t word_serial;
	char why[WEIR_AGENT_WHY_BYTES]; // padded with zeros
	struct weir_drain drain;
	bool final; // the process exits after the drain, so the state is no longer saved
	uv_timer_t notice; // runs until all balancers have acknowledged the state
	uv_timer_t drain_turn; // runs from the start of a drain until it is done or at its deadline
};

// Set the initial state: LAME_DUCK if the previous process crashed as a lame duck; otherwise
// STARTING (if warm_up is true) or READY. Sends nothing. Returns 0 or negative errno.
int weir_announcement_start(uv_loop_t *loop, const struct weir_announcement_params *params,
	bool warm_up, struct weir_announcement *ret);
// Stop the timers. Run the event loop after this call, so that libuv can close their handles.
void weir_announcement_stop(struct weir_announcement *announcement);

// Become a lame duck and start the drain. If a drain is already running, start it again; a patient
// drain remains patient. interval_ms: maximum duration of the drain. patient: if no balancer probes
// this agent, the drain lasts for the whole interval (drain.h).
void weir_announcement_lame_duck(struct weir_announcement *announcement, uint64_t interval_ms,
	bool patient, const char *why);
void weir_announcement_ready(struct weir_announcement *announcement, const char *why);

// Notify the balancers that states of ports have changed. The caller logs the changes, and adds the
// states of the ports to the notices (params.notify).
void weir_announcement_ports(struct weir_announcement *announcement);

// Call this function when the process starts to exit. Removes the saved state of the host; later
// states of the host are not saved.
void weir_announcement_is_final(struct weir_announcement *announcement);
