// SPDX-License-Identifier: BSD-3-Clause
//
// Health: active checks of backends. The verdict of a backend's checks is PASSING once `rise`
// checks in a row passed, and FAILING once `fall` checks in a row failed. states.h acts on
// verdicts.
//
// TCP checks connect and reset (nothing stays in TIME_WAIT); HTTP checks send one request, follow
// no redirect, use no proxy, keep no connection. Starts are spread over the interval, with a jitter
// of a tenth of the interval. At most WEIR_HEALTH_CONCURRENT checks are in flight, and checks use
// at most half of the descriptors that the process may have (http, https and grpc checks use three
// each); further checks are queued. Checks of backends with a FAILING verdict mostly last until
// their timeout: an eighth to a half of the limit is for such checks, so that they do not delay
// other checks.
//
// Time that the loop spends on other work (a large table, a long list for weirctl) does not shorten
// a check's timeout: an answer that arrived meanwhile counts.
//
// A backend's report in an answer is passed to weir_health_report_fn (health_answer.h). A backend
// that reports its state in a header ends that state with a passing answer without the header,
// which is reported as "ready".
//
// With a retry interval, a check that failed is repeated after it, until `fall` in a row failed or
// one passed. After a restart of the server (weir_health_restart), checks are quick in the same
// way, so that it is in use soon.
//
// Via the data path each check takes the next VIP of the target, after one that failed the same VIP
// again, until it passes: `fall` failures in a row are those of one VIP. The verdict is PASSING
// once `rise` in a row passed, and one of each VIP; those beyond `rise` are quick.
//
// A backend that is far from use (weir_health_set_far) is checked at a longer interval, except
// while its last check disagrees with the verdict.
//
// Threads: only the event loop's thread. No globals, no logging: callbacks report. Callbacks are
// called from the loop, and from weir_health_agent_result; no other function calls back.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "config.h"
#include "data_path.h"
#include "health_durations.h"
#include "health_probe.h"
#include "health_state.h"
#include "layout.h"
#include "report.h"

#define WEIR_HEALTH_CONCURRENT 2048
#define WEIR_HEALTH_DETAIL_BYTES 96
#define WEIR_HEALTH_FAR_INTERVALS 10u // between two checks of a backend that is far from use
#define WEIR_HEALTH_QUICK_MS 100u // between checks after a restart, without a retry interval
#define WEIR_HEALTH_UNCHECKED 3u // checks in a row without a result: the backend is unchecked

struct weir_health;

// The verdict on a backend changed. detail: one line of the last check, see weir_health_status. The
// callback may call any function of this module except weir_health_free.
typedef void (*weir_health_fn)(
	void *context, uint16_t backend, enum weir_health_verdict verdict, const char *detail);

// An answer to a check contained a report of the backend; the next answer may repeat it. source:
// the type of the check. The callback may call any function of this module except weir_health_free.
typedef void (*weir_health_report_fn)(
	void *context, uint16_t backend, const struct weir_report *report, const char *source);

// A check of a backend that began took_ms ago failed. Returns whether the failure is no result
// about the backend, because this host had no link to the backend; why then receives the check's
// detail, one line. Must not call this module.
typedef bool (*weir_health_excuse_fn)(void *context, uint16_t backend, uint64_t took_ms,
	uint32_t timeout_ms, char *why, size_t bytes);

// What to check. A check of type none is not run, and has no status.
struct weir_health_target {
	// Backend id; at most one target per backend, and one more with `alongside`.
	uint16_t backend;
	uint16_t service; // id of the backend's service, for the durations
	uint16_t port; // host order; the service's port if check->port is 0
	struct weir_address address;
	// Via the data path: addresses to connect to, one a check; copied. 0 = connect directly to
	// `address`.
	const struct weir_address *vips;
	uint32_t vip_count;
	const struct weir_config_health_check *check; // copied
	// In addition to the backend's check, like HAProxy's agent-check; the verdict of this check
	// is not reported.
	bool alongside;
	enum weir_health_verdict initial; // verdict on a backend that was not checked before
	// Last state in answers of a backend that was not checked before; NONE = unknown.
	enum weir_health_word word;
};

