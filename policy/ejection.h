// SPDX-License-Identifier: BSD-3-Clause
//
// Ejection: which backends of a service take no new flows for a while, because more of their
// connections fail than those of the others. Judged by what workers count: connections that were
// established, and those that were not (WEIR_OUTCOME_REFUSED, _UNANSWERED).
//
// Source: outlier detection of Envoy and gRFC A50: success rate, failure percentage, consecutive
// failures; how long an ejection lasts, and how many there are. One rule is added: whoever is
// ejected must do worse than the others together, by a tenth of the connections at least, and by
// more than chance brings (four standard deviations of the difference of two shares). SYNs that
// nobody completes, as in a flood, fail at all backends alike, so they eject none.
//
// Threads: pure functions over what the caller owns. No clock (time is an argument), no allocation.
#pragma once

#include <stdbool.h>
#include <stdint.h>

// X(NAME, "text")
#define WEIR_EJECTION_REASONS(X) \
	X(NONE, "none") \
	X(CONSECUTIVE, "consecutive failures") \
	X(FAILURE_PERCENT, "failure percentage") X(SUCCESS_RATE, "success rate")

enum weir_ejection_reason {
#define X(name, text) WEIR_EJECTION_##name,
	WEIR_EJECTION_REASONS(X)
#undef X
};

#define WEIR_EJECTION_RATE_BACKENDS 5u // fewer with enough connections have no success rates
#define WEIR_EJECTION_RATE_FLOWS 2u // times minimum_flows: connections for a success rate

struct weir_ejection_settings {
	uint64_t interval_ms; // of success rates and failure percentages; above 0
	uint64_t base_ms; // length of the first ejection; the n-th in a row lasts n times as long
	uint64_t max_ms; // but no longer than this, or base_ms if that is more
	uint32_t max_percent; // of the backends; one may always be ejected
	uint32_t failure_percent; // above: ejected. 100 = never for this
	uint32_t minimum_flows; // connections in an interval for a failure percentage
	uint32_t consecutive_failures; // 0 = never ejected for these
};

struct weir_ejection_count {
	uint64_t established, failed;
};

struct weir_ejection_backend { // zeroed at first
	// Set by the caller before each look.
	struct weir_ejection_count count; // since any time; smaller than before: counted anew
	bool candidate; // new flows go there
	// Told by a look.
	uint8_t reason; // enum weir_ejection_reason: why it is to be ejected
	struct weir_ejection_count judged; // the connections that tell so
	// Of this module alone.
	bool known;
	uint32_t times; // ejections in a row
	uint64_t until_ms; // 0 = not ejected
	struct weir_ejection_count last; // count at the last look
	struct weir_ejection_count interval; // in this interval
	uint64_t run; // failures since the last connection that was established
	struct weir_ejection_count others; // of the others when the run began
};

struct weir_ejection { // of one service; zeroed at first
	uint64_t interval_end_ms; // 0 = none has begun
	struct weir_ejection_count total; // of all backends, since the beginning
};

// Look at the counts of a service's backends, about once a second. Sets the reason of each that is
// to be ejected; whether it is, is up to weir_ejection_allowed and the caller. Cost: O(count).
void weir_ejection_look(const struct weir_ejection_settings *settings,
	struct weir_ejection *service, struct weir_ejection_backend *backends, uint32_t count,
	uint64_t now_ms);

// Whether one more of these backends may be ejected: the share is of the candidates and of those
// that are ejected, and one of them is always left.
bool weir_ejection_allowed(const struct weir_ejection_settings *settings,
	const struct weir_ejection_backend *backends, uint32_t count);

// Eject a backend. Returns for how long, ms.
uint64_t weir_ejection_begin(const struct weir_ejection_settings *settings,
	struct weir_ejection_backend *backend, uint64_t now_ms);

// Whether the ejection of a backend is over now. True once.
bool weir_ejection_over(struct weir_ejection_backend *backend, uint64_t now_ms);

static inline bool weir_ejection_is(const struct weir_ejection_backend *backend) {
	return backend->until_ms != 0;
}

const char *weir_ejection_reason_text(enum weir_ejection_reason reason);
