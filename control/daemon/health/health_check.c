// SPDX-License-Identifier: BSD-3-Clause
#include "health_check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "health_cover.h"
#include "health_missing.h"
#include "health_path.h"
#include "health_reported.h"
#include "health_run.h"
#include "health_urls.h"

#define NS_PER_MS 1000000ull
#define NS_PER_US 1000u
#define US_PER_MS 1000ull

struct weir_health_check {
	struct weir_health_checking *checking;
	uv_timer_t timer; // expires at the next start
	struct weir_health_start start; // used while the probe is queued, and while it runs
	uint16_t backend, service;
	uint16_t port;
	// This is an agent-check that runs alongside the backend's check; its verdict has no
	// effect.
	bool alongside;
	struct weir_address address;
	// Via the data path: index in params->vips of the VIP of the current or next probe.
	uint32_t vip;
	struct weir_forwarding forwarding;
	struct weir_data_path_hop hop;
	struct weir_health_params *params;
	enum weir_health_verdict verdict;
	bool far;
	uint32_t idle_intervals; // number of intervals between checks of an idle backend; 0 = not
				 // idle
	uint64_t due_ms; // loop time of the current or next start, without jitter; see schedule
	uint64_t planned_ms; // due_ms plus jitter
	uint32_t late_ms; // delay of the last start after planned_ms
	bool spread; // the check has a random offset in the interval
	uint64_t started_ns; // start of the running probe, or of the first one of several URLs
	uint64_t request_ns; // start of the running probe
	uint64_t ended_ns; // end of the last probe since the target was set; 0 = no probe has ended
	bool passed;
	struct weir_health_missing missing;
	struct weir_health_cover cover;
	char detail[WEIR_HEALTH_DETAIL_BYTES];
	uint32_t duration_ms;
	uint32_t streak;
	// After a restart of the server: number of checks that still run after a short interval.
	uint32_t quick;
	uint64_t passes, fails;
	struct weir_health_reported reported; // values of the last report
	struct weir_agent_check agent_words; // words that the backend's agent-check has received
	// The connection of a probe via the data path, while the probe runs.
	struct weir_data_path_flow flow;
	struct weir_health_run run;
	struct weir_health_urls *urls; // NULL = the running probe requests the first URL
};

static void on_due(uv_timer_t *timer);

// Returns the object that limits the starts of the check. A new check has no parameters yet.
static struct weir_health_starts *starts_of(const struct weir_health_check *check) {
	struct weir_health_checking *checking = check->checking;

	return check->params != NULL && check->params->check.type == WEIR_CHECK_EXEC
		       ? &checking->program_starts
		       : &checking->starts;
}

// --- results ------------------------------------------------------------------------------

static bool update_verdict(struct weir_health_check *check, bool passed) {
	enum weir_health_verdict verdict = check->verdict;

	if (check->passed != passed) {
		check->streak = 0;
	}
	check->streak++;
	check->passed = passed;
	if (passed) {
		check->passes++;
		check->cover.vips++;
	} else {
		check->fails++;
	}
	if (passed && check->streak >= check->params->check.rise &&
		check->cover.vips >= check->params->vip_count) {
		verdict = WEIR_HEALTH_VERDICT_PASSING;
	} else if (!passed && check->streak >= check->params->check.fall) {
		verdict = WEIR_HEALTH_VERDICT_FAILING;
		check->cover.vips = 0;
	}
	if (verdict == check->verdict) {
		return false;
	}
	check->verdict = verdict;
	return true;
}

// Returns whether the last result agrees with the verdict. If so, a longer interval is sufficient.
static bool is_settled(const struct weir_health_check *check) {
	return check->streak > 0 && check->verdict == (check->passed ? WEIR_HEALTH_VERDICT_PASSING
								     : WEIR_HEALTH_VERDICT_FAILING);
}

// Returns whether the next check is a retry. If a retry interval is configured, the next check is a
// retry if the last check failed and the verdict is not FAILING yet. After a restart of the server,
// the next check is a retry while `quick` is above 0. The additional checks that cover further VIPs
// (health_cover.h) are retries, too.
static bool is_retry(const struct weir_health_check *check) {
	const struct weir_config_health_check *config = &check->params->check;

	return check->quick > 0 || check->cover.is_open ||
	       (config->retry_interval_ms != 0 && check->ended_ns != 0 &&
		       !check->missing.no_result && !check->passed &&
		       check->verdict != WEIR_HEALTH_VERDICT_FAILING);
}

