// SPDX-License-Identifier: BSD-3-Clause
#include "drain.h"

#include <stdio.h>

#include "plural.h"

#define PAUSE_LEAST_MS 100
#define PAUSE_MOST_MS 1000

bool weir_drain_is_running(const struct weir_drain *drain) {
	return drain->state == WEIR_DRAIN_TELLING || drain->state == WEIR_DRAIN_SERVING;
}

void weir_drain_begin(
	struct weir_drain *drain, uint64_t now_ms, uint64_t interval_ms, bool patient) {
	const bool running = weir_drain_is_running(drain);

	*drain = (struct weir_drain){.state = WEIR_DRAIN_TELLING,
		.interval_ms = interval_ms,
		.deadline_ms = now_ms + interval_ms,
		.patient = patient || (running && drain->patient),
		.notified = running && drain->notified,
		.whole = running && drain->whole};
}

void weir_drain_end(struct weir_drain *drain) {
	*drain = (struct weir_drain){0};
}

void weir_drain_note_balancers(struct weir_drain *drain, uint32_t known, uint32_t pending) {
	drain->notified |= known > pending;
	drain->whole |= drain->patient && known == 0 && !drain->notified;
}

// Returns the number of connections that the drain waits for. Half-open connections are included
// only until WEIR_DRAIN_HANDSHAKE_MS after the last acknowledgement. open, half_open: as for
// weir_drain_step.
static uint32_t count(
	const struct weir_drain *drain, uint64_t now_ms, uint32_t open, uint32_t half_open) {
	if (open == UINT32_MAX || (drain->acknowledged_ms > 0 && now_ms - drain->acknowledged_ms >=
									 WEIR_DRAIN_HANDSHAKE_MS)) {
		return open;
	}
	return open + half_open;
}

enum weir_drain_state weir_drain_step(struct weir_drain *drain, uint64_t now_ms, uint32_t pending,
	uint32_t open, uint32_t half_open) {
	if (drain->state == WEIR_DRAIN_NONE) {
		return drain->state;
	}
	if (pending > 0) {
		drain->acknowledged_ms = 0;
	} else if (drain->acknowledged_ms == 0) {
		drain->acknowledged_ms = now_ms;
	}
	drain->pending = pending;
	drain->connections = count(drain, now_ms, open, half_open);
	if (pending > 0 || drain->connections > 0) {
		drain->quiet_ms = 0;
	} else if (drain->quiet_ms == 0) {
		drain->quiet_ms = now_ms;
	}
	if (!drain->whole && drain->quiet_ms > 0 &&
		now_ms - drain->quiet_ms >= WEIR_DRAIN_QUIET_MS) {
		drain->state = WEIR_DRAIN_DONE;
	} else if (now_ms >= drain->deadline_ms) {
		drain->state = WEIR_DRAIN_DEADLINE;
	} else {
		drain->state = pending > 0 ? WEIR_DRAIN_TELLING : WEIR_DRAIN_SERVING;
	}
	return drain->state;
}

uint64_t weir_drain_pause_ms(const struct weir_drain *drain, uint64_t now_ms, uint64_t step_ns) {
	const uint64_t left_ms = drain->deadline_ms > now_ms ? drain->deadline_ms - now_ms : 0;
	uint64_t pause_ms = step_ns / 1000000 * 10; // a tenth of a CPU

	if (pause_ms < PAUSE_LEAST_MS) {
		pause_ms = PAUSE_LEAST_MS;
	} else if (pause_ms > PAUSE_MOST_MS) {
		pause_ms = PAUSE_MOST_MS;
	}
	return pause_ms < left_ms ? pause_ms : left_ms;
}

const char *weir_drain_state_name(enum weir_drain_state state) {
	static const char *const names[] = {
#define X(name, key, meaning) [WEIR_DRAIN_##name] = key,
		WEIR_DRAIN_STATES(X)
#undef X
	};

	return names[state];
}

const char *weir_drain_count_text(uint32_t connections, char text[WEIR_DRAIN_COUNT_BYTES]) {
	if (connections == UINT32_MAX) {
		snprintf(text, WEIR_DRAIN_COUNT_BYTES, "an unknown number of connections");
	} else {
		snprintf(text, WEIR_DRAIN_COUNT_BYTES, "%u connection%s", connections,
			weir_plural(connections));
	}
	return text;
}
