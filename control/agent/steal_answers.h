// SPDX-License-Identifier: BSD-3-Clause
//
// Steal answers: decides whether a flow can be moved to another backend. Looks up the flow in the
// kernel, and makes the helper process remove an incomplete handshake.
//
// Threads: one, the event loop's.
#pragma once

#include <uv.h>

#include "agent_keys.h"
#include "datagrams.h"
#include "handshake.h"
#include "log.h"
#include "steals.h"
#include "syn_cookies.h"

#define WEIR_STEAL_PROBLEM_BYTES 256

struct weir_steal_answers_params { // pointers: must outlive the answers
	struct weir_log *log;
	const struct weir_agent_keys *keys;
	const struct weir_datagrams *datagrams;
	uint64_t number; // random number of this process
	uint64_t started_ms; // time at which `clock_ms` in answers is 0
	bool allowed; // --allow-steal; otherwise each request gets the answer OFF
	const uint16_t *ports; // ports of the service
	uint32_t port_count;
};

struct weir_steal_answers {
	struct weir_steal_answers_params params;
	uv_loop_t *loop;
	int helper; // descriptor of weir_steal_helper_start; -1 = none, or the helper has exited
	bool failed_start; // the helper has reported why it cannot start
	int error; // negative errno that was logged last; 0 = the last removal had no error
	char problem[WEIR_STEAL_PROBLEM_BYTES]; // why handshakes are not removed; "" = no problem
	uv_poll_t poll;
	struct weir_handshakes handshakes;
	struct weir_syn_cookies cookies;
	struct weir_steals steals;
	uint64_t answered[WEIR_AGENT_STEAL_RESULT_COUNT];
};

// Start. helper: descriptor of the helper, or -1 if params->allowed is false. The function takes
// ownership of the descriptor, even if it fails. Returns 0 or negative errno.
int weir_steal_answers_start(uv_loop_t *loop, const struct weir_steal_answers_params *params,
	int helper, struct weir_steal_answers *ret);
// Stop. Run the event loop after this call, so that libuv can close the handle.
void weir_steal_answers_stop(struct weir_steal_answers *answers);

// Process an authentic request that was sent to the address of this agent. Returns why the request
// is refused without an answer, or NONE.
enum weir_agent_refusal weir_steal_answers_take(struct weir_steal_answers *answers,
	const struct weir_agent_steal *steal, const struct weir_path *path);
