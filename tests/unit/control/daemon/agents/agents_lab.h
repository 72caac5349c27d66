// SPDX-License-Identifier: BSD-3-Clause
//
// weir_agents with an agent that the test simulates in the same process. The agent has two
// addresses, and refuses replayed probes, as weir-agent does. The lab asserts that each probe
// without an answer ends after its whole timeout.
#pragma once

#include <netinet/in.h>

#include "agents.h"
#include "health_state.h"
#include "replay.h"
#include "test.h"

struct lab {
	uv_loop_t loop;
	struct weir_agents *agents;
	struct weir_agent_keys keys;
	int fd; // socket of the agent that got the last datagram
	int fds[2]; // sockets at 127.0.0.1 and 127.0.0.2
	uint16_t port;
	struct sockaddr_in from; // sender of the last datagram
	struct weir_agent_probe probe; // the last probe
	unsigned int probes, probes_at[2];
	struct weir_replay replay;
	bool answers; // the simulated agent answers each probe automatically
	bool flaps; // each answer has a new state, and is followed by an unsolicited answer
	struct weir_agent_answer answer; // the agent's answer, without balancer and challenge
	// If set: takes the datagrams of kind order_kind. All other datagrams are probes.
	void (*on_order)(struct lab *lab, const uint8_t *bytes, size_t count);
	uint8_t order_kind; // enum weir_agent_kind
	uv_poll_t polls[2];
	uv_timer_t deadline;
	// Counts of callbacks.
	unsigned int reports, reports_of_9, answered, silent, unknown, gone;
	uint16_t backend;
	struct weir_report report;
	unsigned int tcps, tcps_of_9; // number of reports of TCP statistics
	struct weir_agent_tcp tcp;
	unsigned int silent_when_gone; // value of `silent` when an agent was last reported as lost
	bool no_link; // the link to the agent is down
};

// Open a lab without targets. The agent answers "ready" to each probe. *lab must be zero.
void lab_open(struct lab *lab);
void lab_close(struct lab *lab);
// Set-up and tear-down: *state is a struct lab.
int lab_setup(void **state);
int lab_teardown(void **state);

// Returns a target of the agent at 127.0.0.1, with an interval of 40 ms.
struct weir_agents_target target_of(const struct lab *lab, uint16_t backend);
// Replace all targets with this one.
void configure(struct lab *lab, uint16_t backend);
// The same with an interval of 500 ms, for tests of messages other than probes.
void configure_slow(struct lab *lab, uint16_t backend);

// Send a datagram of the agent.
void send_bytes(struct lab *lab, const uint8_t *bytes, size_t n);
// Encodes the answer to the last probe, signed with a key.
void encode_answer(struct lab *lab, const struct weir_agent_key *key, uint8_t *bytes);
void answer_probe(struct lab *lab); // the last probe

void run_ms(struct lab *lab, uint64_t ms);
uint64_t refused(const struct lab *lab, enum weir_agent_refusal refusal);

// Wait for at least ten seconds, so that the test does not fail on a busy machine.
#define UNTIL(lab, condition) \
	do { \
		for (unsigned int turns = 0; !(condition); turns++) { \
			assert_in_range(turns, 0, 5000); \
			run_ms(lab, 2); \
		} \
	} while (0)
