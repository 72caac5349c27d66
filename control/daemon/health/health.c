// SPDX-License-Identifier: BSD-3-Clause
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/resource.h>

#include "health.h"
#include "health_http.h"
#include "health_tcp.h"

#define NS_PER_MS 1000000ull

enum check_phase {
	CHECK_SLEEPING, // its timer runs
	CHECK_QUEUED, // due, but too many are in flight
	CHECK_RUNNING,
};

struct check {
	struct weir_health *health;
	uv_timer_t timer; // next start
	STAILQ_ENTRY(check) queue;
	uint16_t backend;
	uint16_t port;
	struct weir_address address;
	struct weir_config_health_check params;
	enum check_phase phase;
	bool refused; // while QUEUED or RUNNING: in the share of failing backends
	enum weir_health_verdict verdict;
	bool far;
	uint64_t generation; // of the configure call that named it last
	uint64_t due_ms; // loop time of the current or next start
	uint64_t started_ns; // start of the running probe
	uint64_t ended_ns; // end of the last probe, 0 = none ended
	bool passed;
	char detail[WEIR_HEALTH_DETAIL_BYTES];
	uint32_t duration_ms;
	uint32_t streak;
	uint64_t passes, fails;
	struct weir_health_tcp *tcp; // while RUNNING, one of the two
	struct weir_health_http *http;
};

struct weir_health {
	uv_loop_t *loop;
	weir_health_fn on_health;
	void *context;
	struct weir_health_curl *curl;
	struct check **checks; // by backend id; NULL = not checked
	uint32_t ids; // elements of checks
	uint64_t generation;
	STAILQ_HEAD(check_queue, check) queue, refused; // the latter of failing backends
	unsigned int running, running_refused; // the former counts all
	unsigned int running_max;
};

static void start_queued(struct weir_health *health);
static void on_due(uv_timer_t *timer);

// --- results ------------------------------------------------------------------------------

static bool update_verdict(struct check *check, bool passed) {
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
	if (passed && check->streak >= check->params.rise) {
		verdict = WEIR_HEALTH_VERDICT_PASSING;
	} else if (!passed && check->streak >= check->params.fall) {
		verdict = WEIR_HEALTH_VERDICT_FAILING;
	}
	if (verdict == check->verdict) {
		return false;
	}
	check->verdict = verdict;
	return true;
}

// Whether the last check agrees with the verdict, so that a slow interval is enough.
static bool is_settled(const struct check *check) {
	return check->ended_ns != 0 &&
	       check->verdict ==
		       (check->passed ? WEIR_HEALTH_VERDICT_PASSING : WEIR_HEALTH_VERDICT_FAILING);
}

// Intervals from one check to the next.
static uint32_t pace(const struct check *check) {
	return check->far && is_settled(check) ? WEIR_HEALTH_FAR_INTERVALS : 1;
}

// Sleep until the next start: on the grid of the interval, so that the spread stays. Of a slower
// pace, each backend has intervals of its own, so that they do not all come in one.
static void schedule(struct check *check) {
	uint64_t now = uv_now(check->health->loop), interval = check->params.interval_ms;
	uint64_t slot = check->due_ms / interval + check->backend;

	check->due_ms += (pace(check) - (pace(check) > 1 ? slot % pace(check) : 0)) * interval;
	if (check->due_ms <= now) {
		check->due_ms = now + interval - (now - check->due_ms) % interval;
	}
	check->phase = CHECK_SLEEPING;
	uv_timer_start(&check->timer, on_due, check->due_ms - now, 0);
}

static void finish(struct check *check, enum weir_probe_outcome outcome, const char *detail) {
	struct weir_health *health = check->health;
	char copy[WEIR_HEALTH_DETAIL_BYTES] = "";
	bool changed = false;
	uint64_t now = uv_hrtime();

	check->tcp = NULL;
	check->http = NULL;
	health->running--;
	health->running_refused -= check->refused;
	snprintf(copy, sizeof(copy), "%s", detail);
	memcpy(check->detail, copy, sizeof(copy));
	check->duration_ms = (uint32_t)((now - check->started_ns) / NS_PER_MS);
	if (outcome != WEIR_PROBE_UNKNOWN) {
		changed = update_verdict(check, outcome == WEIR_PROBE_PASSED);
	}
	check->ended_ns = now;
	schedule(check);
	if (changed) { // may configure: check can be gone afterwards
		health->on_health(health->context, check->backend, check->verdict, copy);
	}
}

