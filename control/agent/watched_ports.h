// SPDX-License-Identifier: BSD-3-Clause
//
// Watched ports: decides which ports are down, from the number of sockets that listen at each port.
// Only a port that had a listening socket can be down: the agent cannot find sockets in another
// network namespace, so a port without a visible socket may have a server.
//
// The agent announces a port as down when its last listening socket is closed and the grace time
// has passed since then, and as up when a socket listens again. A death of the server is counted
// when the last listening socket was closed and the grace time has passed. A port with repeated
// deaths is held down: after the third death in close succession, the port is up only when it has
// had a listening socket for 1 s. Each further death doubles this time, up to 30 s, and each minute
// without a death halves it.
//
// The application of a port may also announce a state (called word in the code). The agent
// announces the more severe of the watched state and the application's state. When a socket listens
// again after a time without a listening socket, the process that announced the state must have
// exited, so its state is dropped. STARTING is dropped earlier, when the last listening socket is
// closed, because the next process can announce STARTING before its socket listens.
//
// Threads: one. Uses no clock and no socket.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent_message.h"
#include "health_state.h"

#define WEIR_WATCHED_PORTS_MAX 128
// A port is held down if it has had more recent deaths (`level`) than this.
#define WEIR_WATCHED_FREE_DEATHS 2
#define WEIR_WATCHED_HOLD_FIRST_MS 1000
#define WEIR_WATCHED_HOLD_MOST_MS 30000
#define WEIR_WATCHED_QUIET_MS 60000
#define WEIR_WATCHED_NEVER UINT64_MAX

// X(NAME, "name", "meaning")
#define WEIR_PORT_STATES(X) \
	X(UNKNOWN, "unknown", "no listening socket yet: the state of the host applies") \
	X(OPEN, "open", "a socket listens") \
	X(CLOSED, "closed", "the last listening socket was closed: announced as down") \
	X(HELD, "hold-down", \
		"a socket listens again, but the port was closed too often: announced as down")

enum weir_port_state {
#define X(name, key, meaning) WEIR_PORT_##name,
	WEIR_PORT_STATES(X)
#undef X
};

struct weir_watched_port {
	uint16_t port;
	uint8_t protocol; // IPPROTO_TCP or IPPROTO_UDP
	uint8_t state; // enum weir_port_state
	uint8_t word; // state that the application has announced; NONE = ready
	// A check has found a listening socket, or the port had a listening socket before the agent
	// started.
	bool had_listener;
	uint32_t listeners; // listening sockets at the last check
	// how often `listeners` has changed from 0 (opened) and to 0 (closed)
	uint32_t opened, closed;
	uint32_t deaths;
	// Number of recent deaths, which determines the time of the hold-down; decreases by 1 in
	// each minute without a death.
	uint32_t level;
	uint64_t since_ms; // start of the state; 0 = not checked yet
	uint64_t level_ms; // time of the last death, or of a later decrease of level
	uint64_t turn_ms; // time when listeners last changed from or to 0, or of the first check
};

struct weir_watched_ports {
	struct weir_watched_port port[WEIR_WATCHED_PORTS_MAX];
	uint32_t count;
	uint32_t grace_ms;
};

void weir_watched_ports_init(struct weir_watched_ports *ports, uint32_t grace_ms);
// Watch a port. Does nothing if the port is already watched. Returns 0 or -ENOSPC.
int weir_watched_ports_add(struct weir_watched_ports *ports, uint16_t port, uint8_t protocol);
// Records that a port had a listening socket before the agent started. The port is then down if the
// first check finds no listening socket, and no socket listens within the grace time. Has no effect
// on a port that is not watched.
void weir_watched_ports_had_listener(
	struct weir_watched_ports *ports, uint16_t port, uint8_t protocol);

// Process the number of listening sockets at ports->port[index]. now_ms: not 0. Returns whether the
// state that the agent announces for the port has changed.
bool weir_watched_ports_take(
	struct weir_watched_ports *ports, uint32_t index, uint32_t listeners, uint64_t now_ms);

// Set the state that the application has announced for a port; READY is stored as NONE. Returns
// whether the state that the agent announces for the port has changed; false for a port that is not
// watched.
bool weir_watched_ports_set_word(struct weir_watched_ports *ports, uint16_t port, uint8_t protocol,
	enum weir_health_word word);

// Returns the next time at which the state of a port may change although no socket is opened or
// closed, such as the end of a hold-down. Returns WEIR_WATCHED_NEVER if there is no such time.
uint64_t weir_watched_ports_next_ms(const struct weir_watched_ports *ports);

// Returns the time until the hold-down of a port ends, if its socket keeps listening. Returns 0 if
// the port is not held down.
uint64_t weir_watched_port_left_ms(const struct weir_watched_port *port, uint64_t now_ms);

static inline bool weir_watched_port_is_down(const struct weir_watched_port *port) {
	return port->state == WEIR_PORT_CLOSED || port->state == WEIR_PORT_HELD;
}
// Returns the state that the agent announces for the port, with the reason. NONE: the agent
// announces no state for the port, so the state of the host applies.
struct weir_port_word weir_watched_port_word(const struct weir_watched_port *port);
// Returns the number of ports that are down.
uint32_t weir_watched_ports_down(const struct weir_watched_ports *ports);

// Write the announced states of the ports into an answer. The host's fields of the answer must be
// set.
//
// If the balancer requests the states of ports, they are listed: first the ports that are down,
// then the other ports, as many as fit. If the ports that are down do not all fit, no port is
// listed, and the host's state becomes DOWN. Here only the watched state decides whether a port is
// down, so an application that announces DOWN does not change the host's state for other ports.
//
// If the balancer does not request the states of ports, and all ports have an announced state, the
// least severe of these states becomes the host's state. A host's state other than READY is never
// changed, for example if the operator has made the host a lame duck.
void weir_watched_ports_fill(
	const struct weir_watched_ports *ports, uint32_t wants, struct weir_agent_answer *answer);

const char *weir_port_state_name(enum weir_port_state state);

// Writes the name of a port, such as "port 80" or "port 53/udp". Returns text.
#define WEIR_WATCHED_NAME_BYTES 24
const char *weir_watched_port_name(
	const struct weir_watched_port *port, char text[static WEIR_WATCHED_NAME_BYTES]);
