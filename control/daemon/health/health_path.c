// SPDX-License-Identifier: BSD-3-Clause
#include "health_path.h"

#include <stdio.h>

#define NS_PER_MS 1000000u
#define WHY_BYTES 80

static void explain(enum weir_probe_outcome outcome, const char *why, char *detail, size_t bytes) {
	snprintf(detail, bytes, "%s%.79s", outcome == WEIR_PROBE_UNKNOWN ? "no result: " : "", why);
}

int weir_health_path_open(struct weir_health_check *check, char *detail, size_t bytes) {
	struct weir_data_path_target target = {
		.backend = check->address,
		.vip = check->vip,
		.port = check->port,
	};
	char why[WHY_BYTES];
	int r;

	if (check->vip.family == 0) {
		return 0;
	}
	if (check->health->path == NULL) {
		explain(WEIR_PROBE_UNKNOWN, "weir-control was started without --data-path-checks",
			detail, bytes);
		return -ENODEV;
	}
	if (check->source.family == check->address.family) {
		target.source = check->source;
		target.source_bits = check->source_bits;
	}
	r = weir_data_path_open(check->health->path, &target, &check->flow, why, sizeof(why));
	if (r < 0) {
		explain(weir_probe_outcome_of(r), why, detail, bytes);
	}
	return r;
}

// Half of the timeout, because the clock of the loop's timers is slightly off; a refusal arrives
// earlier.
static bool has_timed_out(const struct weir_health_check *check) {
	uint64_t took_ms = (uv_hrtime() - check->started_ns) / NS_PER_MS;

	return took_ms >= check->params->check.timeout_ms / 2;
}

void weir_health_path_end(struct weir_health_check *check, enum weir_probe_outcome *outcome,
	char *detail, size_t bytes) {
	struct weir_data_path *path = check->health->path;
	char why[WHY_BYTES];
	int error = 0;

	if (check->flow.port == 0) {
		return;
	}
	if (!weir_data_path_taken(path, &check->flow, &error, why, sizeof(why))) {
		*outcome = WEIR_PROBE_UNKNOWN;
		explain(*outcome, why, detail, bytes);
	} else if (*outcome == WEIR_PROBE_FAILED && error < 0) {
		*outcome = weir_probe_outcome_of(error);
		explain(*outcome, uv_strerror(error), detail, bytes);
	} else if (*outcome == WEIR_PROBE_FAILED && has_timed_out(check) &&
		   weir_data_path_local_fault(path, &check->flow,
			   check->params->check.timeout_ms / 4, why, sizeof(why))) {
		*outcome = WEIR_PROBE_UNKNOWN;
		explain(*outcome, why, detail, bytes);
	}
	weir_data_path_close(path, &check->flow);
}

void weir_health_path_cancel(struct weir_health_check *check) {
	if (check->flow.port != 0) {
		weir_data_path_close(check->health->path, &check->flow);
	}
}