static void on_done(void *context, enum weir_probe_outcome outcome, const char *detail) {
	struct check *check = context;
	struct weir_health *health = check->health;

	finish(check, outcome, detail);
	start_queued(health);
}

// --- starting -----------------------------------------------------------------------------

static void start(struct check *check) {
	struct weir_health *health = check->health;
	struct weir_probe_params params = {
		.address = check->address,
		.port = check->port,
		.check = &check->params,
		.done = on_done,
		.context = check,
	};
	int r;

	check->phase = CHECK_RUNNING;
	check->started_ns = uv_hrtime();
	health->running++;
	health->running_refused += check->refused;
	if (check->params.type == WEIR_CHECK_HTTP) {
		r = weir_health_http_start(health->curl, &params, &check->http);
	} else {
		r = weir_health_tcp_start(health->loop, &params, &check->tcp);
	}
	if (r) {
		finish(check, weir_probe_outcome_of(r), uv_strerror(r));
	}
}

static struct check_queue *queue_of(struct weir_health *health, bool refused) {
	return refused ? &health->refused : &health->queue;
}

// The queue whose turn it is, or NULL: what waits has to wait.
static struct check_queue *next_queue(struct weir_health *health) {
	unsigned int max = health->running_max, refused = health->running_refused;
	bool waiting = !STAILQ_EMPTY(&health->refused);

	if (health->running >= max) {
		return NULL;
	}
	if (waiting && refused < max / 8) {
		return &health->refused;
	}
	if (!STAILQ_EMPTY(&health->queue)) {
		return &health->queue;
	}
	return waiting && refused < max / 2 ? &health->refused : NULL;
}

static void start_queued(struct weir_health *health) {
	struct check_queue *queue;

	while ((queue = next_queue(health)) != NULL) {
		struct check *check = STAILQ_FIRST(queue);

		STAILQ_REMOVE_HEAD(queue, queue);
		start(check);
	}
}

static void on_due(uv_timer_t *timer) {
	struct check *check = timer->data;
	struct weir_health *health = check->health;

	check->phase = CHECK_QUEUED;
	check->refused = check->ended_ns != 0 && !check->passed &&
			 check->verdict == WEIR_HEALTH_VERDICT_FAILING;
	STAILQ_INSERT_TAIL(queue_of(health, check->refused), check, queue);
	start_queued(health);
}

// Out of timer, queue or flight.
static void halt(struct check *check) {
	struct weir_health *health = check->health;

	switch (check->phase) {
	case CHECK_SLEEPING:
		uv_timer_stop(&check->timer);
		break;
	case CHECK_QUEUED:
		STAILQ_REMOVE(queue_of(health, check->refused), check, check, queue);
		break;
	case CHECK_RUNNING:
		if (check->http != NULL) {
			weir_health_http_cancel(check->http);
		} else if (check->tcp != NULL) {
			weir_health_tcp_cancel(check->tcp);
		}
		check->http = NULL;
		check->tcp = NULL;
		health->running--;
		health->running_refused -= check->refused;
		break;
	}
	check->phase = CHECK_SLEEPING;
}

// --- configuring --------------------------------------------------------------------------

static void free_check(uv_handle_t *handle) {
	free(handle->data);
}

static void check_free(struct check *check) {
	halt(check);
	check->health->checks[check->backend] = NULL;
	uv_close((uv_handle_t *)&check->timer, free_check);
}

static bool is_same(const struct check *check, const struct weir_health_target *target) {
	const struct weir_config_health_check *a = &check->params, *b = target->check;

	return check->port == target->port && check->address.family == target->address.family &&
	       memcmp(check->address.bytes, target->address.bytes, 16) == 0 && a->type == b->type &&
	       a->interval_ms == b->interval_ms && a->timeout_ms == b->timeout_ms &&
	       a->rise == b->rise && a->fall == b->fall &&
	       (a->type != WEIR_CHECK_HTTP ||
		       (strcmp(a->path, b->path) == 0 && strcmp(a->host, b->host) == 0 &&
			       a->status_first == b->status_first &&
			       a->status_last == b->status_last));
}

