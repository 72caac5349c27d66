// SPDX-License-Identifier: BSD-3-Clause
//
// Shed: carries out the balancers' orders to end connections, if the operator of this host permits
// it (--shed-idle, --shed-hook). Sends the helper process one request for each batch of
// connections; the rate of the order limits the requests. With --shed-idle, the helper ends the
// connections. With a hook, the helper only returns the connections, and the hook ends them.
//
// Threads: one, the event loop's.
#pragma once

#include <jansson.h>
#include <uv.h>

#include "agent_keys.h"
#include "datagrams.h"
#include "log.h"
#include "shed_helper.h"
#include "shed_hook.h"
#include "shed_orders.h"

#define WEIR_SHED_TICK_MS 100u
#define WEIR_SHED_HOOK_EVERY_MS 1000u // minimum time between two starts of the hook
// Minimum time from the start of the hook to the deadline of its order. If less time is left, the
// hook is not started. At the deadline, a running hook is killed.
#define WEIR_SHED_HOOK_LEAST_MS 600u
#define WEIR_SHED_PROBLEM_BYTES 256

struct weir_shed_params { // pointers: must outlive the shed
	struct weir_log *log;
	const struct weir_agent_keys *keys;
	const struct weir_datagrams *datagrams;
	uint64_t number; // random number of this process
	uint64_t started_ms; // time at which `clock_ms` in answers is 0
	enum weir_agent_shed_method method; // NO_METHOD: each order gets the answer OFF
	const char *hook; // command of the hook, if the method is HOOK
	const uint16_t *ports; // ports of the service
	uint32_t port_count;
};

struct weir_shed {
	struct weir_shed_params params;
	uv_loop_t *loop;
	int helper; // descriptor of weir_shed_helper_start; -1 = none, or the helper has exited
	uv_poll_t poll;
	uv_timer_t timer; // runs while an order is carried out
	struct weir_shed_hook hook;
	struct weir_shed_orders orders;
	struct weir_path path; // destination of the answers to the active order
	uint32_t requests; // ID of the last request to the helper
	uint32_t order_number; // ID of the active order, for the helper
	bool requested; // the helper's answer is pending
	uint64_t hook_ms; // time of the last start of the hook; 0 = none
	// taken: orders with a count above 0 that were begun. ended: connections that completed
	// orders have ended, or passed to the hook.
	uint64_t taken, ended;
	// why no connection can be ended; "" = no problem
	char problem[WEIR_SHED_PROBLEM_BYTES];
	struct weir_shed_helper_answer answer; // the helper's last answer
};

// Start. helper: descriptor of the helper; -1 if the method is NO_METHOD. The function takes
// ownership of the descriptor, even if it fails. Returns 0 or negative errno.
int weir_shed_start(
	uv_loop_t *loop, const struct weir_shed_params *params, int helper, struct weir_shed *ret);
// Stop. Run the event loop after this call, so that libuv can close the handles.
void weir_shed_stop(struct weir_shed *shed);

// Process an authentic order that was sent to the address of this agent. Returns why the order is
// refused without an answer, or NONE.
enum weir_agent_refusal weir_shed_take(
	struct weir_shed *shed, const struct weir_agent_shed *order, const struct weir_path *path);

// Returns {"method", "orders", "ended", "problem"?}, owned by the caller.
json_t *weir_shed_status(const struct weir_shed *shed);
