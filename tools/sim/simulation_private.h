// SPDX-License-Identifier: BSD-3-Clause
//
// The parts of a running simulation, each in its own file:
//   simulation.c  set-up and the loop of events
//   event.c       scheduling of events
//   client.c      clients: arrivals, subsets, the worker
//   table.c       the table that control publishes to a client (table.h)
//   request.c     requests: from arrival to their outcome
//   backend.c     backends: processor, reports
//   control.c     the control process: the list of backends, and which backends are usable
//   steal.c       stealing between backends: the input of the steal planner
//   steal_messages.c  stealing between backends: messages between control and the agents
//   script.c      events during the run, and the times when control detects them
//   metrics.c     measurements
// Private to these files.
//
// Threads: one simulation belongs to one thread.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "balanced.h"
#include "capability.h"
#include "cpu.h"
#include "event_queue.h"
#include "histogram.h"
#include "moving.h"
#include "policy.h"
#include "reported_errors.h"
#include "reported_share.h"
#include "result.h"
#include "scenario.h"

#define WEIR_SIM_NONE UINT32_MAX

enum weir_sim_event_kind {
	WEIR_SIM_EVENT_ARRIVAL, // index: client
	// index: request whose wait has ended, whose error has arrived, or which has moved
	WEIR_SIM_EVENT_REQUEST,
	WEIR_SIM_EVENT_CPU, // index: backend; one of its jobs may have ended
	WEIR_SIM_EVENT_TIMEOUT, // index: not used
	WEIR_SIM_EVENT_REPORT, // index: backend
	WEIR_SIM_EVENT_DELIVERY, // index: report in flight
	WEIR_SIM_EVENT_UPDATE, // index: client
	WEIR_SIM_EVENT_ANTAGONISTS, // index: not used
	WEIR_SIM_EVENT_ACTION, // index: action of the script
	WEIR_SIM_EVENT_SAMPLE, // index: not used
	WEIR_SIM_EVENT_WINDOW_BEGIN, // index: window
	WEIR_SIM_EVENT_WINDOW_END, // index: window
	WEIR_SIM_EVENT_STEAL_PLAN, // index: not used
	WEIR_SIM_EVENT_STEAL_ASK, // index: message that has reached the victim
	WEIR_SIM_EVENT_STEAL_ANSWER, // index: message; its answer has reached control
};

// The state of a request at its backend.
enum weir_sim_place {
	WEIR_SIM_GONE, // the request is at no backend, and no event is scheduled
	WEIR_SIM_WAITING, // waits before it needs the CPU; an event is scheduled
	WEIR_SIM_ERROR_COMING, // an event for the error is scheduled
	WEIR_SIM_WORKING, // the request runs on a CPU, or waits in the CPU's queue
	WEIR_SIM_DEAD, // the backend died; an event is still scheduled
	// The backend has released the request, so that the request can move; the event of the
	// answer (WEIR_SIM_EVENT_STEAL_ANSWER) is scheduled.
	WEIR_SIM_GIVEN_UP,
	// On the way to a backend after its release; an event is scheduled.
	WEIR_SIM_COMING,
};

struct weir_sim_request { // links are indexes into the pool
	uint64_t start_ns;
	double cost_ns;
	float wait_ns;
	uint32_t task; // task of the steal planner; WEIR_SIM_NONE = not in the plan
	uint32_t client, backend;
	// Neighbours in the list of requests with a timeout, in the order of their start. `newer`
	// also links the list of free requests.
	uint32_t older, newer;
	uint16_t slot; // the client's slot of the backend
	uint8_t place; // enum weir_sim_place
	uint8_t error; // with WEIR_SIM_ERROR_COMING: the error, enum weir_sim_ending
	bool established; // with WEIR_SIM_ERROR_COMING: the connection is established
	bool open; // the client still waits for the response
};

// A backend that a client uses. The client and its policy identify the backend by the index of this
// slot.
struct weir_sim_slot {
	uint32_t backend; // WEIR_SIM_NONE = free
	bool member; // member of the current subset
	bool was_member; // member before the current change
	bool lost; // the backend was a member until it became unusable
	struct weir_moving *moving; // service times; NULL until needed
	// Balanced weights: logarithm of the factor by which the configured weight is multiplied.
	double correction;
	struct weir_reported_count count; // last report of requests in progress
	uint64_t begun; // number of requests that the client has started
};

struct weir_sim_client {
	struct weir_policy_client policy; // first member, because of its alignment
	struct weir_policy_worker worker;
	struct weir_policy_table table;
	struct weir_candidate *candidates; // [table.count]
	struct weir_round *rounds; // [table.count]; NULL until a policy needs rounds
	uint16_t *maglev; // [table_size]; NULL until a policy needs the Maglev table
	uint64_t *cost_ns; // [slot_count]
	struct weir_sim_slot *slot;
	uint32_t slot_count;
	uint32_t member_count, lost_count;
	struct weir_prng prng;
	double interval_ns; // mean time between requests, while on
	uint64_t burst_end_ns; // bursty: end of the current or last on interval
	// The client's estimated share of the requests that its backends report.
	struct weir_reported_share share;
};