static uint32_t retry_ms(const struct weir_health_check *check) {
	const struct weir_config_health_check *config = &check->params->check;

	uint32_t ms = config->retry_interval_ms != 0               ? config->retry_interval_ms
		      : config->interval_ms < WEIR_HEALTH_QUICK_MS ? config->interval_ms
								   : WEIR_HEALTH_QUICK_MS;

	return check->cover.is_open
		       ? weir_health_cover_ms(check->checking->covering, ms, config->interval_ms)
		       : ms;
}

// Returns the number of intervals from one check to the next check.
static uint32_t pace(const struct weir_health_check *check) {
	uint32_t far = check->far ? WEIR_HEALTH_FAR_INTERVALS : 1;

	return !is_settled(check) ? 1 : check->idle_intervals > far ? check->idle_intervals : far;
}

// Returns a random number for jitter, computed by xorshift64.
static uint64_t draw(struct weir_health_checking *checking) {
	checking->random ^= checking->random << 13;
	checking->random ^= checking->random >> 7;
	checking->random ^= checking->random << 17;
	return checking->random;
}

// Sets the timer to due_ms, plus or minus a jitter of up to a twentieth of the interval. The time
// between two starts therefore differs from the interval by at most a tenth. Without this jitter,
// the checks of several balancers could stay synchronized.
static void sleep_until_due(struct weir_health_check *check) {
	uint64_t now = uv_now(check->checking->loop), part = check->params->check.interval_ms / 20;
	uint64_t jitter = part > 0 ? draw(check->checking) % (2 * part + 1) : 0;

	check->planned_ms =
		check->due_ms + jitter > now + part ? check->due_ms + jitter - part : now;
	uv_timer_start(&check->timer, on_due, check->planned_ms - now, 0);
}

// Sets the timer to the retry interval. If cover.is_open is true, varies the interval by up to an
// eighth, so that checks that ended in the same iteration of the loop do not all start in the same
// iteration.
static void sleep_for_retry(struct weir_health_check *check, uint64_t now) {
	uint64_t ms = retry_ms(check);

	if (check->cover.is_open) {
		ms += draw(check->checking) % (ms / 4 + 1) - ms / 8;
	}
	check->planned_ms = now + ms;
	uv_timer_start(&check->timer, on_due, ms, 0);
}

// Sets the timer to the next start. A retry starts after the retry interval. Other checks start at
// due_ms plus a whole number of intervals, so that the checks of all backends stay spread. If a
// check runs only in every n-th interval, the backend's id determines in which of n intervals the
// check runs, so that not all such checks run in the same interval. The first call adds a random
// offset to due_ms, because the first checks of a new configuration start close together.
static void schedule(struct weir_health_check *check) {
	uint64_t now = uv_now(check->checking->loop), interval = check->params->check.interval_ms;
	uint64_t slot = check->due_ms / interval + check->backend;

	if (!check->spread) {
		check->spread = true;
		check->due_ms += draw(check->checking) % interval - interval / 2;
	}
	if (is_retry(check)) { // due_ms does not change: later checks keep their offset
		sleep_for_retry(check, now);
		return;
	}
	check->due_ms += (pace(check) - (pace(check) > 1 ? slot % pace(check) : 0)) * interval;
	if (check->due_ms <= now) {
		check->due_ms = now + interval - (now - check->due_ms) % interval;
	}
	sleep_until_due(check);
}

// The results of a check that the callbacks report. The struct is a copy, because a callback can
// configure the checks, which can free the check.
struct update {
	bool changed; // the verdict changed
	enum weir_health_verdict verdict;
	char detail[WEIR_HEALTH_DETAIL_BYTES];
	bool reports; // the report is not empty, or withdraws a value
	struct weir_report report;
};

// Report the verdict first: when the verdict changes to FAILING, the states that the backend
// announced earlier are discarded.
static void notify(struct weir_health_check *check, const struct update *update) {
	const struct weir_health_checking *checking = check->checking;
	const char *source = weir_config_check_name(check->params->check.type);

	if (update->changed && !check->alongside) {
		checking->on_health(
			checking->context, check->backend, update->verdict, update->detail);
	}
	// The check may have been freed: its memory is valid until the next iteration of the loop.
	if (update->reports && !uv_is_closing((uv_handle_t *)&check->timer)) {
		checking->on_report(checking->context, check->backend, &update->report, source);
	}
}

void weir_health_check_clear_words(struct weir_health_check *check) {
	check->reported.word = WEIR_HEALTH_WORD_NONE;
	check->agent_words = (struct weir_agent_check){0};
}

