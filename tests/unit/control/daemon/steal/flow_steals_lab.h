// SPDX-License-Identifier: BSD-3-Clause
//
// Flow steals with real tables and mailboxes, with workers and agents controlled by the test.
#pragma once

#include "flow_steals.h"
#include "tables_lab.h"

#define FLOWS_MAX 1000u
#define REQUESTS_MAX 4096u
#define VICTIM 1

struct flow { // a flow in the table of a worker
	bool there;
	uint32_t worker;
	uint16_t client_port; // different for each flow
	uint16_t backend;
	uint32_t stamp;
	uint32_t moves;
};

enum workers { ANSWER, SILENT, OLD }; // OLD: a dataplane that does not support the messages

struct own {
	struct lab lab;
	struct weir_config *config; // service s0, backends b0 to b3
	struct weir_log log;
	struct weir_states *states;
	struct weir_estimates *estimates;
	struct weir_reports *reports;
	struct weir_mailboxes mailboxes;
	struct weir_flow_steals *steals;
	uv_loop_t loop;
	struct flow flow[FLOWS_MAX];
	uint32_t flows;
	enum workers workers;
	int move_answer; // replaces the correct answer; -1 = correct
	uint32_t widest; // widest range requested from a worker
	uint32_t waited_ms; // ms since the SYN of each flow; not used if the test sets syn_ms
	uint64_t syn_ms; // time of the SYN of all flows; 0 = unused
	uint32_t lists; // lists requested from workers
	uint64_t requested_ms; // time when an agent received the last request
	// The agents.
	int ask_error; // result of weir_agents_request_steal
	weir_agents_steal_ended answer; // callback at the end of a request
	void *answer_context;
	bool holds; // answers wait until the test sends them
	int copies; // number of copies of each answer
	enum weir_agent_steal_result result;
	struct weir_agents_steal requests[REQUESTS_MAX];
	uint32_t request_count, answered;
	unsigned int lines; // number of log lines
};

// Opens the lab with backends b0 to b3. Their agents have reported, and the queue of VICTIM is
// full.
int setup(void **state);
int teardown(void **state);
void configure(struct own *own); // apply own->config
void report(struct own *own, uint16_t backend, double queue, double limit);
void begin_flows(struct own *own, uint32_t n); // flows at VICTIM
// Begin n flows at VICTIM, and wait until its agent has received a request for each flow. The agent
// does not answer yet.
void hold_answers(struct own *own, uint32_t n);
uint32_t flows_at(const struct own *own, uint16_t backend);
void answer_all(struct own *own); // answer the requests that agents have received
uint64_t now_ms(void);
void run_for(struct own *own, uint64_t ms);
struct weir_flow_steals_service shown(const struct own *own);
uint64_t ended(const struct own *own); // number of ended requests
void run_until_ended(struct own *own, uint64_t count);
