// SPDX-License-Identifier: BSD-3-Clause
//
// Shed: the state, terms, texts and orders of one shed (sheds.h). Counts the flows of its backend
// and of the service.
//
// Threads: any; no shared state.
#pragma once

#include "agents.h"
#include "audit.h"
#include "shed_mean.h"
#include "tables.h"

#define WEIR_SHED_WHY_BYTES 256
#define WEIR_SHED_FOR_MOST_MS 86400000.0 // a day
#define WEIR_SHED_IDLE_MOST_MS 86400000.0

// States of a shed. X(NAME, "name"). A shed that has run and ended is kept until the next shed of
// its backend runs, or until the backend is removed or gets another address.
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
	bool dry_run; // end no connection, only ask the agent how many it could end
};

// Returns the default terms: 10 connections per second, idle for at least 5 s, for at most 10
// minutes.
struct weir_shed_terms weir_shed_terms_default(void);
// Check terms. Returns 0, or -EINVAL with a line in why that names the invalid argument of
// shed.start.
int weir_shed_terms_check(const struct weir_shed_terms *terms, char *why, size_t why_bytes);

struct weir_shed;
// Called once for each shed that was started. Its state is then RUNNING (DONE for a dry run), or
// FAILED, EXPIRED or STOPPED with the reason in `why`. Unless the shed is running, it is freed
// after the call.
typedef void (*weir_shed_begun)(void *context, const struct weir_shed *shed);

struct weir_shed {
	struct weir_shed *next; // next element of the list of all sheds
	char service[WEIR_CONFIG_NAME_BYTES], backend[WEIR_CONFIG_NAME_BYTES];
	// Address of the backend. A backend of this name with another address is a different
	// backend.
	struct weir_address address;
	struct weir_shed_terms terms;
	struct weir_audit_who who; // the user who started the shed
	uint8_t state; // enum weir_shed_state
	char why[WEIR_SHED_WHY_BYTES]; // why the shed ended or waits; "" = no reason
	uint64_t started_ms, ended_ms; // since 1970; ended_ms 0 = not ended
	uint64_t began_ms; // start, monotonic
	uint64_t level_ms; // when the backend reached the mean, monotonic; 0 = not at the mean
	struct weir_shed_level first, level; // levels at the start of the shed, and now
	uint64_t ended; // connections that were ended, or passed to the hook
	uint64_t orders; // number of orders with a count above 0
	// Values in the agent's last answer that contained numbers of connections.
	enum weir_agent_shed_method method;
	uint32_t connections, candidates, leaving;
	uint32_t unanswered; // number of consecutive orders without an answer
	bool in_flight; // an order is in flight
	uint16_t order_backend; // backend id in the order in flight
	struct weir_shed_gone gone; // ended flows that may still be in the flow table
	// Maximum number of flows that orders without a final answer may have ended. While this
	// shed runs, this number is subtracted from the flows of its backend, but not from the sum
	// of flows from which the mean is computed.
	uint64_t lost;
	weir_shed_begun begun; // NULL after the call
	void *context;
};

const char *weir_shed_state_name(enum weir_shed_state state);
bool weir_shed_is_running(const struct weir_shed *shed); // STARTING, RUNNING or STOPPING
// Set the reason why a shed waits or ends.
void weir_shed_note(struct weir_shed *shed, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
// Set the reason of a shed that ends because its backend is at the mean.
void weir_shed_note_mean(struct weir_shed *shed);
// Set the reason why an order has ended no connection.
void weir_shed_note_wait(struct weir_shed *shed, const struct weir_agents_shed_result *result);
// Returns whether an order was answered in time. Returns false for the answer LATE: the agent sends
// it if it receives an order after the deadline, or no longer stores the order.
bool weir_shed_is_answered(const struct weir_agents_shed_result *result);
// Returns whether an answer with this result contains the numbers of connections that the agent has
// counted.
bool weir_shed_has_numbers(enum weir_agent_shed_result result);
// Returns whether the backend is at or below the mean, either by the number of flows of this
// balancer or by the number of connections that the agent has counted. Connections that were passed
// to the hook are not counted.
bool weir_shed_is_at_mean(const struct weir_shed *shed);
// Returns why a backend cannot be compared with the mean; NULL = it can be compared.
const char *weir_shed_misfit(const struct weir_backend_state *backend);
// Returns the weight of a backend for the computation of the mean: 1 if the policy of its service
// ignores weights.
uint32_t weir_shed_weight(
	const struct weir_service_state *service, const struct weir_backend_state *backend);
// Returns why a shed fails if an order has this result; NULL = it does not fail.
const char *weir_shed_failure(enum weir_agent_shed_result result);
// Write the state of a shed for the audit, such as "running, 17 connections ended, 33 above the
// mean, at most 10/s". Returns buffer.
const char *weir_shed_describe(const struct weir_shed *shed, char *buffer, size_t bytes);

// Gets the state of a shed's backend. Returns false if the backend is no longer configured, or now
// has another address.
bool weir_shed_find_backend(const struct weir_tables *tables, const struct weir_shed *shed,
	struct weir_backend_state *ret);
// Returns the number of open flows of a backend, without the flows that its agent has ended. sheds:
// the list of all sheds.
uint64_t weir_shed_flows(const struct weir_tables *tables, const struct weir_shed *sheds,
	const struct weir_backend_state *backend, uint64_t now_ms);
// Returns the sum of weir_shed_flows over the service's backends that get new flows. Cost: reads
// the counters of each backend.
struct weir_shed_sum weir_shed_add_up(const struct weir_tables *tables,
	const struct weir_shed *sheds, const struct weir_service_state *service, uint64_t now_ms);

uint32_t weir_shed_rate_milli(const struct weir_shed_terms *terms); // connections per 1000 s
// Checks that a service has TCP binds, and that an order has room for all of them. service: NULL =
// the service is not configured. name: its name, for the text. Returns 0, or -EINVAL with the
// reason in why.
int weir_shed_check_binds(
	const struct weir_config_service *service, const char *name, char *why, size_t why_bytes);
// Returns the order that is sent to the agent of a backend in this step. The number of connections
// to keep is shed->level.mean. The order contains the TCP binds of the service. If a reload has
// added binds since the start of the shed, binds for which the order has no room are left out.
struct weir_agents_shed weir_shed_order(const struct weir_shed *shed,
	const struct weir_config_service *service, uint16_t backend, struct weir_shed_step step);
