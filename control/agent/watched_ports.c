// SPDX-License-Identifier: BSD-3-Clause
#include "watched_ports.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "plural.h"

void weir_watched_ports_init(struct weir_watched_ports *ports, uint32_t grace_ms) {
	*ports = (struct weir_watched_ports){.grace_ms = grace_ms};
}

static struct weir_watched_port *find(
	struct weir_watched_ports *ports, uint16_t port, uint8_t protocol) {
	for (uint32_t i = 0; i < ports->count; i++) {
		if (ports->port[i].port == port && ports->port[i].protocol == protocol) {
			return &ports->port[i];
		}
	}
	return NULL;
}

int weir_watched_ports_add(struct weir_watched_ports *ports, uint16_t port, uint8_t protocol) {
	if (find(ports, port, protocol) != NULL) {
		return 0;
	}
	if (ports->count == WEIR_WATCHED_PORTS_MAX) {
		return -ENOSPC;
	}
	ports->port[ports->count++] =
		(struct weir_watched_port){.port = port, .protocol = protocol};
	return 0;
}

void weir_watched_ports_had_listener(
	struct weir_watched_ports *ports, uint16_t number, uint8_t protocol) {
	struct weir_watched_port *port = find(ports, number, protocol);

	if (port != NULL) {
		port->had_listener = true;
	}
}

bool weir_watched_ports_set_word(struct weir_watched_ports *ports, uint16_t number,
	uint8_t protocol, enum weir_health_word word) {
	struct weir_watched_port *port = find(ports, number, protocol);
	uint8_t before;

	if (port == NULL) {
		return false;
	}
	before = weir_watched_port_word(port).word;
	port->word = word == WEIR_HEALTH_WORD_READY ? WEIR_HEALTH_WORD_NONE : (uint8_t)word;
	return before != weir_watched_port_word(port).word;
}

// --- one port -----------------------------------------------------------------------------

static void enter(struct weir_watched_port *port, enum weir_port_state state, uint64_t now_ms) {
	port->state = state;
	port->since_ms = now_ms;
}

static void forget_deaths(struct weir_watched_port *port, uint64_t now_ms) {
	while (port->level > 0 && now_ms - port->level_ms >= WEIR_WATCHED_QUIET_MS) {
		port->level--;
		port->level_ms += WEIR_WATCHED_QUIET_MS;
	}
}

static uint64_t hold_ms(const struct weir_watched_port *port) {
	uint64_t hold = WEIR_WATCHED_HOLD_FIRST_MS;

	if (port->level <= WEIR_WATCHED_FREE_DEATHS) {
		return 0;
	}
	for (uint32_t i = WEIR_WATCHED_FREE_DEATHS + 1;
		i < port->level && hold < WEIR_WATCHED_HOLD_MOST_MS; i++) {
		hold *= 2;
	}
	return hold < WEIR_WATCHED_HOLD_MOST_MS ? hold : WEIR_WATCHED_HOLD_MOST_MS;
}

static void die(struct weir_watched_port *port, uint64_t now_ms) {
	forget_deaths(port, now_ms);
	if (hold_ms(port) < WEIR_WATCHED_HOLD_MOST_MS) {
		port->level++;
	}
	port->level_ms = now_ms;
	port->deaths++;
	enter(port, WEIR_PORT_CLOSED, now_ms);
}

static void step(struct weir_watched_port *port, uint32_t grace_ms, uint64_t now_ms) {
	switch ((enum weir_port_state)port->state) {
	case WEIR_PORT_UNKNOWN:
		if (port->listeners > 0) {
			port->had_listener = true;
			enter(port, WEIR_PORT_OPEN, now_ms);
		} else if (port->had_listener && now_ms - port->turn_ms >= grace_ms) {
			enter(port, WEIR_PORT_CLOSED, now_ms);
		}
		break;
	case WEIR_PORT_OPEN:
		if (port->listeners == 0 && now_ms - port->turn_ms >= grace_ms) {
			die(port, now_ms);
		}
		break;
	case WEIR_PORT_CLOSED:
		if (port->listeners > 0) {
			forget_deaths(port, now_ms);
			enter(port, hold_ms(port) > 0 ? WEIR_PORT_HELD : WEIR_PORT_OPEN, now_ms);
		}
		break;
	case WEIR_PORT_HELD:
		if (port->listeners == 0) {
			if (now_ms - port->turn_ms >= grace_ms) {
				die(port, now_ms);
			}
		} else if (weir_watched_port_left_ms(port, now_ms) == 0) {
			enter(port, WEIR_PORT_OPEN, now_ms);
		}
		break;
	}
}

// Drops the state that an application has announced, if the change of the port shows that its
// process has exited. listens: true if a socket listens again, false if the last listening socket
// was closed. STARTING is dropped when the last socket is closed, because the next process may
// announce STARTING before its socket listens. Other states are dropped when a socket listens
// again.
static void end_word(struct weir_watched_port *port, bool listens) {
	if (listens == (port->word != WEIR_HEALTH_WORD_STARTING)) {
		port->word = WEIR_HEALTH_WORD_NONE;
	}
}

bool weir_watched_ports_take(
	struct weir_watched_ports *ports, uint32_t index, uint32_t listeners, uint64_t now_ms) {
	struct weir_watched_port *port = &ports->port[index];
	uint8_t before = weir_watched_port_word(port).word;
	bool first = port->since_ms == 0; // first check of the port

	if (first) {
		port->since_ms = port->turn_ms = now_ms;
	}
	if ((port->listeners > 0) != (listeners > 0)) {
		port->turn_ms = now_ms;
		if (!first) { // before the first check, the number of sockets was unknown
			end_word(port, listeners > 0);
			port->opened += listeners > 0;
			port->closed += listeners == 0;
		}
	}
	port->listeners = listeners;
	step(port, ports->grace_ms, now_ms);
	return before != weir_watched_port_word(port).word;
}

