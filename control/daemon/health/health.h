// SPDX-License-Identifier: BSD-3-Clause
//
// Health: active checks of backends. The verdict of a backend's checks is PASSING once `rise` in a
// row passed, and FAILING once `fall` in a row failed. What follows from it is states.h's matter.
//
// TCP checks connect and reset (nothing stays in TIME_WAIT); HTTP checks send one request, follow
// no redirect, use no proxy, keep no connection. Starts are spread over the
// interval, with a jitter of a tenth of it, and at most
// WEIR_HEALTH_CONCURRENT checks are in flight, and no more than half of the descriptors that the
// process may have (http, https and grpc take three each); the others are queued. Backends with a
// FAILING verdict, whose checks mostly last until their timeout, have an eighth to a half of that:
// many of them do not delay the others.
//
// What the loop spends on other work (a large table, a long list for weirctl) is not taken off a
// check's timeout: an answer that came meanwhile counts.
//
// What a backend says of itself in an answer is handed on (health_answer.h). A backend that says
// its state in a header takes it back by an answer that passes and has no such header: that is told
// as "ready".
//
// A backend that is not about to be used is checked at a slower interval, except while its last
// check disagrees with the verdict.
//
// Threads: one, that of the loop. No globals, no logging: callbacks report. No function but
// weir_health_tell calls back; the other callbacks come from the loop alone.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "config.h"
#include "data_path.h"
#include "health_probe.h"
#include "health_state.h"
#include "layout.h"
#include "report.h"

#define WEIR_HEALTH_CONCURRENT 2048
#define WEIR_HEALTH_DETAIL_BYTES 96
#define WEIR_HEALTH_FAR_INTERVALS 10u // between two checks of a backend that is far from use

struct weir_health;

// The verdict on a backend changed. detail: the last check's, one line, as in weir_health_status.
// It may call any function of this module but weir_health_free.
typedef void (*weir_health_fn)(
	void *context, uint16_t backend, enum weir_health_verdict verdict, const char *detail);

// A backend said something of itself in an answer to a check, and may say the same in the next.
// source: the type of the check. As weir_health_fn.
typedef void (*weir_health_report_fn)(
	void *context, uint16_t backend, const struct weir_report *report, const char *source);

// What to check. A check of type none is not run, and has no status.
struct weir_health_target {
	uint16_t backend; // id; at most one target each, and one beside
	uint16_t port; // host order; already the service's when check->port is 0
	struct weir_address address;
	struct weir_address vip; // along the data path: what to connect to; family 0 = straight to
				 // the address
	const struct weir_config_health_check *check; // copied
	bool beside; // beside the backend's check, as HAProxy's agent-check; no callback of a
		     // verdict
	enum weir_health_verdict initial; // on a backend that was not checked before
	enum weir_health_word word; // the same: what it has said in answers, as far as is known
};

struct weir_health_status {
	enum weir_config_check type;
	enum weir_config_via via;
	enum weir_health_verdict verdict;
	uint64_t interval_ms; // from its last check to the next
	bool checked; // at least one check ended; else the next five are empty
	bool passed; // the last one that had a result
	bool without_result; // the last one: this host could not ask; detail says why
	char detail[WEIR_HEALTH_DETAIL_BYTES]; // "HTTP 503", "connected", "timeout after 500 ms"
	uint32_t duration_ms; // of the last check
	uint32_t late_ms; // how late the last one began: the loop was busy, or too many were in
			  // flight
	uint64_t age_ms; // since the last check ended
	uint64_t passes, fails; // since the check began
	uint32_t streak; // results in a row like the last one
};

// Returns 0 or negative errno. The loop must outlive the handles: after weir_health_free, run it
// until uv_run returns 0.
int weir_health_create(uv_loop_t *loop, weir_health_fn on_health, weir_health_report_fn on_report,
	void *context, struct weir_health **ret);

// Checks with a VIP go along this tunnel from now on, which is the module's from here on. Without
// one they have no result. on_lost: with the context of weir_health_create. Once at most. Returns 0
// or negative errno.
int weir_health_set_data_path(struct weir_health *health, struct weir_data_path_tunnel *tunnel,
	weir_data_path_lost_fn on_lost);

// Check these backends and no others. Those whose address, port and parameters are the same go on
// as they are (verdict, counts, timers); a changed one starts its count anew, but keeps its
// verdict; a new one begins in `initial` without a callback. All or nothing. Returns 0, -EINVAL (a
// backend twice, an interval of 0, ...), -ENOMEM.
int weir_health_configure(
	struct weir_health *health, const struct weir_health_target *targets, uint32_t n);

// The source of the outer header in front of packets to a backend, for checks along the data path:
// that of the dataplane. source_bits: IPv4, so many low bits of it are each flow's own. family 0:
// the kernel's choice. Nothing for one that is not checked.
void weir_health_set_source(struct weir_health *health, uint16_t backend,
	const struct weir_address *source, uint8_t source_bits);

// Whether a backend is far from being used, or near (as it is at first): a member of a subset or
// one of the next to become one. Nothing for one that is not checked.
void weir_health_set_far(struct weir_health *health, uint16_t backend, bool far);

// Whether a backend is idle: it has no flows, and something cheaper tells that it is there. Then
// its check runs once in about interval_ms, as long as it agrees with the verdict; 0 = it is not.
void weir_health_set_idle(struct weir_health *health, uint16_t backend, uint32_t interval_ms);

// What the backend said in its answers is forgotten, whichever check it answered: of an agent-check
// both classes of words. What it says in an answer to come counts, if it is the same, too. When its
// checks begin to fail this happens by itself.
void weir_health_forget(struct weir_health *health, uint16_t backend);

// A check of type agent, which runs elsewhere, has ended. Calls back. Nothing for other backends.
void weir_health_tell(struct weir_health *health, uint16_t backend, enum weir_probe_outcome outcome,
	const char *detail, uint32_t duration_ms);

// The data of health.show, of a backend's check or the one beside. Returns 0, -ENOENT (there is
// none).
int weir_health_status(const struct weir_health *health, uint16_t backend, bool beside,
	struct weir_health_status *ret);

// Stop everything. No callback comes any more; handles close in the next iterations of the loop.
void weir_health_free(struct weir_health *health); // NULL is fine
