// SPDX-License-Identifier: BSD-3-Clause
#include "api_drain_sum.h"

#include <stdio.h>
#include <string.h>

#include "daemon.h"
#include "duration.h"

void weir_drain_sum_add(
	struct weir_drain_sum *sum, int then, uint8_t phase, uint64_t until_ns, uint64_t left) {
	if (phase == WEIR_DRAIN_DRAINING) {
		bool same = sum->phases[phase] == 0 || sum->at_deadline == then;

		sum->at_deadline = same ? then : -1;
		sum->endless |= until_ns == 0;
		sum->until_ns = until_ns > sum->until_ns ? until_ns : sum->until_ns;
	}
	if (phase == WEIR_DRAIN_KEPT || phase == WEIR_DRAIN_DROPPED) {
		bool known = left != WEIR_FLOWS_UNKNOWN && sum->left[phase] != WEIR_FLOWS_UNKNOWN;

		sum->left[phase] = known ? sum->left[phase] + left : WEIR_FLOWS_UNKNOWN;
	}
	sum->phases[phase]++;
}

uint64_t weir_drain_sum_deadline(const struct weir_drain_sum *sum) {
	return sum->endless ? 0 : sum->until_ns;
}

static enum weir_drain_phase phase_of(const struct weir_drain_sum *sum) {
	static const enum weir_drain_phase order[] = {
		WEIR_DRAIN_DRAINING, WEIR_DRAIN_KEPT, WEIR_DRAIN_DROPPED, WEIR_DRAIN_DRAINED};

	for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++) {
		if (sum->phases[order[i]] > 0) {
			return order[i];
		}
	}
	return WEIR_DRAIN_NONE;
}

static json_t *json_left(uint64_t left) {
	return left == WEIR_FLOWS_UNKNOWN ? json_null() : json_integer((json_int_t)left);
}

// Returns what drains wait for, in addition to the deadline: the dataplane, a recount of flows, or
// the end of flows.
static const char *waits_for(const struct weir_tables *tables) {
	return weir_tables_segment(tables) == NULL       ? "dataplane"
	       : weir_tables_recount_left_ms(tables) > 0 ? "recount"
							 : "flows";
}

json_t *weir_json_recount(const struct weir_tables *tables) {
	const uint64_t left_ms = weir_tables_recount_left_ms(tables);

	return weir_tables_segment(tables) != NULL && left_ms > 0
		       ? json_integer((json_int_t)left_ms)
		       : json_null();
}

json_t *weir_json_drains(const struct weir_drain_sum *sum, const struct weir_tables *tables) {
	enum weir_drain_phase phase = phase_of(sum);
	uint64_t now_ns = weir_daemon_now_ns(), until_ns = weir_drain_sum_deadline(sum);
	bool drains = phase == WEIR_DRAIN_DRAINING;

	if (phase == WEIR_DRAIN_NONE) {
		return json_null();
	}
	return json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:o}", "state",
		weir_drain_phase_name((uint8_t)phase), "left_ms",
		drains && until_ns != 0
			? json_integer(until_ns > now_ns
					       ? (json_int_t)((until_ns - now_ns) / 1000000)
					       : 0)
			: json_null(),
		"at_deadline",
		drains && sum->at_deadline >= 0
			? json_string(weir_config_at_deadline_name(
				  (enum weir_config_at_deadline)sum->at_deadline))
			: json_null(),
		"kept_flows", json_left(sum->left[WEIR_DRAIN_KEPT]), "dropped_flows",
		json_left(sum->left[WEIR_DRAIN_DROPPED]), "waits_for",
		drains ? json_string(waits_for(tables)) : json_null(), "recount_ms",
		drains ? weir_json_recount(tables) : json_null());
}

void weir_api_append_deadline(uint64_t until_ns, char *value) {
	uint64_t now_ns = weir_daemon_now_ns();
	size_t used = strlen(value);
	char left[WEIR_DURATION_BYTES];

	if (until_ns > now_ns) {
		snprintf(value + used, WEIR_AUDIT_VALUE_BYTES - used, ", deadline in %s",
			weir_duration_text((until_ns - now_ns) / 1000000, left));
	}
}