struct weir_sim_backend {
	struct weir_sim_cpu cpu;
	// Time of the next valid WEIR_SIM_EVENT_CPU; events at other times are ignored.
	uint64_t cpu_event_ns;
	double base_speed;
	double slow, antagonist, warm; // factors by which the base speed is multiplied
	struct weir_prng prng;
	uint32_t clients; // number of clients with this backend in their subset
	// Total numbers of requests; finished requests include failed requests.
	uint64_t given, failed, finished;
	// Values of finished and failed at the last report.
	uint64_t reported_finished, reported_failed;
	uint64_t reported_ns;
	double reported_busy_ns;
	uint64_t active; // number of requests in progress
	double latency_sum_ns; // total time of the successful requests
	double reported_latency_sum_ns;
	uint64_t reported_good, good; // number of successful requests: at the last report, and now
	double busy_at_sample_ns;
	double fail_percent; // share of failing requests; 0 = normal
	uint64_t fail_latency_ns;
	bool fail_established;
	uint32_t lives; // incremented when the backend dies
	bool down, silent;
	// State of the backend, as control has detected it. listed: the backend is configured.
	bool listed;
	uint64_t listing_ns; // time when the backend was last added or removed
	bool known_down, known_lame;
	bool eligible; // listed, and neither failed nor a lame duck
	uint64_t slow_start_ns; // time when the backend became eligible; 0 = from the start
	struct weir_capability capability;
	struct weir_reported_errors errors;
	struct weir_balanced_load load;
	uint64_t probe_ns, probe_active, probe_latency_ns; // newest report; probe_ns 0 = none
	// Service times measured by all clients; NULL if not needed.
	struct weir_moving *moving;
};

struct weir_sim_delivery { // a report in flight
	struct weir_capability_report report;
	uint64_t sent_ns, active;
	double latency_ns; // mean latency; 0 = no request has ended
	uint32_t backend, lives;
	uint32_t next_free;
};

enum weir_sim_action_kind {
	WEIR_SIM_ACTION_FAIL,
	WEIR_SIM_ACTION_FAIL_END,
	WEIR_SIM_ACTION_SLOW,
	WEIR_SIM_ACTION_SLOW_END,
	WEIR_SIM_ACTION_LEARN_LAME,
	WEIR_SIM_ACTION_DIE,
	WEIR_SIM_ACTION_LEARN_DEATH,
	WEIR_SIM_ACTION_RETURN,
	WEIR_SIM_ACTION_WARM,
	WEIR_SIM_ACTION_LEARN_RETURN,
	WEIR_SIM_ACTION_ADD, // adds `count` backends in one step, like one reload
	WEIR_SIM_ACTION_REMOVE,
	WEIR_SIM_ACTION_POLICY,
};

struct weir_sim_action {
	const struct weir_sim_happening *happening;
	// First backend and number of backends; count is 1 except for ADD and REMOVE.
	uint32_t backend, count;
	uint32_t kind; // enum weir_sim_action_kind
};

struct weir_sim_window_state {
	bool open;
	struct weir_sim_histogram *latency;
	struct weir_sim_totals totals; // totals at the beginning of the window
	double *busy_ns; // [backends], at the beginning of the window
	uint64_t *given, *failed;
};

struct weir_sim {
	const struct weir_sim_scenario *scenario;
	const struct weir_sim_policy *policy; // current policy
	bool collects; // service times are collected, because the policy needs them
	uint64_t seed, now_ns;
	int error; // the first error; the run stops at an error
	uint64_t events;
	struct weir_sim_queue queue;
	struct weir_sim_client *client;
	struct weir_sim_backend *backend;
	uint8_t *usable; // [backends], whether control treats each backend as usable
	uint32_t *listed; // [listed_count], indexes of the listed backends, in ascending order
	uint8_t *usable_listed; // [listed_count]
	uint32_t listed_count;
	bool list_changed; // the list has changed since the start of the run
	uint8_t *usable_next; // [backends], scratch
	uint64_t members; // number of members of all clients' subsets
	uint32_t *order; // scratch memory for subsetting
	uint64_t *numbers; // [backends], scratch memory of table.c
	double *capabilities; // [2 * backends], scratch memory of table.c
	uint32_t *weights; // [backends], scratch memory of table.c

	struct weir_sim_request *request;
	uint32_t request_count, request_room, request_free;
	uint32_t oldest, newest; // ends of the list of requests with a timeout
	bool timeout_scheduled;
	uint64_t open_requests;

	struct weir_sim_delivery *delivery;
	uint32_t delivery_count, delivery_room, delivery_free;

	struct weir_sim_steal *steal; // NULL = no stealing

	struct weir_sim_action *action;
	uint32_t action_count, action_room;
	struct weir_prng antagonists;

	struct weir_moving *latency; // mean latency of the fleet, for the automatic error window
	struct weir_sim_totals totals, sampled;
	struct weir_sim_histogram *sample_latency;
	struct weir_sim_window_state *window;
	double *sorted; // [backends], scratch
	struct weir_sim_result *result;
};