static void set_cover(struct weir_health_check *check, bool is_open) {
	weir_health_cover_open(&check->cover, is_open, &check->checking->covering);
}

static void end_probe(
	struct weir_health_check *check, enum weir_probe_outcome outcome, uint64_t now_ns) {
	weir_health_missing_end(&check->missing, outcome, check->vip,
		check->ended_ns != 0 ? check->ended_ns : now_ns);
	if (outcome == WEIR_PROBE_UNKNOWN) {
		check->quick = 0;
		set_cover(check, false);
	}
	check->ended_ns = now_ns;
}

// Chooses the VIP of the next check. The next check uses the same VIP again after a failed check,
// and after a check without a result. If the backend is unchecked, the next check uses the next VIP
// after a check without a result, and the VIP without a result is regarded as covered, so that a
// VIP that cannot be checked does not prevent the verdict PASSING.
static void choose_vip(struct weir_health_check *check, enum weir_probe_outcome outcome) {
	if (outcome == WEIR_PROBE_PASSED ||
		(outcome == WEIR_PROBE_UNKNOWN && check->missing.count >= WEIR_HEALTH_UNCHECKED)) {
		check->vip = (check->vip + 1) % check->params->vip_count;
		check->cover.vips += outcome == WEIR_PROBE_UNKNOWN;
	}
}

static void take_result(struct weir_health_check *check, bool passed, uint64_t duration_us,
	const struct weir_report *report, struct update *update) {
	if (!check->alongside) {
		weir_health_durations_add(&check->checking->durations, check->service, duration_us);
	}
	check->quick = passed && check->quick > 0 ? check->quick - 1 : 0;
	update->changed = update_verdict(check, passed);
	update->verdict = check->verdict;
	// If enough checks have passed, but not yet for each VIP, the next check follows quickly.
	set_cover(check, passed && check->verdict != WEIR_HEALTH_VERDICT_PASSING &&
				 check->streak >= check->params->check.rise);
	if (update->changed && check->verdict == WEIR_HEALTH_VERDICT_FAILING && !check->alongside) {
		check->checking->forget(check->checking->health, check->backend);
	}
	if (report != NULL) {
		update->report = *report;
		update->reports = weir_health_reported_apply(
			&check->reported, check->params->check.type, passed, &update->report);
	}
}

// Replaces control characters, because the detail can contain text of a backend or its certificate,
// and is written to logs, terminals and JSON.
static void keep_detail(
	struct weir_health_check *check, enum weir_probe_outcome outcome, struct update *update) {
	for (char *c = update->detail; *c != '\0'; c++) {
		if (*c < ' ' || *c > '~') {
			*c = '?';
		}
	}
	if (!weir_health_missing_stays(&check->missing, outcome, check->vip)) {
		memcpy(check->detail, update->detail, sizeof(check->detail));
	}
}

// If this host had no link to the backend, changes the outcome of a failed check to UNKNOWN,
// because the backend may be up.
static void excuse(struct weir_health_check *check, uint64_t now_ns,
	enum weir_probe_outcome *outcome, struct update *update) {
	const struct weir_health_checking *checking = check->checking;

	if (*outcome == WEIR_PROBE_FAILED && checking->excuse != NULL &&
		checking->excuse(checking->context, check->backend,
			(now_ns - check->request_ns) / NS_PER_MS, check->params->check.timeout_ms,
			update->detail, sizeof(update->detail))) {
		*outcome = WEIR_PROBE_UNKNOWN;
	}
}

// Closes the connection of a probe via the data path.
static void end_path(struct weir_health_check *check, enum weir_probe_outcome *outcome,
	char detail[static WEIR_HEALTH_DETAIL_BYTES]) {
	weir_health_path_end(check->checking->path, &check->flow,
		(uv_hrtime() - check->request_ns) / NS_PER_MS, &check->params->check, outcome,
		detail, WEIR_HEALTH_DETAIL_BYTES);
}

