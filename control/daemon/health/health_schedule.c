// SPDX-License-Identifier: BSD-3-Clause
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "health_path.h"
#include "health_private.h"

#define NS_PER_MS 1000000ull

static void start_queued(struct weir_health *health);

// --- results ------------------------------------------------------------------------------

static bool update_verdict(struct weir_health_check *check, bool passed) {
	enum weir_health_verdict verdict = check->verdict;

	if (check->ended_ns == 0 || check->passed != passed) {
		check->streak = 0;
	}
	check->streak++;
	check->passed = passed;
	if (passed) {
		check->passes++;
	} else {
		check->fails++;
	}
	if (passed && check->streak >= check->params->check.rise) {
		verdict = WEIR_HEALTH_VERDICT_PASSING;
	} else if (!passed && check->streak >= check->params->check.fall) {
		verdict = WEIR_HEALTH_VERDICT_FAILING;
	}
	if (verdict == check->verdict) {
		return false;
	}
	check->verdict = verdict;
	return true;
}

// Whether the last check agrees with the verdict, so that a longer interval is sufficient.
static bool is_settled(const struct weir_health_check *check) {
	return check->ended_ns != 0 &&
	       check->verdict ==
		       (check->passed ? WEIR_HEALTH_VERDICT_PASSING : WEIR_HEALTH_VERDICT_FAILING);
}

// Intervals from one check to the next.
static uint32_t pace(const struct weir_health_check *check) {
	uint32_t far = check->far ? WEIR_HEALTH_FAR_INTERVALS : 1;

	return !is_settled(check) ? 1 : check->idle_intervals > far ? check->idle_intervals : far;
}

// xorshift64: good enough for jitter.
static uint64_t draw(struct weir_health *health) {
	health->random ^= health->random << 13;
	health->random ^= health->random >> 7;
	health->random ^= health->random << 17;
	return health->random;
}

// Sleep until due_ms plus or minus up to a twentieth of the interval, so that checks of several
// balancers do not stay synchronized; the time between two starts differs from the interval by a
// tenth at most.
static void sleep_until_due(struct weir_health_check *check) {
	uint64_t now = uv_now(check->health->loop), part = check->params->check.interval_ms / 20;
	uint64_t jitter = part > 0 ? draw(check->health) % (2 * part + 1) : 0;

	check->planned_ms =
		check->due_ms + jitter > now + part ? check->due_ms + jitter - part : now;
	check->phase = WEIR_HEALTH_CHECK_SLEEPING;
	uv_timer_start(&check->timer, weir_health_on_due, check->planned_ms - now, 0);
}

// Sleep until the next start, on the grid of the interval, so that the checks stay spread. At a
// slower pace, backends use different intervals of the grid, so that their checks do not coincide.
// The first call gives a check a random offset in the interval, because the checks of a new
// configuration start close together.
static void schedule(struct weir_health_check *check) {
	uint64_t now = uv_now(check->health->loop), interval = check->params->check.interval_ms;
	uint64_t slot = check->due_ms / interval + check->backend;

	if (!check->spread) {
		check->spread = true;
		check->due_ms += draw(check->health) % interval - interval / 2;
	}
	check->due_ms += (pace(check) - (pace(check) > 1 ? slot % pace(check) : 0)) * interval;
	if (check->due_ms <= now) {
		check->due_ms = now + interval - (now - check->due_ms) % interval;
	}
	sleep_until_due(check);
}

// A backend's word applies until a passing answer does not repeat it.
static void apply_word(struct weir_health_check *check, struct weir_report *report) {
	uint8_t before = check->word;

	check->word = report->word;
	if (report->word != WEIR_HEALTH_WORD_NONE) {
		return;
	}
	if (!check->passed) {
		check->word = before;
	} else if (before != WEIR_HEALTH_WORD_NONE && before != WEIR_HEALTH_WORD_READY) {
		static const char why[] = "X-Weir-State was removed";

		report->word = WEIR_HEALTH_WORD_READY;
		weir_report_set_why(report, why, sizeof(why) - 1);
	}
}

// Results of a check for the callbacks. A copy, because a callback may configure, which may free
// the check.
struct update {
	bool changed; // the verdict
	enum weir_health_verdict verdict;
	char detail[WEIR_HEALTH_DETAIL_BYTES];
	struct weir_report report;
};

