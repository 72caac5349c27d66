// SPDX-License-Identifier: BSD-3-Clause
//
// Health: active checks of backends. The verdict of a backend's checks is PASSING after `rise`
// checks in a row have passed, and FAILING after `fall` checks in a row have failed. states.h acts
// on verdicts.
//
// A TCP check connects, and then resets the connection, so that no socket stays in TIME_WAIT. An
// HTTP check sends one request, or one for each of its URLs (health_urls.h), each over its own
// connection; it follows no redirect and uses no proxy. The starts of checks are spread over the
// interval, with a random jitter of at most a twentieth of the interval.
//
// At most WEIR_HEALTH_CONCURRENT checks are in flight. All checks together use at most about half
// of the descriptors that the process can open (http, https and grpc checks use three each).
// Further checks are queued. Most checks of backends with a FAILING verdict run until their
// timeout. To avoid delaying other checks, these checks may use only an eighth of the limit, or
// half of the limit while no other check waits.
//
// Programs of checks of type exec run in another process (programs.h). At most WEIR_HEALTH_PROGRAMS
// of them run at a time, with the same shares of this limit for backends with a FAILING verdict.
// The timeout of a check begins when its program starts, not when the check is queued.
//
// If the loop is busy with other work (a large table, a long list for weirctl), the timeout of a
// check is extended, so that an answer that arrived during this time is used.
//
// A backend's report in an answer is passed to weir_health_report_fn (health_answer.h). If a
// backend has reported its state in a header, a passing answer without the header ends this state:
// the state "ready" is then reported.
//
// If a retry interval is configured, a failed check is repeated after this interval, until `fall`
// checks in a row have failed or a check has passed. After a restart of the server
// (weir_health_restart), checks are also repeated quickly, so that the server is soon in use again.
//
// Via the data path, each check connects to one VIP of the target. After a passed check, the next
// check uses the next VIP. After a failed check, the next check uses the same VIP again. After a
// check without a result, the next check also uses the same VIP, unless the backend is unchecked
// (weir_health_unchecked_ms). So `fall` failures in a row belong to one VIP, unless checks without
// a result were between them. The verdict becomes PASSING when two conditions are met: `rise`
// checks in a row have passed, and a check of each VIP has passed since the verdict was last
// FAILING. VIPs whose checks have no result are left out while the backend is unchecked. A restart
// of the server and a change of the target reset the second condition. If this condition needs more
// than `rise` checks, the additional checks follow quickly (health_cover.h).
//
// A backend that will probably not be used soon (weir_health_set_far) is checked at a longer
// interval, except while its last check disagrees with the verdict.
//
// Threads: only the event loop's thread. No globals, no logging: events are reported by callbacks.
// Callbacks are called from the loop, and from weir_health_agent_result; no other function calls a
// callback.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "config.h"
#include "data_path.h"
#include "health_durations.h"
#include "health_exec.h"
#include "health_probe.h"
#include "health_state.h"
#include "layout.h"
#include "ping_sockets.h"
#include "programs.h"
#include "report.h"

#define WEIR_HEALTH_CONCURRENT 2048
#define WEIR_HEALTH_PROGRAMS 32u // below WEIR_PROGRAMS_MAX, because `notify` runs a program, too
#define WEIR_HEALTH_DETAIL_BYTES 96
// A far backend (weir_health_set_far) is checked once in this number of intervals.
#define WEIR_HEALTH_FAR_INTERVALS 10u
// Milliseconds between checks after a restart of the server, if no retry interval is configured and
// the interval of the check is not shorter.
#define WEIR_HEALTH_QUICK_MS 100u
// After this many checks in a row without a result, a backend is unchecked.
#define WEIR_HEALTH_UNCHECKED 3u

struct weir_health;

// Called when the verdict on a backend has changed. detail: one line about the last check, see
// weir_health_status. The callback may call any function of this module except weir_health_free.
typedef void (*weir_health_fn)(
	void *context, uint16_t backend, enum weir_health_verdict verdict, const char *detail);