static void finish(struct weir_health_check *check, enum weir_probe_outcome outcome,
	const char *detail, const struct weir_report *report) {
	struct update update = {.detail = ""};
	uint64_t now = uv_hrtime();

	check->run = (struct weir_health_run){0};
	weir_health_starts_remove(starts_of(check), &check->start);
	snprintf(update.detail, sizeof(update.detail), "%s", detail);
	end_path(check, &outcome, update.detail);
	report = weir_health_urls_end(check->urls, outcome, report, update.detail);
	excuse(check, now, &outcome, &update);
	if (outcome == WEIR_PROBE_FAILED && check->params->vip_count > 1) {
		weir_health_params_name(check->params, check->vip, update.detail);
	}
	keep_detail(check, outcome, &update);
	check->duration_ms = (uint32_t)((now - check->started_ns) / NS_PER_MS);
	if (outcome != WEIR_PROBE_UNKNOWN) {
		take_result(check, outcome == WEIR_PROBE_PASSED,
			(now - check->started_ns) / NS_PER_US, report, &update);
	}
	weir_health_urls_free(&check->urls);
	end_probe(check, outcome, now);
	if (check->params->vip_count > 1) {
		choose_vip(check, outcome);
	}
	schedule(check);
	notify(check, &update);
}

static void on_done(void *context, enum weir_probe_outcome outcome, const char *detail,
	const struct weir_report *report);

// --- starting -----------------------------------------------------------------------------

static int start_probe(struct weir_health_check *check, const struct weir_probe_params *params) {
	const struct weir_health_checking *checking = check->checking;
	struct weir_health_run_with with = {.loop = checking->loop,
		.curl = checking->curl,
		.pings = checking->pings,
		.programs = checking->programs,
		.names = {"", ""},
		.agent_words = &check->agent_words};

	if (params->check->type == WEIR_CHECK_EXEC && checking->names != NULL) {
		checking->names(checking->context, check->backend, &with.names);
	}
	return weir_health_run_start(&check->run, &with, params);
}

static int open_path(struct weir_health_check *check, char *why, size_t bytes) {
	struct weir_data_path_target target = {
		.backend = check->address,
		.forwarding = check->forwarding,
		.hop = check->hop,
		.vip = check->params->vips[check->vip],
		.protocol = weir_config_check_protocol(check->params->check.type),
		.port = check->port,
	};

	if (check->hop.source.family != check->address.family) {
		target.hop.source.family = 0;
		target.hop.source_bits = 0;
	}
	return weir_health_path_open(check->checking->path, &target, &check->flow, why, bytes);
}

static struct weir_health_check *check_of(struct weir_health_start *start) {
	return (void *)((char *)start - offsetof(struct weir_health_check, start));
}

// Starts a probe for the current URL. Finishes the check if the probe cannot start.
static void request(struct weir_health_check *check) {
	bool data_path = check->params->vip_count > 0;
	struct weir_probe_params params = {
		.address = data_path ? check->params->vips[check->vip] : check->address,
		.port = check->port,
		.flow = data_path ? &check->flow : NULL,
		.check = weir_health_urls_check(check->urls, &check->params->check),
		.done = on_done,
		.context = check,
	};
	char why[WEIR_HEALTH_DETAIL_BYTES];
	int r;

	check->request_ns = uv_hrtime();
	r = data_path ? open_path(check, why, sizeof(why)) : 0;
	if (r) {
		finish(check, weir_probe_outcome_of(r), why, NULL);
		return;
	}
	r = start_probe(check, &params);
	if (r) {
		finish(check, weir_probe_outcome_of(r), uv_strerror(r), NULL);
	}
}

static void run(struct weir_health_start *start) {
	struct weir_health_check *check = check_of(start);

	check->started_ns = uv_hrtime();
	check->late_ms = check->started_ns / NS_PER_MS > check->planned_ms
				 ? (uint32_t)(check->started_ns / NS_PER_MS - check->planned_ms)
				 : 0;
	request(check);
}

// Requests the next URL of a check, or finishes the check.
static void end_request(struct weir_health_check *check, enum weir_probe_outcome outcome,
	const char *detail, const struct weir_report *report) {
	char why[WEIR_HEALTH_DETAIL_BYTES];
	int r = 0;

	snprintf(why, sizeof(why), "%s", detail);
	end_path(check, &outcome, why);
	if (outcome == WEIR_PROBE_PASSED) {
		r = weir_health_urls_advance(&check->urls, &check->params->check, why, report);
	}
	if (r > 0) {
		check->run = (struct weir_health_run){0};
		request(check);
	} else if (r < 0) {
		finish(check, WEIR_PROBE_UNKNOWN, uv_strerror(r), NULL);
	} else {
		finish(check, outcome, why, report);
	}
}

static void on_done(void *context, enum weir_probe_outcome outcome, const char *detail,
	const struct weir_report *report) {
	struct weir_health_check *check = context;
	struct weir_health_starts *starts = starts_of(check); // `end_request` can free the check

	end_request(check, outcome, detail, report);
	weir_health_starts_run(starts);
}

