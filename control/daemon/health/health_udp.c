// SPDX-License-Identifier: BSD-3-Clause
#include "health_udp.h"

#include <stdio.h>
#include <stdlib.h>

#include "health_match.h"
#include "plural.h"

struct weir_health_udp {
	struct weir_health_datagram datagram; // must be the first member
	struct weir_health_match match;
};

static bool take(struct weir_health_datagram *datagram, const uint8_t *data, size_t bytes,
	struct weir_health_datagram_result *ret) {
	struct weir_health_match *match = &((struct weir_health_udp *)datagram)->match;

	ret->outcome = WEIR_PROBE_PASSED;
	if (!weir_config_expects(datagram->params.check)) {
		snprintf(ret->detail, sizeof(ret->detail), "answer of %zu byte%s", ret->bytes,
			weir_plural(ret->bytes));
	} else if (weir_health_match_take(match, data, bytes) == WEIR_HEALTH_MATCH_FOUND) {
		weir_health_match_passed(match, ret->detail, sizeof(ret->detail));
	} else {
		ret->outcome = WEIR_PROBE_FAILED;
		weir_health_match_failed(match, "", ret->detail, sizeof(ret->detail));
	}
	return true;
}

static void expire(struct weir_health_datagram *datagram, struct weir_health_datagram_result *ret) {
	const struct weir_config_health_check *check = datagram->params.check;
	const bool expects = weir_config_expects(check);

	ret->outcome = expects ? WEIR_PROBE_FAILED : WEIR_PROBE_PASSED;
	snprintf(ret->detail, sizeof(ret->detail), "no %s for %u ms",
		expects ? "answer" : "ICMP error", check->timeout_ms);
}

int weir_health_udp_start(uv_loop_t *loop, const struct weir_probe_params *params,
	struct weir_health_datagram **ret) {
	static const struct weir_health_datagram_type type = {.take = take, .expire = expire};
	struct weir_health_udp *udp = calloc(1, sizeof(*udp));
	const uint8_t *bytes;
	size_t count;
	int r;

	if (udp == NULL) {
		return -ENOMEM;
	}
	if (weir_config_expects(params->check)) {
		weir_health_match_expect(&udp->match, params->check);
	}
	count = weir_config_bytes_to_send(params->check, &bytes);
	r = weir_health_datagram_start(&udp->datagram, loop, &type, params, bytes, count);
	if (r == 0) {
		*ret = &udp->datagram;
	}
	return r;
}