static bool is_sound(const struct weir_health_target *target) {
	const struct weir_config_health_check *check = target->check;

	return check->type == WEIR_CHECK_NONE ||
	       (check->interval_ms > 0 && check->timeout_ms > 0 && check->rise > 0 &&
		       check->fall > 0 && target->port > 0 &&
		       (target->address.family == 4 || target->address.family == 6));
}

static int validate(const struct weir_health_target *targets, uint32_t n, uint32_t *ret_ids) {
	uint8_t *seen = calloc(1, WEIR_BACKENDS_MAX + 1);
	uint32_t ids = 0;
	int r = 0;

	if (seen == NULL) {
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < n && !r; i++) {
		if (targets[i].backend >= WEIR_BACKENDS_MAX || seen[targets[i].backend]++ ||
			!is_sound(&targets[i])) {
			r = -EINVAL;
		}
		ids = targets[i].backend >= ids ? targets[i].backend + 1u : ids;
	}
	free(seen);
	if (!r) {
		*ret_ids = ids;
	}
	return r;
}

static int grow(struct weir_health *health, uint32_t ids) {
	struct check **checks;

	if (ids <= health->ids) {
		return 0;
	}
	checks = realloc(health->checks, ids * sizeof(*checks));
	if (checks == NULL) {
		return -ENOMEM;
	}
	memset(checks + health->ids, 0, (ids - health->ids) * sizeof(*checks));
	health->checks = checks;
	health->ids = ids;
	return 0;
}

static struct check *find(const struct weir_health *health, uint16_t backend) {
	return backend < health->ids ? health->checks[backend] : NULL;
}

// New, or not what it was?
static bool is_fresh(const struct weir_health *health, const struct weir_health_target *target) {
	const struct check *check = find(health, target->backend);

	return target->check->type != WEIR_CHECK_NONE && (check == NULL || !is_same(check, target));
}

// All memory that the new targets need, so that nothing can fail once something has changed.
// Returns an array in order of the targets (NULL where there is a check already), or NULL.
static struct check **allocate(
	const struct weir_health *health, const struct weir_health_target *targets, uint32_t n) {
	struct check **checks = calloc(n + 1, sizeof(*checks));

	for (uint32_t i = 0; checks != NULL && i < n; i++) {
		if (!is_fresh(health, &targets[i]) || find(health, targets[i].backend) != NULL) {
			continue;
		}
		checks[i] = calloc(1, sizeof(**checks));
		if (checks[i] == NULL) {
			while (i-- > 0) {
				free(checks[i]);
			}
			free(checks);
			return NULL;
		}
	}
	return checks;
}

static void set_target(
	struct check *check, const struct weir_health_target *target, uint64_t delay_ms) {
	check->port = target->port;
	check->address = target->address;
	check->params = *target->check;
	check->ended_ns = 0;
	check->duration_ms = 0;
	check->detail[0] = '\0';
	check->streak = 0;
	check->passes = 0;
	check->fails = 0;
	check->due_ms = uv_now(check->health->loop) + delay_ms;
	uv_timer_start(&check->timer, on_due, delay_ms, 0);
}

static void add(struct weir_health *health, struct check *check,
	const struct weir_health_target *target, uint64_t delay_ms) {
	check->health = health;
	check->backend = target->backend;
	check->verdict = target->initial;
	check->phase = CHECK_SLEEPING;
	uv_timer_init(health->loop, &check->timer);
	check->timer.data = check;
	health->checks[check->backend] = check;
	set_target(check, target, delay_ms);
}

// Few fresh targets are checked soon, many are spread over their interval.
static uint64_t first_delay(uint32_t index, uint32_t fresh, uint32_t interval_ms) {
	uint64_t spread = fresh < interval_ms ? fresh : interval_ms;

	return fresh > 0 ? index * spread / fresh : 0;
}

static void apply_fresh(struct weir_health *health, const struct weir_health_target *target,
	struct check *memory, uint64_t delay_ms) {
	struct check *check = find(health, target->backend);

	if (check != NULL) {
		halt(check);
		set_target(check, target, delay_ms);
	} else if (memory != NULL) { // always, see allocate
		add(health, memory, target, delay_ms);
	}
}

