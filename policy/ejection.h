// SPDX-License-Identifier: BSD-3-Clause
//
// Ejection: decides which backends of a service get no new flows for a while, because connections
// to them fail more often than connections to the other backends. The decision uses the workers'
// counters of established and failed connections (WEIR_OUTCOME_REFUSED, _UNANSWERED), and ICMP
// errors from backend hosts about tunnel packets. Ejections because of ICMP errors also work for
// UDP.
//
// Source: outlier detection of Envoy and gRFC A50: success rate, failure percentage, consecutive
// failures, and the duration and number of ejections. Weir adds one rule: failed connections eject
// a backend only if its failure rate is higher than the failure rate of all other backends
// together, by at least 0.1 and by at least four standard deviations of the difference. Therefore a
// flood of forged SYNs ejects no backend: forged SYNs fail equally often on all backends.
//
// ICMP errors can be forged. Therefore ICMP errors count only if they are about several flows, if
// they arrive for longer than the backend host needs to restart its decapsulation, and if no
// connection is established in that time.
//
// Threads: any; the caller owns all data. No clock (time is an argument), no allocation.
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

// Success rates are compared only if at least this many backends have enough connections.
#define WEIR_EJECTION_RATE_BACKENDS 5u
// The success rate of a backend is used only if the backend has had at least
// WEIR_EJECTION_RATE_FLOWS * minimum_flows connections in the interval.
#define WEIR_EJECTION_RATE_FLOWS 2u
#define WEIR_EJECTION_UNREACHABLE_FLOWS 8u // maximum of unreachable_flows
// ICMP errors eject a backend only if the time between the first and the last error is at least
// this long, or at least half an interval if that is shorter. Linux sends one ICMP error per
// second.
#define WEIR_EJECTION_UNREACHABLE_MS 1500u

struct weir_ejection_settings {
	uint64_t interval_ms; // interval of success rates and failure percentages; above 0
	// Duration of the first ejection; the n-th ejection in a row lasts n times as long, but at
	// most max_ms
	uint64_t base_ms;
	uint64_t max_ms; // maximum duration, or base_ms if that is longer
	// Maximum share of ejected backends, in percent. One backend may be ejected even if this
	// exceeds the maximum.
	uint32_t max_percent;
	uint32_t failure_percent; // a higher percentage of failures ejects a backend; 100 = never
	// Minimum number of connections per interval for a failure percentage; success rates need
	// WEIR_EJECTION_RATE_FLOWS times as many
	uint32_t minimum_flows;
	uint32_t consecutive_failures; // failures in a row that eject a backend; 0 = never
	// A backend with ICMP errors about this many flows in an interval is ejected; 0 = never.
	uint32_t unreachable_flows;
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

struct weir_ejection_backend { // initialize to zero
	// Set by the caller before each evaluation.
	struct weir_ejection_count count; // cumulative; a decrease restarts the counting
	bool candidate; // the backend gets new flows
	// Set by an evaluation.
	uint8_t reason; // enum weir_ejection_reason: why the backend is to be ejected
	struct weir_ejection_count judged; // the connections on which the decision is based
	// Private to this module.
	bool known;
	uint32_t times; // ejections in a row
	uint64_t until_ms; // 0 = not ejected
	struct weir_ejection_count last; // count at the last evaluation
	struct weir_ejection_count interval; // connections in this interval
	uint64_t run; // number of failures since the last established connection (a run)
	struct weir_ejection_count others; // total of all backends when the run began
	struct weir_ejection_unreachable unreachable;
};

struct weir_ejection { // ejections of one service; initialize to zero
	uint64_t interval_end_ms; // when the current interval ends; 0 = none
	struct weir_ejection_count total; // connections of all backends since the first evaluation
	uint64_t looked_ms; // time of the last evaluation
};

// Evaluates the counters of a service's backends; call about once a second. Sets the reason of each
// backend that should be ejected, and clears the reason of the others. The caller ejects the
// backend if weir_ejection_allowed permits it. Cost: O(count).
void weir_ejection_look(const struct weir_ejection_settings *settings,
	struct weir_ejection *service, struct weir_ejection_backend *backends, uint32_t count,
	uint64_t now_ms);

// Record an ICMP error from a backend's host about a tunnel packet. flow: hash of the inner flow.
// The next evaluation uses the error.
void weir_ejection_record_unreachable(const struct weir_ejection_settings *settings,
	struct weir_ejection_backend *backend, uint32_t flow, uint64_t now_ms);

// Returns whether one more backend may be ejected: at least one candidate must remain. If a backend
// is ejected already, max_percent limits the share of ejected backends among candidates and ejected
// backends.
bool weir_ejection_allowed(const struct weir_ejection_settings *settings,
	const struct weir_ejection_backend *backends, uint32_t count);

// Eject a backend. Returns the duration, ms.
uint64_t weir_ejection_begin(const struct weir_ejection_settings *settings,
	struct weir_ejection_backend *backend, uint64_t now_ms);

// Returns true once after the ejection of a backend has ended.
bool weir_ejection_over(struct weir_ejection_backend *backend, uint64_t now_ms);

static inline bool weir_ejection_is(const struct weir_ejection_backend *backend) {
	return backend->until_ms != 0;
}

const char *weir_ejection_reason_text(enum weir_ejection_reason reason);
