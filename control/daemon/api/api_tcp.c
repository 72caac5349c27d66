// SPDX-License-Identifier: BSD-3-Clause
#include "api_tcp.h"

#include <errno.h>

#include "daemon.h"

static json_t *number(uint64_t value) {
	return json_integer((json_int_t)value);
}

// Returns a number as JSON; null if it is 0, which means unknown.
static json_t *known(uint64_t value) {
	return value > 0 ? number(value) : json_null();
}

static json_t *real(double value) {
	return value < 0 ? json_null() : json_real(value);
}

static json_t *json_family(const struct weir_tcp_family_status *family) {
	const struct weir_agent_tcp_family *last = &family->last;

	if (!family->seen) {
		return json_null();
	}
	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "connections",
		number(last->connections), "rtt_median_us", known(last->rtt_median_us),
		"rtt_p99_us", known(last->rtt_p99_us), "segments", number(last->segments),
		"retransmitted_segments", number(last->retransmitted), "retransmitted_percent",
		real(family->retransmitted_percent), "sent_bytes", number(last->sent_bytes),
		"sent_bytes_per_second", real(family->sent_bytes_per_s),
		"delivery_rate_bytes_per_second", known(last->delivery_rate), "rated_connections",
		number(last->rated));
}

json_t *weir_json_tcp(const struct weir_daemon *daemon, uint16_t backend) {
	struct weir_tcp_status status;
	int r = weir_probed_agents_tcp(daemon->probed_agents, backend, &status);

	if (r == -ENOENT) {
		return json_null();
	}
	if (r < 0) {
		return json_pack("{s:n, s:n, s:n, s:n}", "age_ms", "partial", "ipv4", "ipv6");
	}
	return json_pack("{s:o, s:b, s:o, s:o}", "age_ms", number(status.age_ms), "partial",
		(int)status.partial, "ipv4", json_family(&status.ipv4), "ipv6",
		json_family(&status.ipv6));
}

#define COLUMNS(X) \
	X("service", json_string(state.service)) \
	X("backend", json_string(state.name)) \
	X("clients", json_string(ipv6 ? "ipv6" : "ipv4")) \
	X("connections", number(family->last.connections)) \
	X("rtt_us", json_rtt(&family->last)) \
	X("segments", number(family->last.segments)) \
	X("retransmitted", number(family->last.retransmitted)) \
	X("sent_bytes", number(family->last.sent_bytes)) \
	X("delivery_rate", known(family->last.delivery_rate))

const char *const weir_api_tcp_columns[] = {"kind",
#define X(name, value) name,
	COLUMNS(X)
#undef X
};
const uint32_t weir_api_tcp_column_count =
	sizeof(weir_api_tcp_columns) / sizeof(weir_api_tcp_columns[0]);

// Returns the quantiles of round-trip times as JSON.
static json_t *json_rtt(const struct weir_agent_tcp_family *last) {
	return last->rtt_median_us == 0
		       ? json_null()
		       : json_pack("{s:o, s:o}", "0.5", number(last->rtt_median_us), "0.99",
				 number(last->rtt_p99_us));
}

json_t *weir_json_tcp_row(const struct weir_daemon *daemon, uint16_t backend, bool ipv6) {
	const struct weir_tcp_family_status *family;
	struct weir_backend_state state;
	struct weir_tcp_status status;
	json_t *row;

	if (weir_probed_agents_tcp(daemon->probed_agents, backend, &status) < 0 ||
		weir_tables_backend(daemon->tables, backend, &state) < 0) {
		return NULL;
	}
	family = ipv6 ? &status.ipv6 : &status.ipv4;
	if (!family->seen) {
		return NULL;
	}
	row = json_array();
	json_array_append_new(row, json_string("tcp"));
#define X(name, value) json_array_append_new(row, value);
	COLUMNS(X)
#undef X
	return row;
}