// Functions defined in event.c.
void weir_sim_fail(struct weir_sim *sim, int error);
void weir_sim_schedule(
	struct weir_sim *sim, uint64_t time_ns, enum weir_sim_event_kind kind, uint32_t index);

// Functions defined in client.c.
int weir_sim_clients_init(struct weir_sim *sim);
void weir_sim_clients_fini(struct weir_sim *sim);
void weir_sim_client_arrival(struct weir_sim *sim, uint32_t index);
void weir_sim_client_update(struct weir_sim *sim, uint32_t index);
void weir_sim_clients_lose(struct weir_sim *sim, uint32_t backend); // a backend became unusable
void weir_sim_clients_regain(struct weir_sim *sim); // a backend became usable
void weir_sim_clients_rechoose(struct weir_sim *sim); // choose all subsets again
void weir_sim_clients_republish(struct weir_sim *sim); // the policy has changed

// Functions defined in request.c.
void weir_sim_request_start(
	struct weir_sim *sim, uint32_t client, uint16_t slot, double cost_ns, double wait_ns);
void weir_sim_request_event(struct weir_sim *sim, uint32_t index);
// Ends the requests whose jobs on the backend's processor have ended.
void weir_sim_request_cpu(struct weir_sim *sim, uint32_t backend);
void weir_sim_requests_break(struct weir_sim *sim, uint32_t backend); // the backend died
void weir_sim_requests_timeout(struct weir_sim *sim);
// Makes the backend release this request, which the caller has removed from the queue of the
// processor. The request is then at no backend.
void weir_sim_request_give_up(struct weir_sim *sim, uint32_t index);
// Sends a released request to the backend of a slot of its client. The request arrives there at
// at_ns. The backend may be the previous backend of the request.
void weir_sim_request_come(struct weir_sim *sim, uint32_t index, uint16_t slot, uint64_t at_ns);
// Rejects a released request, because the policy selects no backend.
void weir_sim_request_reject(struct weir_sim *sim, uint32_t index);

// Functions defined in backend.c.
int weir_sim_backends_init(struct weir_sim *sim);
void weir_sim_backends_fini(struct weir_sim *sim);
// Returns whether the next event of the backend's processor is due now. If so, marks the event as
// handled: the caller must schedule the next event with weir_sim_backend_plan.
bool weir_sim_backend_is_due(struct weir_sim *sim, uint32_t index);
// Gives a request to the processor of a backend, or to its queue. cost_ns: CPU time of the request
// on a core of speed 1. Returns false if the queue is full.
bool weir_sim_backend_work(struct weir_sim *sim, uint32_t index, uint32_t request, double cost_ns);
// Sets the speed of a backend's processor after one of its factors has changed.
void weir_sim_backend_set_speed(struct weir_sim *sim, uint32_t index);
// Schedules the event for the next end of a job on the backend's processor, unless an earlier event
// is scheduled.
void weir_sim_backend_plan(struct weir_sim *sim, uint32_t index);
void weir_sim_backend_report(struct weir_sim *sim, uint32_t index);
void weir_sim_report_deliver(struct weir_sim *sim, uint32_t delivery);
void weir_sim_backends_antagonise(struct weir_sim *sim);

// Functions defined in control.c.
int weir_sim_control_init(struct weir_sim *sim); // call before creating the clients
void weir_sim_control_fini(struct weir_sim *sim);
// Call when control has detected a change of a backend's state.
void weir_sim_control_update(struct weir_sim *sim);
void weir_sim_control_list(struct weir_sim *sim, uint32_t first, uint32_t count, bool listed);

// Functions defined in steal.c.
int weir_sim_steal_init(struct weir_sim *sim); // call after creating backends, control and clients
void weir_sim_steal_fini(struct weir_sim *sim);
void weir_sim_steal_worked(struct weir_sim *sim, const struct weir_sim_request *request);
void weir_sim_steal_gone(struct weir_sim *sim, struct weir_sim_request *request);

// Functions defined in steal_messages.c.
void weir_sim_steal_plan(struct weir_sim *sim);
void weir_sim_steal_request(struct weir_sim *sim, uint32_t message);
void weir_sim_steal_answer(struct weir_sim *sim, uint32_t message);

// Functions defined in script.c.
int weir_sim_script_init(struct weir_sim *sim);
void weir_sim_script_act(struct weir_sim *sim, uint32_t action);

// Functions defined in metrics.c.
int weir_sim_metrics_init(struct weir_sim *sim);
void weir_sim_metrics_fini(struct weir_sim *sim);
void weir_sim_metrics_latency(struct weir_sim *sim, uint64_t latency_ns);
void weir_sim_metrics_subsets(struct weir_sim *sim); // some subsets have changed
void weir_sim_metrics_sample(struct weir_sim *sim);
void weir_sim_metrics_begin(struct weir_sim *sim, uint32_t window);
void weir_sim_metrics_end(struct weir_sim *sim, uint32_t window);
