// SPDX-License-Identifier: BSD-3-Clause
//
// Sheds: end connections of a backend that has more than the mean of its service, so that their
// clients connect again, to other backends. The backend's agent ends them, if its operator permits
// it; control sends it an order for about a second's connections at a time.
//
//   flows, weights --> sheds --orders--> agents --results--> sheds --events--> states, audit, log
//
// Guarantees:
//   D1 a shed ends at most as many connections as the backend had at its start, whatever is lost or
//      repeated: an order without a final answer counts in full. That many are needed if the
//      clients return to random backends by their weights: from m to n backends, of the connections
//      that are ended m/n return to the old backends.
//   D2 before each order the mean is computed again; it counts as no lower than at the start. No
//      order is given for more than what is above it then, and the agent ends none if its own count
//      of connections would fall below it.
//   D3 sheds end with this process. What the agent may still do then ends with the deadline of the
//      last order, at most 5 s later.
//
// Flows that an agent has ended with an RST stay in the flow table until their timeout, because
// with direct server return the balancer does not receive the RST. They are subtracted from the
// flows of the backend until then.
//
// Threads: the thread of the loop.
#pragma once

#include "agents.h"
#include "audit.h"
#include "log.h"
#include "shed_mean.h"
#include "states.h"
#include "tables.h"

#define WEIR_SHED_WHY_BYTES 256
// A shed ends when the backend was at the mean for this time.
#define WEIR_SHED_SETTLED_MS 3000u
#define WEIR_SHED_FOR_MOST_MS 86400000.0

// X(NAME, "name"). An ended shed stays until the next one of its backend.
#define WEIR_SHED_STATES(X) \
	X(STARTING, "starting") \
	X(RUNNING, "running") \
	X(STOPPING, "stopping") \
	X(DONE, "done") \
	X(EXPIRED, "expired") \
	X(STOPPED, "stopped") \
	X(FAILED, "failed")

enum weir_shed_state {
#define X(name, key) WEIR_SHED_##name,
	WEIR_SHED_STATES(X)
#undef X
};

struct weir_shed_terms {
	double rate; // connections per second, 0.2 to 1000
	double idle_ms; // minimum idle time; ignored by agents with a hook
	double for_ms; // maximum duration
	bool dry_run; // only ask the agent what it could end
};

// The default terms: 10 a second, idle for 5 s, for 10 minutes.
struct weir_shed_terms weir_shed_terms_default(void);
// Check terms. Returns 0, or -EINVAL with a line in why that names the argument of shed.start.
int weir_shed_terms_check(const struct weir_shed_terms *terms, char *why, size_t why_bytes);

struct weir_shed;
// Called once for a shed that was started: state RUNNING (DONE for a dry run or if nothing is above
// the mean any more), or FAILED with the reason. The shed of a dry run is freed afterwards.
typedef void (*weir_shed_begun)(void *context, const struct weir_shed *shed);

struct weir_shed {
	char service[WEIR_CONFIG_NAME_BYTES], backend[WEIR_CONFIG_NAME_BYTES];
	struct weir_shed_terms terms;
	struct weir_audit_who who; // the user who started the shed
	uint8_t state; // enum weir_shed_state
	char why[WEIR_SHED_WHY_BYTES]; // why it ended or waits; "" = nothing to say
	uint64_t started_ms, ended_ms; // since 1970; ended_ms 0 = not ended
	uint64_t began_ms; // start, monotonic
	uint64_t level_ms; // since when it is at the mean, monotonic; 0 = it is not
	struct weir_shed_level first, level; // at the start, and now
	uint64_t ended; // connections that were ended, or passed to the hook
	uint64_t orders; // orders with a count above 0
	// The last answer of the agent.
	enum weir_agent_shed_method method;
	uint32_t connections, candidates, leaving;
	uint32_t unanswered; // attempts without an answer, in a row
	bool in_flight; // an order is in flight
	uint16_t order_backend; // its backend id
	// Ended flows that may still be in the flow table, and when the last one was ended.
	uint64_t gone, gone_ms;
	weir_shed_begun begun; // NULL once it was called
	void *context;
};

struct weir_sheds_of { // all borrowed
	const struct weir_log *log;
	struct weir_audit *audit;
	struct weir_states *states;
	struct weir_agents *agents;
};

struct weir_sheds;

int weir_sheds_create(const struct weir_sheds_of *of, struct weir_sheds **ret); // 0 or -ENOMEM
// Ends all sheds, as FAILED: the dataplane has exited, or this process ends. NULL is allowed.
void weir_sheds_abandon(struct weir_sheds *sheds, const char *why);
void weir_sheds_free(struct weir_sheds *sheds); // NULL is allowed
// Call after a configuration was applied to the tables (borrowed until the next call).
void weir_sheds_follow(struct weir_sheds *sheds, struct weir_tables *tables);
// Continues all sheds; call once a second.
void weir_sheds_second(struct weir_sheds *sheds, uint64_t now_ms);

// Start a shed, or a dry run. who: the user. begun: called later, once. Returns 0, -ENOMEM, or
// -EINVAL with the reason and a remedy in why: no agent, no other backend, not above the mean, ...
int weir_sheds_start(struct weir_sheds *sheds, uint16_t backend,
	const struct weir_shed_terms *terms, const struct weir_audit_who *who, uint64_t now_ms,
	weir_shed_begun begun, void *context, char *why, size_t why_bytes);
// End a running shed on request of an operator, once its order in flight is over. Returns 0 or
// -ENOENT.
int weir_sheds_stop(struct weir_sheds *sheds, const char *service, const char *backend);

// The last shed of a backend, or NULL.
const struct weir_shed *weir_sheds_find(
	const struct weir_sheds *sheds, const char *service, const char *backend);
const char *weir_shed_state_name(enum weir_shed_state state);
bool weir_shed_is_running(const struct weir_shed *shed); // STARTING, RUNNING or STOPPING
// Describe a shed for the audit: "running, 17 connections ended, 33 above the mean, at most 10/s".
// Returns buffer.
const char *weir_shed_describe(const struct weir_shed *shed, char *buffer, size_t bytes);
