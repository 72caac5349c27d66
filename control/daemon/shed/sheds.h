// SPDX-License-Identifier: BSD-3-Clause
//
// Sheds: end connections of a backend that has more connections than the mean of its service, so
// that the clients connect again, to other backends. The agent of the backend ends the connections,
// if the operator of the server permits this. About once a second, weir-control orders the agent to
// end some of the connections.
//
//   flows, weights --> sheds --orders--> agents --results--> sheds --events--> states, audit, log
//
// Guarantees:
//   D1 a shed ends at most as many connections as the backend had at its start, whatever is lost or
//      repeated: an order without a final answer counts in full. That many are needed if the
//      clients return to random backends by their weights: from m to n backends, of the connections
//      that are ended m/n return to the old backends.
//   D2 the mean is computed again every second; it counts as no lower than at the start. No order
//      is given for more connections than are above it then, whether or not orders without a final
//      answer were carried out. The agent ends no connection if its own count of connections, which
//      includes those of all balancers, would fall below the mean.
//   D3 sheds end with this process. After the deadline of the last order, which is at most 5 s
//      later, the agent ends no connection and passes none to its hook.
//
// Flows that an agent has ended with an RST stay in the flow table, see struct weir_shed_gone. They
// are subtracted from the flows of the backend until their timeout. This subtracts too much if the
// table had no entry for an ended connection: it was idle for longer than the timeout of
// established flows, or was one of another balancer. Then the shed ends above the mean, and the
// mean of the other backends is too low, until the timeout.
//
// Threads: the thread of the loop.
#pragma once

#include "log.h"
#include "shed.h"
#include "states.h"
#include "tables.h"

// A shed ends when the backend has been at the mean for this time.
#define WEIR_SHED_SETTLED_MS 3000u

struct weir_sheds_of { // all borrowed
	const struct weir_log *log;
	struct weir_audit *audit;
	struct weir_states *states;
	struct weir_agents *agents;
};

struct weir_sheds;

int weir_sheds_create(const struct weir_sheds_of *of, struct weir_sheds **ret); // 0 or -ENOMEM
// Ends all sheds, as FAILED: the dataplane has exited, so its flow table is lost, or this process
// ends. NULL is allowed.
void weir_sheds_abandon(struct weir_sheds *sheds, const char *why);
void weir_sheds_free(struct weir_sheds *sheds); // NULL is allowed
// Call after a configuration was applied to the tables (borrowed until the next call).
void weir_sheds_follow(struct weir_sheds *sheds, struct weir_tables *tables);
// Continues all sheds; call once a second.
void weir_sheds_second(struct weir_sheds *sheds, uint64_t now_ms);

// Start a shed, or a dry run. who: the user. begun: called later, once. Returns 0, -ENOMEM, or
// -EINVAL with the reason and a remedy in why: no agent, no other backend, not above the mean,
// panic mode, WEIR_AGENTS_SHEDS_MAX sheds are running, ...
int weir_sheds_start(struct weir_sheds *sheds, uint16_t backend,
	const struct weir_shed_terms *terms, const struct weir_audit_who *who, uint64_t now_ms,
	weir_shed_begun begun, void *context, char *why, size_t why_bytes);
// Ends a running shed on request of an operator. If an order is in flight, the shed ends when the
// order has ended. Returns 0 or -ENOENT.
int weir_sheds_stop(struct weir_sheds *sheds, const char *service, const char *backend);

// Returns the last shed of a backend, which is running, starting or ended; NULL = there was none.
const struct weir_shed *weir_sheds_last(
	const struct weir_sheds *sheds, const char *service, const char *backend);
