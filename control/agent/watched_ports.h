// SPDX-License-Identifier: BSD-3-Clause
//
// Watched ports: decides from the number of sockets that listen at each port which ports are down.
// Only a port that had a listening socket can lose it: the agent cannot see one in another network
// namespace, so a port without one may be served all the same.
//
// A port is announced as down as soon as its last listening socket is closed (with a grace: once it
// stays closed for so long), and as no longer down when a socket listens again. A port that is
// closed again and again, of a server that crashes, is held down: from the third death in close
// succession on, a birth counts once it lasts for 1 s, from the next on 2 s, and so on up to
// 30 s. A minute without a death halves that time.
//
// The application of a port may have a word for it as well. A port's word is the worse of both. The
// application's word is that of a process: it ends when a socket listens again after the port had
// none, except that STARTING is for the process whose socket is to come.
//
// Threads: one. Uses no clock and no socket.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent_message.h"
#include "health_state.h"

#define WEIR_WATCHED_PORTS_MAX 128
#define WEIR_WATCHED_FREE_DEATHS 2 // without a hold-down
#define WEIR_WATCHED_HOLD_FIRST_MS 1000
#define WEIR_WATCHED_HOLD_MOST_MS 30000
#define WEIR_WATCHED_QUIET_MS 60000
#define WEIR_WATCHED_NEVER UINT64_MAX

// X(NAME, "name", "meaning")
#define WEIR_PORT_STATES(X) \
	X(UNKNOWN, "unknown", "no listening socket seen yet: the host's state applies") \
	X(OPEN, "open", "a socket listens") \
	X(CLOSED, "closed", "had a listening socket, and has none: announced as down") \
	X(HELD, "hold-down", \
		"a socket listens again, but it was closed too often: announced as down")

enum weir_port_state {
#define X(name, key, meaning) WEIR_PORT_##name,
	WEIR_PORT_STATES(X)
#undef X
};

struct weir_watched_port {
	uint16_t port;
	uint8_t protocol; // IPPROTO_TCP or IPPROTO_UDP
	uint8_t state; // enum weir_port_state
	uint8_t word; // enum weir_health_word, of the application; NONE = ready
	bool had_listener; // at a look, or before the first one
	uint32_t listeners; // at the last look
	uint32_t opened, closed; // how many times listeners has changed from 0, and to 0
	uint32_t deaths;
	uint32_t level; // recent deaths
	uint64_t since_ms; // of the state
	uint64_t level_ms; // when level last changed
	uint64_t turn_ms; // when listeners last became 0, or no longer 0
};

struct weir_watched_ports {
	struct weir_watched_port port[WEIR_WATCHED_PORTS_MAX];
	uint32_t count;
	uint32_t grace_ms;
};

void weir_watched_ports_init(struct weir_watched_ports *ports, uint32_t grace_ms);
// Watch a port, once. Returns 0 or -ENOSPC.
int weir_watched_ports_add(struct weir_watched_ports *ports, uint16_t port, uint8_t protocol);
// It had a listening socket before the first look: down if that finds none (with a grace: if none
// appears within it). Without effect on a port that is not watched.
void weir_watched_ports_had_listener(
	struct weir_watched_ports *ports, uint16_t port, uint8_t protocol);

// A look found this many listening sockets at ports->port[index]. now_ms: not 0. Returns whether
// its word has changed.
bool weir_watched_ports_take(
	struct weir_watched_ports *ports, uint32_t index, uint32_t listeners, uint64_t now_ms);

// The application's word for a port; READY is NONE. Returns whether the port's word has changed;
// false for a port that is not watched.
bool weir_watched_ports_set_word(struct weir_watched_ports *ports, uint16_t port, uint8_t protocol,
	enum weir_health_word word);

// When the state of a port may change without a change of its sockets; WEIR_WATCHED_NEVER.
uint64_t weir_watched_ports_next_ms(const struct weir_watched_ports *ports);

// The time that a hold-down lasts at most from now on; 0 = the port is not held down.
uint64_t weir_watched_port_left_ms(const struct weir_watched_port *port, uint64_t now_ms);

static inline bool weir_watched_port_is_down(const struct weir_watched_port *port) {
	return port->state == WEIR_PORT_CLOSED || port->state == WEIR_PORT_HELD;
}
// The port's word, with the reason. NONE: it has none, the host's applies.
struct weir_port_word weir_watched_port_word(const struct weir_watched_port *port);
uint32_t weir_watched_ports_down(const struct weir_watched_ports *ports); // how many

// Write the words of the ports into an answer whose fields of the host are complete. A balancer
// that does not want words of ports gets the mildest of them as the host's word instead while all
// ports have one; one that does gets DOWN while more ports are down than an answer can have. Ports
// that are down come first: words of applications never make the host worse for ports of others. An
// order of the operator (a lame duck) stays the host's word.
void weir_watched_ports_fill(
	const struct weir_watched_ports *ports, uint32_t wants, struct weir_agent_answer *answer);

const char *weir_port_state_name(enum weir_port_state state);

// "port 80", "port 53/udp". Returns text.
#define WEIR_WATCHED_NAME_BYTES 24
const char *weir_watched_port_name(
	const struct weir_watched_port *port, char text[static WEIR_WATCHED_NAME_BYTES]);
