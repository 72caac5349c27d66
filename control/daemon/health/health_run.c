// SPDX-License-Identifier: BSD-3-Clause
#include "health_run.h"

#include "health_agent_check.h"
#include "health_dns.h"
#include "health_exchange.h"
#include "health_http.h"
#include "health_ping.h"
#include "health_relay.h"
#include "health_tcp.h"
#include "health_udp.h"

int weir_health_run_start(struct weir_health_run *run, const struct weir_health_run_with *with,
	const struct weir_probe_params *params) {
	switch (params->check->type) {
	case WEIR_CHECK_HTTP:
	case WEIR_CHECK_HTTPS:
	case WEIR_CHECK_GRPC:
		return weir_health_http_start(with->curl, params, &run->http);
	case WEIR_CHECK_AGENT_CHECK:
		return weir_health_agent_check_start(
			with->loop, params, with->agent_words, &run->stream);
	case WEIR_CHECK_UDP:
		return weir_health_udp_start(with->loop, params, &run->datagram);
	case WEIR_CHECK_DNS:
		return weir_health_dns_start(with->loop, params, &run->datagram);
	case WEIR_CHECK_PING:
		return weir_health_ping_start(with->loop, with->pings, params, &run->ping);
	case WEIR_CHECK_EXEC:
		return weir_health_exec_start(
			with->loop, with->programs, &with->names, params, &run->exec);
	default:
		return weir_config_expects(params->check)
			       ? weir_health_exchange_start(with->loop, params, &run->stream)
			       : weir_health_tcp_start(with->loop, params, &run->stream);
	}
}

void weir_health_run_cancel(struct weir_health_run *run) {
	if (run->http != NULL) {
		weir_health_http_cancel(run->http);
	} else if (run->stream != NULL) {
		weir_health_stream_cancel(run->stream);
	} else if (run->datagram != NULL) {
		weir_health_datagram_cancel(run->datagram);
	} else if (run->ping != NULL) {
		weir_health_ping_cancel(run->ping);
	} else if (run->exec != NULL) {
		weir_health_exec_cancel(run->exec);
	}
	*run = (struct weir_health_run){0};
}

unsigned int weir_health_run_descriptors(const struct weir_config_health_check *check) {
	switch (check->type) {
	case WEIR_CHECK_HTTP:
	case WEIR_CHECK_HTTPS:
	case WEIR_CHECK_GRPC:
		return WEIR_HEALTH_RELAY_DESCRIPTORS;
	case WEIR_CHECK_EXEC:
		return 0; // the helper process opens the descriptors
	default:
		return 1;
	}
}