// Calls back with the verdict first: when it changes to FAILING, the backend's earlier words are
// forgotten.
static void notify(struct weir_health_check *check, const struct update *update) {
	struct weir_health *health = check->health;
	uint16_t backend = check->backend;
	bool alongside = check->alongside;
	const char *source = weir_config_check_name(check->params->check.type);

	if (update->changed && !check->alongside) {
		health->on_health(health->context, backend, update->verdict, update->detail);
	}
	if ((update->report.given != 0 || update->report.word != WEIR_HEALTH_WORD_NONE) &&
		weir_health_find(health, backend, alongside) == check) {
		health->on_report(health->context, backend, &update->report, source);
	}
}

void weir_health_forget(struct weir_health *health, uint16_t backend) {
	for (int alongside = 0; alongside < 2; alongside++) {
		struct weir_health_check *each = weir_health_find(health, backend, alongside);

		if (each != NULL) {
			each->word = WEIR_HEALTH_WORD_NONE;
			each->agent_words = (struct weir_agent_check){0};
		}
	}
}

static void take_result(struct weir_health_check *check, bool passed,
	const struct weir_report *report, struct update *update) {
	update->changed = update_verdict(check, passed);
	update->verdict = check->verdict;
	if (update->changed && check->verdict == WEIR_HEALTH_VERDICT_FAILING && !check->alongside) {
		weir_health_forget(check->health, check->backend);
	}
	if (report != NULL) {
		update->report = *report;
	}
	if (report != NULL && check->params->check.type != WEIR_CHECK_AGENT_CHECK) {
		apply_word(check, &update->report);
	}
}

// Replaces control characters: the detail may contain text of a backend or its certificate, and is
// written to logs, terminals and JSON.
static void keep_detail(struct weir_health_check *check, struct update *update) {
	for (char *c = update->detail; *c != '\0'; c++) {
		if (*c < ' ' || *c > '~') {
			*c = '?';
		}
	}
	memcpy(check->detail, update->detail, sizeof(check->detail));
}

// Number of descriptors that a probe uses.
static unsigned int descriptors(const struct weir_health_check *check) {
	enum weir_config_check type = check->params->check.type;

	return type == WEIR_CHECK_TCP || type == WEIR_CHECK_AGENT_CHECK
		       ? 1
		       : WEIR_HEALTH_RELAY_DESCRIPTORS;
}

// Cost of a check out of WEIR_HEALTH_CONCURRENT: 1, or more if descriptors are scarce.
static unsigned int cost_of(const struct weir_health_check *check) {
	unsigned int max = check->health->descriptors_max;
	unsigned int cost = (descriptors(check) * WEIR_HEALTH_CONCURRENT + max - 1) / max;

	return cost > 1 ? cost : 1;
}

static void count_start(struct weir_health_check *check) {
	check->cost = cost_of(check);
	check->health->running += check->cost;
	check->health->running_failing += check->is_failing ? check->cost : 0;
}

static void count_end(struct weir_health_check *check) {
	check->health->running -= check->cost;
	check->health->running_failing -= check->is_failing ? check->cost : 0;
}

static void finish(struct weir_health_check *check, enum weir_probe_outcome outcome,
	const char *detail, const struct weir_report *report) {
	struct update update = {.detail = ""};
	uint64_t now = uv_hrtime();

	check->tcp = NULL;
	check->http = NULL;
	check->agent_check = NULL;
	count_end(check);
	snprintf(update.detail, sizeof(update.detail), "%s", detail);
	weir_health_path_end(check, &outcome, update.detail, sizeof(update.detail));
	keep_detail(check, &update);
	check->duration_ms = (uint32_t)((now - check->started_ns) / NS_PER_MS);
	check->without_result = outcome == WEIR_PROBE_UNKNOWN;
	if (outcome != WEIR_PROBE_UNKNOWN) {
		take_result(check, outcome == WEIR_PROBE_PASSED, report, &update);
	}
	check->ended_ns = now;
	schedule(check);
	notify(check, &update);
}

