// SPDX-License-Identifier: BSD-3-Clause
#include "health_dns.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>

#include "health_dns_message.h"
#include "plural.h"

struct weir_health_dns {
	struct weir_health_datagram datagram; // must be the first member
	struct weir_dns_query query;
};

// Sets the outcome and the detail for an answer with the expected response code.
static void judge_records(const struct weir_config_health_check *check,
	const struct weir_dns_answer *answer, struct weir_health_datagram_result *ret) {
	char text[16], address[INET6_ADDRSTRLEN];
	const char *rcode = weir_dns_rcode_name(answer->rcode, text, sizeof(text));

	ret->outcome = WEIR_PROBE_PASSED;
	if (answer->truncated) {
		snprintf(ret->detail, sizeof(ret->detail), "%s, truncated", rcode);
		return;
	}
	if (check->address.family == 0 || answer->has_address) {
		snprintf(ret->detail, sizeof(ret->detail), "%s, %u record%s", rcode,
			answer->records, weir_plural(answer->records));
		return;
	}
	ret->outcome = WEIR_PROBE_FAILED;
	snprintf(ret->detail, sizeof(ret->detail), "%s, %u record%s%s without %s", rcode,
		answer->records, weir_plural(answer->records),
		answer->malformed ? " (malformed)" : "",
		weir_address_format(&check->address, address, sizeof(address)));
}

static bool take(struct weir_health_datagram *datagram, const uint8_t *data, size_t bytes,
	struct weir_health_datagram_result *ret) {
	const struct weir_config_health_check *check = datagram->params.check;
	const struct weir_health_dns *dns = (struct weir_health_dns *)datagram;
	char got[16], wanted[16];
	struct weir_dns_answer answer;

	if (!weir_dns_answer_read(&dns->query, data, bytes, &check->address, &answer)) {
		return false;
	}
	if (answer.rcode == check->rcode) {
		judge_records(check, &answer, ret);
		return true;
	}
	ret->outcome = WEIR_PROBE_FAILED;
	snprintf(ret->detail, sizeof(ret->detail), "rcode %s, expected %s",
		weir_dns_rcode_name(answer.rcode, got, sizeof(got)),
		weir_dns_rcode_name(check->rcode, wanted, sizeof(wanted)));
	return true;
}

static void expire(struct weir_health_datagram *datagram, struct weir_health_datagram_result *ret) {
	ret->outcome = WEIR_PROBE_FAILED;
	snprintf(ret->detail, sizeof(ret->detail), "no answer for %u ms",
		datagram->params.check->timeout_ms);
}

int weir_health_dns_start(uv_loop_t *loop, const struct weir_probe_params *params,
	struct weir_health_datagram **ret) {
	static const struct weir_health_datagram_type type = {.take = take, .expire = expire};
	struct weir_health_dns *dns = calloc(1, sizeof(*dns));
	uint16_t id;
	int r;

	if (dns == NULL) {
		return -ENOMEM;
	}
	r = uv_random(NULL, NULL, &id, sizeof(id), 0, NULL);
	if (r == 0) {
		r = weir_dns_query_encode(
			params->check->name, params->check->record, id, &dns->query);
	}
	if (r < 0) {
		free(dns);
		return r;
	}
	r = weir_health_datagram_start(
		&dns->datagram, loop, &type, params, dns->query.data, dns->query.bytes);
	if (r == 0) {
		*ret = &dns->datagram;
	}
	return r;
}