struct weir_health_status {
	enum weir_config_check type;
	enum weir_config_via via;
	enum weir_health_verdict verdict;
	uint64_t interval_ms; // from the last check to the next check
	bool checked; // at least one check has ended; if not, the next five fields are empty
	bool passed; // the last check with a result passed
	bool without_result; // the last check could not run on this host; detail is the reason
	char detail[WEIR_HEALTH_DETAIL_BYTES]; // "HTTP 503", "connected", "timeout after 500 ms"
	uint32_t duration_ms; // of the last check
	// Delay of the last start: the loop was busy, or too many checks were in flight.
	uint32_t late_ms;
	uint64_t age_ms; // since the last check ended
	uint64_t passes, fails; // since the check was configured
	uint32_t streak; // consecutive results equal to the last result
};

// Returns 0 or negative errno. The loop must outlive the handles: after weir_health_free, run it
// until uv_run returns 0.
int weir_health_create(uv_loop_t *loop, weir_health_fn on_health, weir_health_report_fn on_report,
	void *context, struct weir_health **ret);

// Send checks with a VIP through this tunnel from now on; this module takes ownership of the
// tunnel. Without a tunnel, checks with a VIP have no result. on_lost is called with the context of
// weir_health_create. Call at most once. Returns 0 or negative errno.
int weir_health_set_data_path(struct weir_health *health, struct weir_data_path_tunnel *tunnel,
	weir_data_path_lost_fn on_lost);

// Call `excuse` with the context of weir_health_create about failed checks, except checks of type
// agent. NULL (the default) = all failed checks count.
void weir_health_on_failed(struct weir_health *health, weir_health_excuse_fn excuse);

// Check these backends and no others. Checks with the same address, port and parameters keep their
// state (verdict, counts, timers); a changed check resets its counts, but keeps its verdict; a new
// one starts in `initial` without a callback. All or nothing. Returns 0, -EINVAL (duplicate
// backend, an interval of 0, ...), -ENOMEM.
int weir_health_configure(
	struct weir_health *health, const struct weir_health_target *targets, uint32_t n);

// Set the outer source address of packets to a backend, for checks via the data path: the source
// address that the dataplane uses. source_bits: number of low bits of an IPv4 source that vary by
// flow. family 0: chosen by the kernel. Does nothing for a backend that is not checked.
void weir_health_set_source(struct weir_health *health, uint16_t backend,
	const struct weir_address *source, uint8_t source_bits);

// Set whether a backend is far from use. Near (the default): a member of a subset, or one of the
// next candidates. Does nothing for a backend that is not checked.
void weir_health_set_far(struct weir_health *health, uint16_t backend, bool far);

// Mark a backend as idle: the backend has no flows, and a cheaper signal shows that it is up. Its
// check then runs about once in interval_ms, as long as the check agrees with the verdict; 0 = not
// idle.
void weir_health_set_idle(struct weir_health *health, uint16_t backend, uint32_t interval_ms);

// Forget the states that a backend announced in answers to all its checks; for an agent-check, both
// classes of words. The announced state in a later answer counts even if it is unchanged. This also
// happens whenever the verdict changes to FAILING.
void weir_health_clear_words(struct weir_health *health, uint16_t backend);

// Begin the count of a backend's check again: the backend's server may have been started again. A
// PASSING verdict becomes UNKNOWN, without a callback. Checks, except of type agent, run at once,
// and then every retry interval (WEIR_HEALTH_QUICK_MS without a retry interval), until a check
// fails or `rise` checks in a row passed. Does nothing for a backend that is not checked.
void weir_health_restart(struct weir_health *health, uint16_t backend);

// Report the result of a check of type agent, which another module runs. Calls back. Does nothing
// for a backend with another type of check.
void weir_health_agent_result(struct weir_health *health, uint16_t backend,
	enum weir_probe_outcome outcome, const char *detail, uint32_t duration_ms);

// The data of health.show, of a backend's check or alongside check. Returns 0, -ENOENT (no such
// check).
int weir_health_status(const struct weir_health *health, uint16_t backend, bool alongside,
	struct weir_health_status *ret);

// How long a backend's check has had no result: since the last result, or the first check. 0 = the
// backend is not unchecked: at least one of its last WEIR_HEALTH_UNCHECKED checks had a result, or
// the backend has no check.
uint64_t weir_health_unchecked_ms(const struct weir_health *health, uint16_t backend);

// Durations of the checks with a result, without alongside checks. The caller sets the names of the
// services.
struct weir_health_durations *weir_health_durations(struct weir_health *health);

// Stop all checks. No callback follows; handles close in the next iterations of the loop.
void weir_health_free(struct weir_health *health); // NULL is allowed
