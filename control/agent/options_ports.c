// SPDX-License-Identifier: BSD-3-Clause
#include "options_ports.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "terminal.h"

static int add_port(struct weir_agent_options *options, const struct weir_service_port *port,
	char *why, size_t why_bytes) {
	bool udp = port->protocol == IPPROTO_UDP;
	uint16_t *ports = udp ? options->ports_udp : options->ports;
	uint32_t *count = udp ? &options->port_udp_count : &options->port_count;

	for (uint32_t i = 0; i < *count; i++) {
		if (ports[i] == port->port) {
			return 0;
		}
	}
	if (*count == WEIR_AGENT_PORTS_MAX) {
		snprintf(why, why_bytes, "does not fit into the port list; use at most %d",
			WEIR_AGENT_PORTS_MAX);
		return -EINVAL;
	}
	ports[(*count)++] = port->port;
	return 0;
}

int weir_take_port(const struct weir_option *option, const char *value, void *options, char *why,
	size_t why_bytes) {
	struct weir_service_port port;

	(void)option;
	if (weir_service_port_parse(value, strlen(value), &port)) {
		snprintf(why, why_bytes, "is not a port; use 1 to 65535, with /udp for UDP");
		return -EINVAL;
	}
	return add_port(options, &port, why, why_bytes);
}

// Store the value of --service: NAME=PORT[,PORT]... for run, or NAME for announce and exec. Accepts
// both forms; weir_check_services() checks the form later, when the command is known.
int weir_take_service(const struct weir_option *option, const char *value, void *options, char *why,
	size_t why_bytes) {
	struct weir_agent_options *ret = options;
	const struct weir_named_service *service;
	int r;

	(void)option;
	if (weir_service_name_is_valid(value, strlen(value))) {
		ret->service = value;
		return 0;
	}
	r = weir_named_services_add(&ret->services, value, why, why_bytes);
	if (r) {
		return r;
	}
	service = &ret->services.service[ret->services.count - 1];
	for (uint32_t i = 0; r == 0 && i < service->port_count; i++) {
		r = add_port(ret, &service->port[i], why, why_bytes);
	}
	return r;
}

// Store the value of --allow-user, USER=NAME. The option --service that defines NAME may come later
// on the command line.
int weir_take_allowed(const struct weir_option *option, const char *value, void *options, char *why,
	size_t why_bytes) {
	struct weir_agent_options *ret = options;

	(void)option;
	if (ret->allowed_count == WEIR_NAMED_SERVICES_MAX) {
		snprintf(why, why_bytes, "does not fit into the user list; use at most %d",
			WEIR_NAMED_SERVICES_MAX);
		return -EINVAL;
	}
	ret->allowed[ret->allowed_count++] = value;
	return 0;
}

// Check that --service has ports for run and no ports for other commands. For each service, set the
// user who may announce its state (--allow-user).
int weir_check_services(struct weir_agent_options *options, char *why, size_t why_bytes) {
	char reason[160], shown[64];
	int r = 0;

	if (options->service != NULL && options->command == WEIR_AGENT_RUN) {
		snprintf(why, why_bytes,
			"--service: \"%s\" has no ports; add ports, as in --service web=80,443",
			options->service);
		return -EINVAL;
	}
	if (options->services.count > 0 && options->command != WEIR_AGENT_RUN) {
		snprintf(why, why_bytes,
			"--service: ports are for weir-agent run only; use --service NAME");
		return -EINVAL;
	}
	for (uint32_t i = 0; r == 0 && i < options->allowed_count; i++) {
		r = weir_named_services_allow(
			&options->services, options->allowed[i], reason, sizeof(reason));
		if (r) {
			snprintf(why, why_bytes, "--allow-user: \"%s\" %s",
				weir_terminal_text(options->allowed[i], shown, sizeof(shown)),
				reason);
		}
	}
	return r;
}
