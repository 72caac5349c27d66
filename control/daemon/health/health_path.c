// SPDX-License-Identifier: BSD-3-Clause
#include "health_path.h"

#include <stdio.h>

#define WHY_BYTES 80

static void explain(enum weir_probe_outcome outcome, const char *why, char *detail, size_t bytes) {
	snprintf(detail, bytes, "%s%.79s", outcome == WEIR_PROBE_UNKNOWN ? "no result: " : "", why);
}

int weir_health_path_open(struct weir_data_path *path, const struct weir_data_path_target *target,
	struct weir_data_path_flow *flow, char *detail, size_t bytes) {
	char why[WHY_BYTES];
	int r;

	if (path == NULL) {
		explain(WEIR_PROBE_UNKNOWN, "weir-control was started without --data-path-checks",
			detail, bytes);
		return -ENODEV;
	}
	r = weir_data_path_open(path, target, flow, why, sizeof(why));
	if (r < 0) {
		explain(weir_probe_outcome_of(r), why, detail, bytes);
	}
	return r;
}

void weir_health_path_end(struct weir_data_path *path, struct weir_data_path_flow *flow,
	uint64_t took_ms, const struct weir_config_health_check *check,
	enum weir_probe_outcome *outcome, char *detail, size_t bytes) {
	const uint32_t timeout_ms = check->timeout_ms;
	// A UDP check that expects no bytes also passes if nothing arrives.
	const bool doubtful = *outcome == WEIR_PROBE_FAILED ||
			      (check->type == WEIR_CHECK_UDP && !weir_config_expects(check));
	// Compare with half of the timeout, because the clock of the loop's timers is not exact. A
	// refused connection fails much earlier.
	bool timed_out = took_ms >= timeout_ms / 2;
	char why[WHY_BYTES];
	int error = 0;

	if (flow->port == 0) {
		return;
	}
	if (!weir_data_path_taken(path, flow, &error, why, sizeof(why))) {
		if (*outcome != WEIR_PROBE_UNKNOWN) { // otherwise detail has the error of the probe
			explain(WEIR_PROBE_UNKNOWN, why, detail, bytes);
		}
		*outcome = WEIR_PROBE_UNKNOWN;
	} else if (doubtful && error < 0) {
		*outcome = weir_probe_outcome_of(error);
		explain(*outcome, uv_strerror(error), detail, bytes);
	} else if (doubtful && timed_out &&
		   weir_data_path_local_fault(path, flow, timeout_ms / 4, why, sizeof(why))) {
		*outcome = WEIR_PROBE_UNKNOWN;
		explain(*outcome, why, detail, bytes);
	}
	weir_data_path_close(path, flow);
}