// Called when an answer to a check contains a report of the backend, or withdraws a value of an
// earlier report. The next answer can contain the same report again. source: the type of the check.
// The callback may call any function of this module except weir_health_free.
typedef void (*weir_health_report_fn)(
	void *context, uint16_t backend, const struct weir_report *report, const char *source);

// Called when a check of a backend has failed, took_ms after its start. Returns true if the failure
// must be ignored, because this host had no link to the backend; why then receives one line, the
// detail of the check. The callback must not call this module.
typedef bool (*weir_health_excuse_fn)(void *context, uint16_t backend, uint64_t took_ms,
	uint32_t timeout_ms, char *why, size_t bytes);

// Called before the start of a program, for the names of a backend. The callback must not call this
// module. The names are copied directly after the call.
typedef void (*weir_health_names_fn)(
	void *context, uint16_t backend, struct weir_health_names *ret);

// What to check. A check of type none is not run, and has no status.
struct weir_health_target {
	// Backend id. A backend has at most one target without `alongside`, and at most one target
	// with `alongside`.
	uint16_t backend;
	uint16_t service; // id of the backend's service, for weir_health_durations
	// host order; the service's port if check->port is 0; unused by type ping; 0 only with the
	// types ping and exec
	uint16_t port;
	struct weir_address address;
	struct weir_forwarding forwarding; // for checks via the data path
	// For checks via the data path: the VIPs to connect to, one for each check. Copied.
	// vip_count 0 = checks connect directly to `address`.
	const struct weir_address *vips;
	uint32_t vip_count;
	const struct weir_config_health_check *check; // copied
	// This check runs in addition to the backend's check, like HAProxy's agent-check. The
	// verdict of this check is not reported.
	bool alongside;
	enum weir_health_verdict initial; // initial verdict, if the backend has no check yet
	// If the backend has no check yet: the last state that the backend has announced in
	// answers, as stored in states.h; NONE = unknown.
	enum weir_health_word word;
};

struct weir_health_status {
	enum weir_config_check type;
	enum weir_config_via via;
	enum weir_health_verdict verdict;
	uint64_t interval_ms; // time from the last check to the next check
	// At least one check has ended since the check was configured; otherwise passed,
	// without_result, detail, duration_ms, age_ms and streak are 0.
	bool checked;
	bool passed; // the last check with a result passed
	bool without_result; // the last check could not run on this host; detail is the reason
	char detail[WEIR_HEALTH_DETAIL_BYTES]; // "HTTP 503", "connected", "timeout after 500 ms"
	uint32_t duration_ms; // duration of the last check
	// Delay of the last start. A start is late if the loop was busy, or if too many checks were
	// in flight.
	uint32_t late_ms;
	uint64_t age_ms; // time since the last check ended
	uint64_t passes, fails; // number of results since the check was configured
	uint32_t streak; // consecutive equal results; 0 after weir_health_restart
};

// Returns 0 or negative errno. The loop must outlive the handles: after weir_health_free, run the
// loop until uv_run returns 0.
int weir_health_create(uv_loop_t *loop, weir_health_fn on_health, weir_health_report_fn on_report,
	void *context, struct weir_health **ret);

// Sets the tunnel for checks via the data path. Without a tunnel, such checks have no result.
// on_lost: called with the context of weir_health_create when the device of the tunnel was removed.
// Call at most once. Returns 0; this module then owns the tunnel, and *tunnel is
// WEIR_DATA_PATH_TUNNEL_NONE. Or returns negative errno with the tunnel unchanged.
int weir_health_set_data_path(struct weir_health *health, struct weir_data_path_tunnel *tunnel,
	weir_data_path_lost_fn on_lost);

// Sets the sockets for checks of type ping. Without sockets, such checks have no result. Call at
// most once. Returns 0; this module then owns the sockets, and *sockets is WEIR_PING_SOCKETS_NONE.
// Or returns negative errno with the sockets unchanged.
int weir_health_set_ping(struct weir_health *health, struct weir_ping_sockets *sockets);

// Sets the module that runs the programs of checks of type exec; borrowed until weir_health_free.
// NULL (the default): such checks have no result. names: gets the context of weir_health_create.
// Call at most once.
void weir_health_set_programs(
	struct weir_health *health, struct weir_programs *programs, weir_health_names_fn names);

