// SPDX-License-Identifier: BSD-3-Clause
#include "port_words.h"

#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "health_state.h"

struct weir_bound_ports *weir_bound_ports_of(const struct weir_config *config) {
	struct weir_bound_ports *binds;
	uint32_t count = 0, n = 0;

	for (uint32_t i = 0; i < config->service_count; i++) {
		count += config->services[i].bind_count;
	}
	binds = calloc(count + 1, sizeof(*binds));
	for (uint32_t i = 0; binds != NULL && i < config->service_count; i++) {
		const struct weir_config_service *service = &config->services[i];

		for (uint32_t j = 0; j < service->bind_count; j++) {
			binds[n++] =
				(struct weir_bound_ports){.first = service->binds[j].port_first,
					.last = service->binds[j].port_last,
					.protocol = service->binds[j].protocol};
		}
	}
	return binds;
}

static bool is_covered(const struct weir_port_word *port, const struct weir_bound_ports *binds,
	uint32_t bind_count) {
	for (uint32_t i = 0; i < bind_count; i++) {
		if (binds[i].protocol == port->protocol && port->port >= binds[i].first &&
			port->port <= binds[i].last) {
			return true;
		}
	}
	return false;
}

const struct weir_port_word *weir_port_words_worst(const struct weir_port_word *ports,
	uint32_t port_count, const struct weir_bound_ports *binds, uint32_t bind_count,
	uint8_t word) {
	const struct weir_port_word *worst = NULL;

	for (uint32_t i = 0; i < port_count; i++) {
		if (weir_health_word_is_worse(ports[i].word, word) &&
			is_covered(&ports[i], binds, bind_count)) {
			worst = &ports[i];
			word = ports[i].word;
		}
	}
	return worst;
}

void weir_port_word_describe(const struct weir_port_word *port, char *to, size_t bytes) {
	const char *reason = weir_port_reason_text(port->reason);

	snprintf(to, bytes, "%sport %u: %s", port->protocol == IPPROTO_UDP ? "UDP " : "",
		port->port,
		reason[0] != '\0' ? reason
				  : weir_health_word_name((enum weir_health_word)port->word));
}

void weir_port_word_describe_end(const struct weir_port_word *port, char *to, size_t bytes) {
	snprintf(to, bytes, "%sport %u %s", port->protocol == IPPROTO_UDP ? "UDP " : "", port->port,
		port->reason == WEIR_PORT_REASON_NO_LISTENER ||
				port->reason == WEIR_PORT_REASON_HELD_DOWN
			? "listens again"
			: "is announced as ready");
}
