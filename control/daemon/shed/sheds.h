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

#include "log.h"
#include "shed.h"
#include "states.h"
#include "tables.h"

// A shed ends when the backend was at the mean for this time.
#define WEIR_SHED_SETTLED_MS 3000u

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