// Sets a callback for failed checks, except checks of type agent. excuse: gets the context of
// weir_health_create; NULL (the default) = no failed check is ignored.
void weir_health_on_failed(struct weir_health *health, weir_health_excuse_fn excuse);

// Sets the checks to run; all other checks are removed. A check with the same service, address,
// port, forwarding and parameters as before keeps its state (verdict, counts, timers). A changed
// check keeps its verdict, but its counts are reset. A new check starts with the verdict `initial`,
// without a callback. Returns 0, -EINVAL (duplicate backend, an interval of 0, ...) or -ENOMEM.
// After an error, nothing has changed.
int weir_health_configure(
	struct weir_health *health, const struct weir_health_target *targets, uint32_t n);

// Sets the next hop of packets to a backend, for checks via the data path. Without a MAC address,
// checks continue with the previous MAC address on the same interface, unless packets go through a
// gateway. Does nothing for a backend that is not checked.
void weir_health_set_hop(
	struct weir_health *health, uint16_t backend, const struct weir_data_path_hop *hop);

// Sets whether a backend is far, that is, will probably not be used soon. A backend is near (the
// default) if it is a member of a subset, or among the next candidates for a subset. Does nothing
// for a backend that is not checked.
void weir_health_set_far(struct weir_health *health, uint16_t backend, bool far);

// Marks a backend as idle: the backend has no flows, and a cheaper signal than a check shows that
// the backend is up. Each of the backend's checks then runs about once in interval_ms, while the
// last result of the check agrees with its verdict. interval_ms 0: the backend is not idle.
void weir_health_set_idle(struct weir_health *health, uint16_t backend, uint32_t interval_ms);

// Discards the states that a backend has announced in answers to any of its checks. For an
// agent-check, these are the administrative and the operational state. If a later answer announces
// the same state again, the state is reported again. This function is also called whenever the
// verdict changes to FAILING.
void weir_health_clear_words(struct weir_health *health, uint16_t backend);

// Call when the server of a backend may have restarted. Resets the counts of consecutive results of
// the backend's check. A PASSING verdict becomes UNKNOWN, without a callback. The next check runs
// immediately, unless it is of type agent. Further checks follow after the retry interval, or after
// WEIR_HEALTH_QUICK_MS if no retry interval is configured, until a check fails or has no result, or
// `rise` checks in a row have passed. Does nothing for a backend that is not checked.
void weir_health_restart(struct weir_health *health, uint16_t backend);

// Report the result of a check of type agent, which another module runs. Calls the callbacks. Does
// nothing for a backend with another type of check.
void weir_health_agent_result(struct weir_health *health, uint16_t backend,
	enum weir_probe_outcome outcome, const char *detail, uint32_t duration_ms);

// Gets the data of health.show about a backend's check or, with `alongside`, about its agent-check
// that runs alongside. Returns 0, or -ENOENT if there is no such check.
int weir_health_status(const struct weir_health *health, uint16_t backend, bool alongside,
	struct weir_health_status *ret);

// Returns the milliseconds since the last result of a backend's check or, if the check never had a
// result, since its first run ended. Returns 0 if the backend has no check, or if at least one of
// the last WEIR_HEALTH_UNCHECKED checks had a result. Via the data path, only the checks of one VIP
// are used (health_missing.h).
uint64_t weir_health_unchecked_ms(const struct weir_health *health, uint16_t backend);

// Returns the number of checks of type exec that wait for the end of other programs for longer than
// their interval. service: id of the service to count; negative = all services. *ret_ms: the
// longest of these times.
uint32_t weir_health_programs_late(const struct weir_health *health, int service, uint64_t *ret_ms);

// Returns the durations of the checks that had a result, except checks with `alongside`. The caller
// sets the names of the services.
struct weir_health_durations *weir_health_durations(struct weir_health *health);

// Stops all checks. No callback follows. The libuv handles are closed in the next iterations of the
// loop.
void weir_health_free(struct weir_health *health); // NULL is allowed