uint64_t weir_watched_port_left_ms(const struct weir_watched_port *port, uint64_t now_ms) {
	uint64_t end_ms = port->since_ms + hold_ms(port);

	return port->state == WEIR_PORT_HELD && end_ms > now_ms ? end_ms - now_ms : 0;
}

// Returns whether the port will become CLOSED unless a socket listens on it before the grace time
// ends.
static bool is_missed(const struct weir_watched_port *port) {
	bool looked = port->since_ms != 0;

	return port->listeners == 0 &&
	       (port->state == WEIR_PORT_OPEN || port->state == WEIR_PORT_HELD ||
		       (port->state == WEIR_PORT_UNKNOWN && port->had_listener && looked));
}

// --- all ports ----------------------------------------------------------------------------

uint64_t weir_watched_ports_next_ms(const struct weir_watched_ports *ports) {
	uint64_t next_ms = WEIR_WATCHED_NEVER;

	for (uint32_t i = 0; i < ports->count; i++) {
		const struct weir_watched_port *port = &ports->port[i];
		uint64_t at_ms = WEIR_WATCHED_NEVER;

		if (is_missed(port)) {
			at_ms = port->turn_ms + ports->grace_ms;
		} else if (port->state == WEIR_PORT_HELD) {
			at_ms = port->since_ms + hold_ms(port);
		}
		next_ms = at_ms < next_ms ? at_ms : next_ms;
	}
	return next_ms;
}

uint32_t weir_watched_ports_down(const struct weir_watched_ports *ports) {
	uint32_t down = 0;

	for (uint32_t i = 0; i < ports->count; i++) {
		down += weir_watched_port_is_down(&ports->port[i]);
	}
	return down;
}

struct weir_port_word weir_watched_port_word(const struct weir_watched_port *port) {
	struct weir_port_word word = {.port = port->port, .protocol = port->protocol};

	if (weir_watched_port_is_down(port)) {
		word.word = WEIR_HEALTH_WORD_DOWN;
		word.reason = port->state == WEIR_PORT_CLOSED ? WEIR_PORT_REASON_NO_LISTENER
							      : WEIR_PORT_REASON_HELD_DOWN;
	} else if (port->word != WEIR_HEALTH_WORD_NONE) {
		word.word = port->word & 15;
		word.reason = WEIR_PORT_REASON_APPLICATION;
	}
	return word;
}

// Adds states of ports to an answer, as many as fit. down: true = only ports that are down, false =
// only ports that are not down.
static void list_words(
	const struct weir_watched_ports *ports, bool down, struct weir_agent_answer *answer) {
	for (uint32_t i = 0; i < ports->count; i++) {
		struct weir_port_word word = weir_watched_port_word(&ports->port[i]);

		if (word.word != WEIR_HEALTH_WORD_NONE &&
			weir_watched_port_is_down(&ports->port[i]) == down &&
			answer->port_word_count < WEIR_PORT_WORDS_MOST) {
			answer->port_words[answer->port_word_count++] = word;
		}
	}
}

// Returns the least severe state of all ports. Returns NONE if a port has no announced state.
static struct weir_port_word mildest(const struct weir_watched_ports *ports) {
	struct weir_port_word mildest = {0};

	for (uint32_t i = 0; i < ports->count; i++) {
		struct weir_port_word word = weir_watched_port_word(&ports->port[i]);

		if (word.word == WEIR_HEALTH_WORD_NONE) {
			return word;
		}
		if (i == 0 || weir_health_word_is_worse(mildest.word, word.word)) {
			mildest = word;
		}
	}
	return mildest;
}

static void set_host(
	struct weir_agent_answer *answer, uint8_t word, uint32_t ports, const char *reason) {
	answer->word = word;
	memset(answer->why, 0, sizeof(answer->why));
	snprintf(answer->why, sizeof(answer->why), "%u port%s: %s", ports, ports == 1 ? "" : "s",
		reason);
}

void weir_watched_ports_fill(
	const struct weir_watched_ports *ports, uint32_t wants, struct weir_agent_answer *answer) {
	bool listed = (wants & WEIR_AGENT_PORT_WORDS) != 0;
	uint32_t down = weir_watched_ports_down(ports);
	struct weir_port_word mild;

	answer->given |= wants & WEIR_AGENT_PORT_WORDS;
	if (listed && down <= WEIR_PORT_WORDS_MOST) {
		list_words(ports, true, answer);
		list_words(ports, false, answer);
		return;
	}
	if (answer->word != WEIR_HEALTH_WORD_READY) {
		return;
	}
	mild = mildest(ports);
	if (listed || mild.word == WEIR_HEALTH_WORD_DOWN) {
		set_host(answer, WEIR_HEALTH_WORD_DOWN, listed ? down : ports->count,
			weir_port_reason_text(WEIR_PORT_REASON_NO_LISTENER));
	} else if (mild.word != WEIR_HEALTH_WORD_NONE) {
		set_host(answer, mild.word, ports->count, "by the application");
	}
}

const char *weir_port_state_name(enum weir_port_state state) {
	static const char *const names[] = {
#define X(name, key, meaning) [WEIR_PORT_##name] = key,
		WEIR_PORT_STATES(X)
#undef X
	};

	return names[state];
}

const char *weir_watched_port_name(
	const struct weir_watched_port *port, char text[static WEIR_WATCHED_NAME_BYTES]) {
	snprintf(text, WEIR_WATCHED_NAME_BYTES, "port %u%s", port->port,
		port->protocol == IPPROTO_UDP ? "/udp" : "");
	return text;
}