static void on_due(uv_timer_t *timer) {
	struct weir_health_check *check = timer->data;
	bool is_failing = check->ended_ns != 0 && !check->passed &&
			  check->verdict == WEIR_HEALTH_VERDICT_FAILING;

	check->start.due_ms = uv_now(timer->loop);
	check->start.interval_ms = check->params->check.interval_ms;
	check->start.service = check->service;
	weir_health_starts_add(starts_of(check), &check->start, is_failing,
		weir_health_run_descriptors(&check->params->check));
}

static void on_wake(uv_timer_t *timer) {
	weir_health_starts_run(starts_of(timer->data));
}

static void wake(struct weir_health_starts *starts) {
	struct weir_health_start *start = weir_health_starts_next(starts);

	if (start != NULL) { // the timer of a check in the queue is not in use
		uv_timer_start(&check_of(start)->timer, on_wake, 0, 0);
	}
}

void weir_health_checking_wake(struct weir_health_checking *checking) {
	wake(&checking->starts);
	wake(&checking->program_starts);
}

// Stops the timer of a check, removes the check from the queue, or cancels its probe.
static void halt(struct weir_health_check *check) {
	set_cover(check, false);
	uv_timer_stop(&check->timer);
	weir_health_run_cancel(&check->run);
	weir_data_path_close(check->checking->path, &check->flow);
	weir_health_urls_free(&check->urls);
	weir_health_starts_remove(starts_of(check), &check->start);
}

// --- the schedule -------------------------------------------------------------------------

// If a check is due later than one interval from now, starts it earlier, by a whole number of
// intervals.
static void hasten(struct weir_health_check *check) {
	uint64_t now = uv_now(check->checking->loop), interval = check->params->check.interval_ms;

	if (check->params->check.type != WEIR_CHECK_AGENT &&
		check->start.state == WEIR_HEALTH_START_NONE && check->due_ms > now + interval) {
		check->due_ms = now + 1 + (check->due_ms - now - 1) % interval;
		sleep_until_due(check);
	}
}

// Resets the count of results, and starts the next probe. Cancels a running probe, because it may
// have connected to the server before the restart.
void weir_health_check_restart(struct weir_health_check *check) {
	const struct weir_config_health_check *config = &check->params->check;
	uint64_t now = uv_now(check->checking->loop);

	check->streak = 0;
	check->cover.vips = 0;
	if (check->verdict == WEIR_HEALTH_VERDICT_PASSING) {
		check->verdict = WEIR_HEALTH_VERDICT_UNKNOWN;
	}
	if (config->type == WEIR_CHECK_AGENT) {
		return;
	}
	halt(check);
	if (check->due_ms > now) { // go back by whole intervals, to the last time before now
		check->due_ms -=
			((check->due_ms - now - 1) / config->interval_ms + 1) * config->interval_ms;
	}
	check->quick = config->rise;
	check->planned_ms = now;
	uv_timer_start(&check->timer, on_due, 0, 0);
}

void weir_health_check_set_far(struct weir_health_check *check, bool far) {
	if (check->far == far) {
		return;
	}
	check->far = far;
	if (!far) {
		hasten(check);
	}
}

void weir_health_check_set_idle(struct weir_health_check *check, uint32_t interval_ms) {
	uint32_t before = check->idle_intervals;

	check->idle_intervals = interval_ms / check->params->check.interval_ms;
	if (check->idle_intervals < before) {
		hasten(check);
	}
}

void weir_health_check_set_hop(
	struct weir_health_check *check, const struct weir_data_path_hop *hop) {
	const struct weir_data_path_hop before = check->hop;

	check->hop = *hop;
	if (!hop->has_mac && before.has_mac && !hop->through_gateway &&
		hop->ifindex == before.ifindex) {
		// The backend no longer replies to ARP or ND. Checks continue with its previous MAC
		// address, and fail if the backend is down.
		memcpy(check->hop.mac, before.mac, sizeof(before.mac));
		check->hop.has_mac = true;
	}
}

void weir_health_check_agent_result(struct weir_health_check *check,
	enum weir_probe_outcome outcome, const char *detail, uint32_t duration_ms) {
	struct update update = {.detail = ""};

	if (check->params->check.type != WEIR_CHECK_AGENT) {
		return;
	}
	snprintf(update.detail, sizeof(update.detail), "%s", detail);
	keep_detail(check, outcome, &update);
	check->duration_ms = duration_ms;
	if (outcome != WEIR_PROBE_UNKNOWN) {
		take_result(check, outcome == WEIR_PROBE_PASSED, duration_ms * US_PER_MS, NULL,
			&update);
	}
	end_probe(check, outcome, uv_hrtime());
	notify(check, &update);
}

