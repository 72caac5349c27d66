// SPDX-License-Identifier: BSD-3-Clause
//
// Sheds with real tables and a simulated agent: the test gets the orders, and returns their
// results.
#pragma once

#include "sheds.h"
#include "tables_lab.h"

#define MEAN 40 // mean of the flows that setup() sets

struct shed_lab { // one service with three backends
	struct lab lab;
	struct weir_config *config;
	struct weir_log log;
	struct weir_audit *audit;
	struct weir_sheds *sheds;
	weir_agents_shed_ended ended; // callback of the sheds, with its context
	void *context;
	uint16_t id[3];
	uint64_t now_ms;
	// Calls that the sheds have made, and results that the test returns.
	struct weir_agents_shed order; // the last order
	uint32_t orders;
	int refuse; // result of further orders: 0 or negative errno
	bool silent; // the agent does not answer probes
	uint64_t sums; // number of reads of the counters of a backend
	uint32_t begun; // number of calls of the callback of start()
	uint8_t state; // state of the shed in the last call of this callback
	char why[WEIR_SHED_WHY_BYTES];
};

extern const struct weir_agents_shed_result busy; // the agent still executes another order

// Opens the lab: b0 and b1 have 60 open flows, b2 has none.
int setup(void **state);
int teardown(void **state);
// Opens the tables, with this number of backends. The sheds follow them.
void open_lab(struct shed_lab *test, uint32_t backends);
void set_flows(const struct shed_lab *test, uint32_t i, uint64_t flows); // of backend i

// Starts a shed of backend i. Returns the result of weir_sheds_start(), with the reason in why.
int start(struct shed_lab *test, uint32_t i, bool dry_run);
// Starts a shed of b0, whose agent counts 60 connections. The shed then runs, and its next order is
// in flight.
void begin(struct shed_lab *test);
void begin_again(struct shed_lab *test); // as begin(), after another shed or start
void answer(struct shed_lab *test, struct weir_agents_shed_result result); // to the last order
// A result of an agent that ends idle connections.
struct weir_agents_shed_result result_of(uint32_t connections, uint32_t ended);
void second(struct shed_lab *test); // a second passes
const struct weir_shed *first(const struct shed_lab *test); // the last shed of b0, or NULL
