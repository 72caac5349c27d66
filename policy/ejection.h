// SPDX-License-Identifier: BSD-3-Clause
//
// Ejection: which backends of a service get no new flows for a while, because more of their
// connections fail than connections to the other backends. The decision uses the workers' counters
// of established and failed connections (WEIR_OUTCOME_REFUSED, _UNANSWERED), and ICMP errors of
// backend hosts about tunnel packets, which also work for UDP.
//
// Source: outlier detection of Envoy and gRFC A50: success rate, failure percentage, consecutive
// failures, and the duration and number of ejections. One rule is added: an ejected backend must do
// worse than the other backends together, by at least a tenth of the connections and by more than
// chance (four standard deviations of the difference of two shares). Forged SYNs, as in a flood,
// fail on all backends alike, so that no backend is ejected.
//
// ICMP errors can be forged. ICMP errors count only if they are about several flows, if they last
// longer than a restart of the decapsulation takes, and if no connection is established meanwhile.
//
// Threads: pure functions over the caller's data. No clock (time is an argument), no allocation.
#pragma once

#include <stdbool.h>
#include <stdint.h>

// X(NAME, "text")
#define WEIR_EJECTION_REASONS(X) \
	X(NONE, "none") \
	X(CONSECUTIVE, "consecutive failures") \
	X(FAILURE_PERCENT, "failure percentage") \
	X(SUCCESS_RATE, "success rate") X(UNREACHABLE, "host rejects tunnel packets")

enum weir_ejection_reason {
#define X(name, text) WEIR_EJECTION_##name,
	WEIR_EJECTION_REASONS(X)
#undef X
};

#define WEIR_EJECTION_RATE_BACKENDS 5u // backends with enough connections that success rates need
#define WEIR_EJECTION_RATE_FLOWS 2u // times minimum_flows: connections for a success rate
#define WEIR_EJECTION_UNREACHABLE_FLOWS 8u // maximum of unreachable_flows
// Minimum time from the first ICMP error to the last, or half an interval if half an interval is
// less. Linux sends one ICMP error a second.
#define WEIR_EJECTION_UNREACHABLE_MS 1500u

struct weir_ejection_settings {
	uint64_t interval_ms; // interval of success rates and failure percentages; above 0
	uint64_t base_ms; // length of the first ejection; the n-th in a row lasts n times as long
	uint64_t max_ms; // maximum length, or base_ms if that is more
	uint32_t max_percent; // maximum share of ejected backends, at least one backend
	uint32_t failure_percent; // a higher share of failures ejects a backend; 100 = never
	uint32_t minimum_flows; // connections per interval that a failure percentage needs
	uint32_t consecutive_failures; // failures that eject a backend; 0 = never
	uint32_t unreachable_flows; // flows with ICMP errors per interval that eject a backend; 0 =
				    // never
};

struct weir_ejection_count {
	uint64_t established, failed;
};

// ICMP errors about tunnel packets to a backend. An interval begins with the first ICMP error.
struct weir_ejection_unreachable {
	uint64_t first_ms, last_ms;
	uint32_t messages;
	uint32_t flows; // number of distinct flows
	uint32_t flow[WEIR_EJECTION_UNREACHABLE_FLOWS]; // hashes of these flows
};

struct weir_ejection_backend { // zeroed at first
	// Set by the caller before each evaluation.
	struct weir_ejection_count count; // cumulative; a decrease counts as a restart from 0
	bool candidate; // the backend gets new flows
	// Set by an evaluation.
	uint8_t reason; // enum weir_ejection_reason: why the backend is to be ejected
	struct weir_ejection_count judged; // number of connections behind the decision
	// Private to this module.
	bool known;
	uint32_t times; // ejections in a row
	uint64_t until_ms; // 0 = not ejected
	struct weir_ejection_count last; // count at the last evaluation
	struct weir_ejection_count interval; // connections in this interval
	uint64_t run; // failures since the last established connection
	struct weir_ejection_count others; // failures of the other backends when the run began
	struct weir_ejection_unreachable unreachable;
};

struct weir_ejection { // ejections of one service; zeroed at first
	uint64_t interval_end_ms; // start of the interval; 0 = none
	struct weir_ejection_count total; // connections of all backends, since the beginning
	uint64_t looked_ms; // time of the last evaluation
};

// Evaluate the counters of a service's backends, about once a second. Sets the reason of each
// backend that should be ejected; weir_ejection_allowed and the caller decide whether it is. Cost:
// O(count).
void weir_ejection_look(const struct weir_ejection_settings *settings,
	struct weir_ejection *service, struct weir_ejection_backend *backends, uint32_t count,
	uint64_t now_ms);

// Record an ICMP error of a backend's host about a tunnel packet; flow: hash of the inner flow. The
// next evaluation decides.
void weir_ejection_record_unreachable(const struct weir_ejection_settings *settings,
	struct weir_ejection_backend *backend, uint32_t flow, uint64_t now_ms);

// Whether one more of the backends may be ejected: the limit is a share of the candidates plus the
// ejected backends, and one candidate always remains.
bool weir_ejection_allowed(const struct weir_ejection_settings *settings,
	const struct weir_ejection_backend *backends, uint32_t count);

// Eject a backend. Returns the duration, ms.
uint64_t weir_ejection_begin(const struct weir_ejection_settings *settings,
	struct weir_ejection_backend *backend, uint64_t now_ms);

// Whether the ejection of a backend has just ended. True once.
bool weir_ejection_over(struct weir_ejection_backend *backend, uint64_t now_ms);

static inline bool weir_ejection_is(const struct weir_ejection_backend *backend) {
	return backend->until_ms != 0;
}

const char *weir_ejection_reason_text(enum weir_ejection_reason reason);