// --- status -------------------------------------------------------------------------------

void weir_health_check_status(
	const struct weir_health_check *check, struct weir_health_status *ret) {
	uint64_t now = uv_hrtime();

	*ret = (struct weir_health_status){
		.type = check->params->check.type,
		.via = check->params->vip_count > 0 ? WEIR_VIA_DATA_PATH : WEIR_VIA_DIRECT,
		.verdict = check->verdict,
		.late_ms = check->late_ms,
		.interval_ms = is_retry(check)
				       ? retry_ms(check)
				       : (uint64_t)check->params->check.interval_ms * pace(check),
		.passes = check->passes,
		.fails = check->fails,
	};
	if (check->ended_ns != 0) {
		ret->checked = true;
		ret->passed = check->passed;
		ret->without_result = check->missing.no_result;
		memcpy(ret->detail, check->detail, sizeof(ret->detail));
		ret->duration_ms = check->duration_ms;
		ret->age_ms = (now - check->ended_ns) / NS_PER_MS;
		ret->streak = check->streak;
	}
}

uint64_t weir_health_check_unchecked_ms(const struct weir_health_check *check) {
	const uint64_t ms = (uv_hrtime() - check->missing.since_ns) / NS_PER_MS;

	return check->missing.count < WEIR_HEALTH_UNCHECKED ? 0 : ms > 0 ? ms : 1;
}

// --- the target ---------------------------------------------------------------------------

bool weir_health_check_is_of(
	const struct weir_health_check *check, const struct weir_health_target *target) {
	return check->service == target->service && check->port == target->port &&
	       weir_address_equal(&check->address, &target->address) &&
	       weir_forwarding_equal(&check->forwarding, &target->forwarding) &&
	       weir_health_params_are_of(check->params, target);
}

void weir_health_check_set(struct weir_health_check *check, const struct weir_health_target *target,
	struct weir_health_params *params, uint64_t delay_ms) {
	halt(check);
	weir_health_params_leave(check->params);
	check->params = params;
	if (!weir_address_equal(&check->address, &target->address)) {
		check->hop = (struct weir_data_path_hop){0};
	}
	check->forwarding = target->forwarding;
	check->service = target->service;
	check->port = target->port;
	check->address = target->address;
	check->vip = check->missing.vip = 0;
	check->missing.no_result = false;
	check->ended_ns = 0;
	check->passed = false;
	check->duration_ms = 0;
	check->detail[0] = '\0';
	check->streak = 0;
	check->quick = 0;
	check->cover.vips = 0;
	check->passes = 0;
	check->fails = 0;
	check->spread = false;
	check->due_ms = uv_now(check->checking->loop) + delay_ms;
	check->planned_ms = check->due_ms;
	if (check->params->check.type != WEIR_CHECK_AGENT) {
		uv_timer_start(&check->timer, on_due, delay_ms, 0);
	}
}

// --- create and free ----------------------------------------------------------------------

void weir_health_checking_init(struct weir_health_checking *checking, uv_loop_t *loop) {
	*checking = (struct weir_health_checking){.loop = loop};
	weir_health_starts_init(&checking->starts, WEIR_HEALTH_CONCURRENT, run);
	weir_health_starts_init(&checking->program_starts, WEIR_HEALTH_PROGRAMS, run);
	if (uv_random(NULL, NULL, &checking->random, sizeof(checking->random), 0, NULL) < 0 ||
		checking->random == 0) {
		checking->random = uv_hrtime() | 1;
	}
}

struct weir_health_check *weir_health_check_create(
	struct weir_health_checking *checking, const struct weir_health_target *target) {
	struct weir_health_check *check = calloc(1, sizeof(*check));

	if (check == NULL) {
		return NULL;
	}
	check->checking = checking;
	check->backend = target->backend;
	check->alongside = target->alongside;
	check->verdict = target->initial;
	check->reported.word = (uint8_t)target->word;
	uv_timer_init(checking->loop, &check->timer);
	check->timer.data = check;
	return check;
}

static void on_closed(uv_handle_t *handle) {
	free(handle->data);
}

void weir_health_check_free(struct weir_health_check *check) {
	if (check != NULL) {
		halt(check);
		weir_health_params_leave(check->params);
		uv_close((uv_handle_t *)&check->timer, on_closed);
	}
}