static void on_done(void *context, enum weir_probe_outcome outcome, const char *detail,
	const struct weir_report *report) {
	struct weir_health_check *check = context;
	struct weir_health *health = check->health;

	finish(check, outcome, detail, report);
	start_queued(health);
}

// --- starting -----------------------------------------------------------------------------

static int start_probe(struct weir_health_check *check, const struct weir_probe_params *params) {
	struct weir_health *health = check->health;

	switch (check->params->check.type) {
	case WEIR_CHECK_HTTP:
	case WEIR_CHECK_HTTPS:
	case WEIR_CHECK_GRPC:
		return weir_health_http_start(health->curl, params, &check->http);
	case WEIR_CHECK_AGENT_CHECK:
		return weir_health_agent_check_start(
			health->loop, params, &check->agent_words, &check->agent_check);
	default:
		return weir_health_tcp_start(health->loop, params, &check->tcp);
	}
}

static void start(struct weir_health_check *check) {
	bool data_path = check->vip.family != 0;
	struct weir_probe_params params = {
		.address = data_path ? check->vip : check->address,
		.port = check->port,
		.flow = data_path ? &check->flow : NULL,
		.check = &check->params->check,
		.done = on_done,
		.context = check,
	};
	char why[WEIR_HEALTH_DETAIL_BYTES];
	int r;

	check->phase = WEIR_HEALTH_CHECK_RUNNING;
	check->started_ns = uv_hrtime();
	check->late_ms = check->started_ns / NS_PER_MS > check->planned_ms
				 ? (uint32_t)(check->started_ns / NS_PER_MS - check->planned_ms)
				 : 0;
	count_start(check);
	r = weir_health_path_open(check, why, sizeof(why));
	if (r) {
		finish(check, weir_probe_outcome_of(r), why, NULL);
		return;
	}
	r = start_probe(check, &params);
	if (r) {
		finish(check, weir_probe_outcome_of(r), uv_strerror(r), NULL);
	}
}

static struct weir_health_queue *queue_of(struct weir_health *health, bool is_failing) {
	return is_failing ? &health->failing_queue : &health->queue;
}

// The queue to start from next, or NULL: no check may start now.
static struct weir_health_queue *next_queue(struct weir_health *health) {
	unsigned int max = WEIR_HEALTH_CONCURRENT, failing = health->running_failing;
	bool waiting = !STAILQ_EMPTY(&health->failing_queue);

	if (health->running >= max) {
		return NULL;
	}
	if (waiting && failing < max / 8) {
		return &health->failing_queue;
	}
	if (!STAILQ_EMPTY(&health->queue)) {
		return &health->queue;
	}
	return waiting && failing < max / 2 ? &health->failing_queue : NULL;
}

static void start_queued(struct weir_health *health) {
	struct weir_health_queue *queue;

	while ((queue = next_queue(health)) != NULL) {
		struct weir_health_check *check = STAILQ_FIRST(queue);

		STAILQ_REMOVE_HEAD(queue, queue);
		start(check);
	}
}

void weir_health_on_due(uv_timer_t *timer) {
	struct weir_health_check *check = timer->data;
	struct weir_health *health = check->health;

	check->phase = WEIR_HEALTH_CHECK_QUEUED;
	check->is_failing = check->ended_ns != 0 && !check->passed &&
			    check->verdict == WEIR_HEALTH_VERDICT_FAILING;
	STAILQ_INSERT_TAIL(queue_of(health, check->is_failing), check, queue);
	start_queued(health);
}

static void cancel(struct weir_health_check *check) {
	if (check->http != NULL) {
		weir_health_http_cancel(check->http);
	} else if (check->tcp != NULL) {
		weir_health_tcp_cancel(check->tcp);
	} else if (check->agent_check != NULL) {
		weir_health_agent_check_cancel(check->agent_check);
	}
	check->http = NULL;
	check->tcp = NULL;
	check->agent_check = NULL;
	weir_health_path_cancel(check);
}

