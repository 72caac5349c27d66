// SPDX-License-Identifier: BSD-3-Clause
#include "announced.h"

#include <stdio.h>
#include <string.h>

static bool is_by(const char by[static WEIR_ANNOUNCED_SOURCE_BYTES], const char *source) {
	return strncmp(by, source, WEIR_ANNOUNCED_SOURCE_BYTES - 1) == 0;
}

// Returns the port with the worst state. NULL = no port has a worse state than the host.
static const struct weir_port_word *worst_port(const struct weir_announced *announced) {
	return weir_port_words_worst(announced->ports, announced->port_count, announced->binds,
		announced->bind_count, announced->word);
}

// Returns the source of the state in effect. port: the port whose state is in effect; NULL = the
// host state is in effect. If there is no host state either, returns the source of the port states
// that were withdrawn.
static const char *source_of(
	const struct weir_announced *announced, const struct weir_port_word *port) {
	bool by_host = port == NULL && announced->word_by[0] != '\0';

	return by_host ? announced->word_by : announced->ports_by;
}

// Passes the worst announced state of a backend to `states`. Passes nothing if no state is
// announced and the previous state was not the state of a port. ended: the port with the worst
// state before a report replaced the port states; NULL = none.
static void pass_on_word(struct weir_announced *announced, struct weir_states *states, uint16_t id,
	const struct weir_port_word *ended) {
	const struct weir_port_word *port = worst_port(announced);
	bool was_by_port = announced->by_port;
	char why[WEIR_REPORT_WHY_BYTES];

	announced->passed_on = port != NULL ? (uint8_t)port->word : announced->word;
	announced->by_port = port != NULL;
	if (announced->passed_on == WEIR_HEALTH_WORD_NONE && !was_by_port) {
		return;
	}
	if (port != NULL) {
		weir_port_word_describe(port, why, sizeof(why));
	} else if (ended != NULL &&
		   !weir_health_word_is_worse(announced->word, WEIR_HEALTH_WORD_READY)) {
		weir_port_word_describe_end(ended, why, sizeof(why));
	} else {
		snprintf(why, sizeof(why), "%s",
			announced->why[0] != '\0'
				? announced->why
				: weir_health_word_name((enum weir_health_word)announced->word));
	}
	weir_states_set_word(states, id, (enum weir_health_word)announced->passed_on,
		source_of(announced, port), why);
}

void weir_announced_take(struct weir_announced *announced, struct weir_states *states, uint16_t id,
	const struct weir_report *report, const char *source) {
	const struct weir_port_word *worst = worst_port(announced);
	struct weir_port_word ended = worst != NULL ? *worst : (struct weir_port_word){.port = 0};
	bool has_ports = report->port_word_count > 0 ||
			 (announced->port_count > 0 && is_by(announced->ports_by, source));

	if (report->word == WEIR_HEALTH_WORD_NONE && !has_ports) {
		return;
	}
	if (report->word != WEIR_HEALTH_WORD_NONE) {
		announced->word = report->word;
		memcpy(announced->why, report->why, sizeof(announced->why));
		snprintf(announced->word_by, sizeof(announced->word_by), "%s", source);
	}
	if (has_ports) {
		announced->port_count = report->port_word_count;
		memcpy(announced->ports, report->port_words, sizeof(announced->ports));
		snprintf(announced->ports_by, sizeof(announced->ports_by), "%s", source);
	}
	pass_on_word(announced, states, id, has_ports && worst != NULL ? &ended : NULL);
}

void weir_announced_withdraw(struct weir_announced *announced, struct weir_states *states,
	uint16_t id, const char *source) {
	bool word = is_by(announced->word_by, source);
	bool ports = is_by(announced->ports_by, source);

	if (ports) {
		announced->port_count = 0;
		// The host state lame duck does not expire, so it takes effect again.
		if (announced->word == WEIR_HEALTH_WORD_LAME_DUCK) {
			pass_on_word(announced, states, id, NULL);
		}
	}
	if (word) {
		announced->word = WEIR_HEALTH_WORD_NONE;
		announced->why[0] = '\0';
	}
	if ((word || ports) && announced->word == WEIR_HEALTH_WORD_NONE &&
		worst_port(announced) == NULL) {
		announced->passed_on = WEIR_HEALTH_WORD_NONE;
		announced->by_port = false;
		weir_states_expire(states, id, source);
	} else if (word || ports) {
		pass_on_word(announced, states, id, NULL);
	}
	announced->word_by[0] = word ? '\0' : announced->word_by[0];
	announced->ports_by[0] = ports ? '\0' : announced->ports_by[0];
}

void weir_announced_set_binds(struct weir_announced *announced, struct weir_states *states,
	uint16_t id, const struct weir_bound_ports *binds, uint32_t bind_count) {
	const struct weir_port_word *port;

	announced->binds = binds;
	announced->bind_count = bind_count;
	port = worst_port(announced);
	if (announced->passed_on != (port != NULL ? port->word : announced->word)) {
		pass_on_word(announced, states, id, NULL);
	}
}