static void apply(struct weir_health *health, const struct weir_health_target *targets, uint32_t n,
	struct check **memory) {
	uint32_t fresh = 0, index = 0;

	for (uint32_t i = 0; i < n; i++) {
		fresh += is_fresh(health, &targets[i]);
	}
	for (uint32_t i = 0; i < n; i++) {
		uint32_t interval_ms = targets[i].check->interval_ms;

		if (is_fresh(health, &targets[i])) {
			apply_fresh(health, &targets[i], memory[i],
				first_delay(index++, fresh, interval_ms));
		}
		if (targets[i].check->type != WEIR_CHECK_NONE) {
			health->checks[targets[i].backend]->generation = health->generation;
		}
	}
}

// Checks in flight at most. The limit of descriptors may have been changed.
static unsigned int running_max(void) {
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur / 2 >= WEIR_HEALTH_CONCURRENT) {
		return WEIR_HEALTH_CONCURRENT;
	}
	return limit.rlim_cur < 16 ? 8 : (unsigned int)limit.rlim_cur / 2;
}

int weir_health_configure(
	struct weir_health *health, const struct weir_health_target *targets, uint32_t n) {
	struct check **memory;
	uint32_t ids;
	int r = validate(targets, n, &ids);

	if (!r) {
		r = grow(health, ids);
	}
	if (r) {
		return r;
	}
	memory = allocate(health, targets, n);
	if (memory == NULL) {
		return -ENOMEM;
	}
	health->generation++;
	health->running_max = running_max();
	uv_update_time(health->loop);
	apply(health, targets, n, memory);
	for (uint32_t id = 0; id < health->ids; id++) {
		if (health->checks[id] != NULL &&
			health->checks[id]->generation != health->generation) {
			check_free(health->checks[id]);
		}
	}
	free(memory);
	return 0;
}

void weir_health_set_far(struct weir_health *health, uint16_t backend, bool far) {
	struct check *check = find(health, backend);
	uint64_t now = uv_now(health->loop);

	if (check == NULL || check->far == far) {
		return;
	}
	check->far = far;
	// Reschedule a check that is far in the future to an earlier time of the same grid.
	if (!far && check->phase == CHECK_SLEEPING &&
		check->due_ms > now + check->params.interval_ms) {
		check->due_ms = now + 1 + (check->due_ms - now - 1) % check->params.interval_ms;
		uv_timer_start(&check->timer, on_due, check->due_ms - now, 0);
	}
}

// --- the rest -----------------------------------------------------------------------------

int weir_health_status(
	const struct weir_health *health, uint16_t backend, struct weir_health_status *ret) {
	const struct check *check = find(health, backend);
	uint64_t now = uv_hrtime();

	if (check == NULL) {
		return -ENOENT;
	}
	*ret = (struct weir_health_status){
		.type = check->params.type,
		.verdict = check->verdict,
		.interval_ms = (uint64_t)check->params.interval_ms * pace(check),
		.passes = check->passes,
		.fails = check->fails,
	};
	if (check->ended_ns != 0) {
		ret->checked = true;
		ret->passed = check->passed;
		memcpy(ret->detail, check->detail, sizeof(ret->detail));
		ret->duration_ms = check->duration_ms;
		ret->age_ms = (now - check->ended_ns) / NS_PER_MS;
		ret->streak = check->streak;
	}
	return 0;
}

int weir_health_create(
	uv_loop_t *loop, weir_health_fn on_health, void *context, struct weir_health **ret) {
	struct weir_health *health = calloc(1, sizeof(*health));
	int r;

	if (health == NULL) {
		return -ENOMEM;
	}
	r = weir_health_curl_create(loop, &health->curl);
	if (r) {
		free(health);
		return r;
	}
	health->loop = loop;
	health->on_health = on_health;
	health->context = context;
	STAILQ_INIT(&health->queue);
	STAILQ_INIT(&health->refused);
	*ret = health;
	return 0;
}

void weir_health_free(struct weir_health *health) {
	if (health == NULL) {
		return;
	}
	for (uint32_t id = 0; id < health->ids; id++) {
		if (health->checks[id] != NULL) {
			check_free(health->checks[id]);
		}
	}
	weir_health_curl_free(health->curl);
	free(health->checks);
	free(health);
}