// Out of timer, queue or flight.
void weir_health_halt(struct weir_health_check *check) {
	struct weir_health *health = check->health;

	switch (check->phase) {
	case WEIR_HEALTH_CHECK_SLEEPING:
		uv_timer_stop(&check->timer);
		break;
	case WEIR_HEALTH_CHECK_QUEUED:
		STAILQ_REMOVE(queue_of(health, check->is_failing), check, weir_health_check, queue);
		break;
	case WEIR_HEALTH_CHECK_RUNNING:
		cancel(check);
		count_end(check);
		break;
	}
	check->phase = WEIR_HEALTH_CHECK_SLEEPING;
}

// Reschedule a check that is far in the future to an earlier time of the same grid.
static void hasten(struct weir_health_check *check) {
	uint64_t now = uv_now(check->health->loop), interval = check->params->check.interval_ms;

	if (check->params->check.type != WEIR_CHECK_AGENT &&
		check->phase == WEIR_HEALTH_CHECK_SLEEPING && check->due_ms > now + interval) {
		check->due_ms = now + 1 + (check->due_ms - now - 1) % interval;
		sleep_until_due(check);
	}
}

static void set_far(struct weir_health_check *check, bool far) {
	if (check->far == far) {
		return;
	}
	check->far = far;
	if (!far) {
		hasten(check);
	}
}

void weir_health_set_far(struct weir_health *health, uint16_t backend, bool far) {
	for (int alongside = 0; alongside < 2; alongside++) {
		struct weir_health_check *check = weir_health_find(health, backend, alongside);

		if (check != NULL) {
			set_far(check, far);
		}
	}
}

static void set_idle(struct weir_health_check *check, uint32_t interval_ms) {
	uint32_t before = check->idle_intervals;

	check->idle_intervals = interval_ms / check->params->check.interval_ms;
	if (check->idle_intervals < before) {
		hasten(check);
	}
}

void weir_health_set_idle(struct weir_health *health, uint16_t backend, uint32_t interval_ms) {
	for (int alongside = 0; alongside < 2; alongside++) {
		struct weir_health_check *check = weir_health_find(health, backend, alongside);

		if (check != NULL) {
			set_idle(check, interval_ms);
		}
	}
}

void weir_health_set_source(struct weir_health *health, uint16_t backend,
	const struct weir_address *source, uint8_t source_bits) {
	struct weir_health_check *check = weir_health_find(health, backend, false);

	if (check != NULL) {
		check->source = *source;
		check->source_bits = source_bits;
	}
}

void weir_health_agent_result(struct weir_health *health, uint16_t backend,
	enum weir_probe_outcome outcome, const char *detail, uint32_t duration_ms) {
	struct weir_health_check *check = weir_health_find(health, backend, false);
	struct update update = {.detail = ""};

	if (check == NULL || check->params->check.type != WEIR_CHECK_AGENT) {
		return;
	}
	snprintf(update.detail, sizeof(update.detail), "%s", detail);
	keep_detail(check, &update);
	check->duration_ms = duration_ms;
	check->without_result = outcome == WEIR_PROBE_UNKNOWN;
	if (outcome != WEIR_PROBE_UNKNOWN) {
		take_result(check, outcome == WEIR_PROBE_PASSED, NULL, &update);
	}
	check->ended_ns = uv_hrtime();
	notify(check, &update);
}

// --- status -------------------------------------------------------------------------------

int weir_health_status(const struct weir_health *health, uint16_t backend, bool alongside,
	struct weir_health_status *ret) {
	const struct weir_health_check *check = weir_health_find(health, backend, alongside);
	uint64_t now = uv_hrtime();

	if (check == NULL) {
		return -ENOENT;
	}
	*ret = (struct weir_health_status){
		.type = check->params->check.type,
		.via = check->vip.family != 0 ? WEIR_VIA_DATA_PATH : WEIR_VIA_DIRECT,
		.verdict = check->verdict,
		.late_ms = check->late_ms,
		.interval_ms = (uint64_t)check->params->check.interval_ms * pace(check),
		.passes = check->passes,
		.fails = check->fails,
	};
	if (check->ended_ns != 0) {
		ret->checked = true;
		ret->passed = check->passed;
		ret->without_result = check->without_result;
		memcpy(ret->detail, check->detail, sizeof(ret->detail));
		ret->duration_ms = check->duration_ms;
		ret->age_ms = (now - check->ended_ns) / NS_PER_MS;
		ret->streak = check->streak;
	}
	return 0;
}
