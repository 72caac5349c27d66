// SPDX-License-Identifier: BSD-3-Clause
//
// Sheds: a shed ends connections of a backend that has more connections than the mean of its
// service, so that their clients connect again, mostly to other backends. The agent of the backend
// ends the connections, if the operator of the server permits this. About once a second,
// weir-control orders the agent to end some of the connections.
//
//   flows, weights --> sheds --orders--> agents --results--> sheds --events--> states, audit, log
//
// Guarantees:
//   D1 a shed ends at most as many connections as the backend had at the start of the shed, even if
//      messages are lost or repeated: if an order has no final answer, all its connections count as
//      ended. The limit is not lower, because clients connect again to random backends, by weight:
//      if a service has grown from m to n backends, m/n of the ended connections return to the old
//      backends.
//   D2 the mean is computed again every second; if it is lower than at the start, the mean at the
//      start is used. No order permits more ended connections than are above the mean at that
//      time, even if earlier orders have no final answer. The agent ends no connection if its
//      own count of connections, which includes the connections of all balancers, would fall below
//      the mean.
//   D3 sheds end when this process exits. The deadline of the last order is at most 5 s later.
//      After the deadline, the agent ends no connection and passes no connection to its hook.
//
// Flows that an agent has ended with an RST stay in the flow table, see struct weir_shed_gone. They
// are subtracted from the flows of the backend until their timeout. This subtracts too much if the
// table has no entry for an ended connection: the connection was idle for longer than the timeout
// of established flows, or belongs to another balancer. Then, until the timeout, a shed can end
// while the backend is still above the mean, and the mean of the other backends is too low.
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
// Ends all running sheds, and sets their state to FAILED. why: the reason. Call this function when
// the dataplane has exited, because its flow table is lost, or when this process exits. NULL is
// allowed.
void weir_sheds_abandon(struct weir_sheds *sheds, const char *why);
void weir_sheds_free(struct weir_sheds *sheds); // NULL is allowed
// Call this function after a configuration was applied to the tables. Until the first call,
// weir_sheds_start refuses all sheds. tables: borrowed until the next call.
void weir_sheds_follow(struct weir_sheds *sheds, struct weir_tables *tables);
// Continues all sheds; call this function once a second.
void weir_sheds_second(struct weir_sheds *sheds, uint64_t now_ms);

// Starts a shed, or a dry run. who: the user who starts it. begun: if the result is 0, called once:
// usually later, but before this function returns if the shed fails immediately. Returns 0,
// -ENOMEM, or -EINVAL with the reason and a remedy in why: no agent, no other backend, not above
// the mean, panic mode, WEIR_AGENTS_SHEDS_MAX sheds are running, ...
int weir_sheds_start(struct weir_sheds *sheds, uint16_t backend,
	const struct weir_shed_terms *terms, const struct weir_audit_who *who, uint64_t now_ms,
	weir_shed_begun begun, void *context, char *why, size_t why_bytes);
// Ends a shed at the request of an operator. If an order is in flight, the shed ends when the order
// has ended. A shed that is starting, without an order in flight, ends within a second. Returns 0,
// or -ENOENT if no shed of this backend is running (weir_shed_is_running).
int weir_sheds_stop(struct weir_sheds *sheds, const char *service, const char *backend);

// Returns the last shed of a backend, except dry runs. The shed may be starting, running or ended.
// NULL = there is no such shed.
const struct weir_shed *weir_sheds_last(
	const struct weir_sheds *sheds, const char *service, const char *backend);
