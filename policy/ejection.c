// SPDX-License-Identifier: BSD-3-Clause
#include "ejection.h"

#define WORSE_BY 0.1 // minimum difference between two failure rates
#define DEVIATIONS_OF_CHANCE 4.0
#define DEVIATIONS_OF_RATES 1.9 // distance below the mean of success rates, in standard deviations

static uint64_t results(struct weir_ejection_count count) {
	return count.established + count.failed;
}

static double failed_share(struct weir_ejection_count count) {
	return (double)count.failed / (double)results(count);
}

// Returns whether a backend fails significantly more often than the other backends together. The
// two failure rates are compared by a test of two proportions.
static bool is_worse(struct weir_ejection_count own, struct weir_ejection_count others) {
	double n = (double)results(own), m = (double)results(others), pooled, difference;

	if (n == 0 || m == 0) {
		return false;
	}
	difference = failed_share(own) - failed_share(others);
	pooled = (double)(own.failed + others.failed) / (n + m);
	return difference >= WORSE_BY &&
	       difference * difference >= DEVIATIONS_OF_CHANCE * DEVIATIONS_OF_CHANCE * pooled *
						  (1 - pooled) * (1 / n + 1 / m);
}

static struct weir_ejection_count minus(
	struct weir_ejection_count a, struct weir_ejection_count b) {
	return (struct weir_ejection_count){a.established - b.established, a.failed - b.failed};
}

static void add(struct weir_ejection_count *to, struct weir_ejection_count more) {
	to->established += more.established;
	to->failed += more.failed;
}

// --- counting -------------------------------------------------------------------------------

static void forget(struct weir_ejection_backend *backend) {
	backend->interval = (struct weir_ejection_count){0};
	backend->run = 0;
	backend->unreachable = (struct weir_ejection_unreachable){0};
}

// Returns the counts since the last evaluation; 0 at the first evaluation, or if a counter has
// decreased.
static struct weir_ejection_count take(struct weir_ejection_backend *backend) {
	struct weir_ejection_count news = {0};

	if (!backend->known || backend->count.established < backend->last.established ||
		backend->count.failed < backend->last.failed) {
		forget(backend);
	} else {
		news = minus(backend->count, backend->last);
	}
	backend->known = true;
	backend->last = backend->count;
	return news;
}

static void expire_unreachable(const struct weir_ejection_settings *settings,
	struct weir_ejection_backend *backend, uint64_t now_ms) {
	if (now_ms - backend->unreachable.first_ms > settings->interval_ms) {
		backend->unreachable = (struct weir_ejection_unreachable){0};
	}
}

// Counts the connections and failures of a backend since the last evaluation. The counters do not
// show the order of failures and established connections. If at least one connection was
// established, all failures count as earlier than this connection, so that the run of failures
// ends.
static void note(struct weir_ejection *service, struct weir_ejection_backend *backend) {
	struct weir_ejection_count news = take(backend);

	if (weir_ejection_is(backend) || !backend->candidate) {
		forget(backend);
		return;
	}
	if (news.established > 0) {
		backend->run = 0;
		// Keep ICMP errors if the first of them came after the last evaluation: they may be
		// newer than the connection.
		if (backend->unreachable.first_ms <= service->looked_ms) {
			backend->unreachable = (struct weir_ejection_unreachable){0};
		}
	} else if (news.failed > 0) {
		if (backend->run == 0) {
			backend->others = service->total;
		}
		backend->run += news.failed;
	}
	add(&backend->interval, news);
}

static bool is_known_flow(const struct weir_ejection_unreachable *unreachable, uint32_t flow) {
	for (uint32_t i = 0; i < unreachable->flows; i++) {
		if (unreachable->flow[i] == flow) {
			return true;
		}
	}
	return false;
}

void weir_ejection_record_unreachable(const struct weir_ejection_settings *settings,
	struct weir_ejection_backend *backend, uint32_t flow, uint64_t now_ms) {
	struct weir_ejection_unreachable *unreachable = &backend->unreachable;

	if (weir_ejection_is(backend) || !backend->candidate) {
		return;
	}
	expire_unreachable(settings, backend, now_ms);
	if (unreachable->messages == 0) {
		unreachable->first_ms = now_ms;
	}
	unreachable->last_ms = now_ms;
	unreachable->messages++;
	if (unreachable->flows < WEIR_EJECTION_UNREACHABLE_FLOWS &&
		!is_known_flow(unreachable, flow)) {
		unreachable->flow[unreachable->flows++] = flow;
	}
}

// --- judging --------------------------------------------------------------------------------

static void judge(struct weir_ejection_backend *backend, enum weir_ejection_reason reason,
	struct weir_ejection_count own) {
	backend->reason = (uint8_t)reason;
	backend->judged = own;
}

static void judge_run(const struct weir_ejection_settings *settings,
	const struct weir_ejection *service, struct weir_ejection_backend *backend) {
	struct weir_ejection_count own = {.failed = backend->run};
	struct weir_ejection_count others;

	if (backend->run == 0 || settings->consecutive_failures == 0 ||
		backend->run < settings->consecutive_failures) {
		return;
	}
	others = minus(minus(service->total, backend->others), own);
	if (is_worse(own, others)) {
		judge(backend, WEIR_EJECTION_CONSECUTIVE, own);
	}
}

static void judge_unreachable(
	const struct weir_ejection_settings *settings, struct weir_ejection_backend *backend) {
	const struct weir_ejection_unreachable *unreachable = &backend->unreachable;
	uint64_t least_ms = settings->interval_ms / 2;

	if (least_ms > WEIR_EJECTION_UNREACHABLE_MS) {
		least_ms = WEIR_EJECTION_UNREACHABLE_MS;
	}
	if (settings->unreachable_flows > 0 && unreachable->flows >= settings->unreachable_flows &&
		unreachable->last_ms - unreachable->first_ms >= least_ms) {
		judge(backend, WEIR_EJECTION_UNREACHABLE,
			(struct weir_ejection_count){.failed = unreachable->flows});
	}
}

static void judge_percent(const struct weir_ejection_settings *settings,
	struct weir_ejection_count all, struct weir_ejection_backend *backend) {
	struct weir_ejection_count own = backend->interval;

	if (results(own) >= settings->minimum_flows &&
		100 * own.failed > (uint64_t)settings->failure_percent * results(own) &&
		is_worse(own, minus(all, own))) {
		judge(backend, WEIR_EJECTION_FAILURE_PERCENT, own);
	}
}

static bool has_rate(const struct weir_ejection_settings *settings,
	const struct weir_ejection_backend *backend) {
	uint64_t least = (uint64_t)WEIR_EJECTION_RATE_FLOWS * settings->minimum_flows;

	return results(backend->interval) > 0 && results(backend->interval) >= least;
}

static void judge_rates(const struct weir_ejection_settings *settings,
	struct weir_ejection_count all, struct weir_ejection_backend *backends, uint32_t count) {
	double sum = 0, squares = 0, mean, variance;
	uint32_t rates = 0;

	for (uint32_t i = 0; i < count; i++) {
		if (has_rate(settings, &backends[i])) {
			sum += 1 - failed_share(backends[i].interval);
			rates++;
		}
	}
	if (rates < WEIR_EJECTION_RATE_BACKENDS) {
		return;
	}
	mean = sum / rates;
	for (uint32_t i = 0; i < count; i++) {
		if (has_rate(settings, &backends[i])) {
			double off = 1 - failed_share(backends[i].interval) - mean;

			squares += off * off;
		}
	}
	variance = squares / rates;
	for (uint32_t i = 0; i < count; i++) {
		struct weir_ejection_backend *backend = &backends[i];
		double below;

		if (backend->reason != WEIR_EJECTION_NONE || !has_rate(settings, backend)) {
			continue;
		}
		below = mean - (1 - failed_share(backend->interval));
		if (below > 0 &&
			below * below > DEVIATIONS_OF_RATES * DEVIATIONS_OF_RATES * variance &&
			is_worse(backend->interval, minus(all, backend->interval))) {
			judge(backend, WEIR_EJECTION_SUCCESS_RATE, backend->interval);
		}
	}
}

// Decrements the number of ejections in a row after an interval in which the backend was not
// ejected, had no ICMP errors, and gave no reason for an ejection. If connections failed, at least
// one must have been established.
static void end_interval(struct weir_ejection_backend *backend) {
	if (!weir_ejection_is(backend) && backend->reason == WEIR_EJECTION_NONE &&
		backend->times > 0 && backend->unreachable.messages == 0 &&
		(backend->interval.established > 0 || backend->interval.failed == 0)) {
		backend->times--;
	}
	backend->interval = (struct weir_ejection_count){0};
}

void weir_ejection_look(const struct weir_ejection_settings *settings,
	struct weir_ejection *service, struct weir_ejection_backend *backends, uint32_t count,
	uint64_t now_ms) {
	struct weir_ejection_count all = {0};
	bool is_end = now_ms >= service->interval_end_ms && service->interval_end_ms != 0;

	// The end may be too far in the future, because the interval may have been made shorter in
	// the configuration.
	if (is_end || service->interval_end_ms > now_ms + settings->interval_ms ||
		service->interval_end_ms == 0) {
		service->interval_end_ms = now_ms + settings->interval_ms;
	}
	for (uint32_t i = 0; i < count; i++) {
		struct weir_ejection_count before = backends[i].interval;

		backends[i].reason = WEIR_EJECTION_NONE;
		expire_unreachable(settings, &backends[i], now_ms);
		note(service, &backends[i]);
		if (results(backends[i].interval) >= results(before)) {
			add(&all, minus(backends[i].interval, before));
		}
	}
	add(&service->total, all);
	service->looked_ms = now_ms;
	for (uint32_t i = 0; i < count; i++) {
		judge_run(settings, service, &backends[i]);
		judge_unreachable(settings, &backends[i]);
	}
	if (!is_end) {
		return;
	}
	all = (struct weir_ejection_count){0};
	for (uint32_t i = 0; i < count; i++) {
		add(&all, backends[i].interval);
	}
	for (uint32_t i = 0; i < count; i++) {
		if (backends[i].reason == WEIR_EJECTION_NONE) {
			judge_percent(settings, all, &backends[i]);
		}
	}
	judge_rates(settings, all, backends, count);
	for (uint32_t i = 0; i < count; i++) {
		end_interval(&backends[i]);
	}
}

// --- ejecting -------------------------------------------------------------------------------

bool weir_ejection_allowed(const struct weir_ejection_settings *settings,
	const struct weir_ejection_backend *backends, uint32_t count) {
	uint32_t ejected = 0, all = 0;

	for (uint32_t i = 0; i < count; i++) {
		ejected += weir_ejection_is(&backends[i]);
		all += weir_ejection_is(&backends[i]) || backends[i].candidate;
	}
	return ejected + 1 < all && (ejected == 0 || (uint64_t)(ejected + 1) * 100 <=
							     (uint64_t)settings->max_percent * all);
}

uint64_t weir_ejection_begin(const struct weir_ejection_settings *settings,
	struct weir_ejection_backend *backend, uint64_t now_ms) {
	uint64_t most = settings->max_ms > settings->base_ms ? settings->max_ms : settings->base_ms;
	uint64_t length_ms;

	// Stop counting when the duration has reached its maximum. Otherwise a backend that was
	// ejected again and again for days would need days until its ejections are short again.
	if (backend->times == 0 || settings->base_ms * backend->times < most) {
		backend->times++;
	}
	length_ms = settings->base_ms * backend->times;
	length_ms = length_ms < most ? length_ms : most;
	backend->until_ms = now_ms + length_ms;
	forget(backend);
	return length_ms;
}

bool weir_ejection_over(struct weir_ejection_backend *backend, uint64_t now_ms) {
	if (backend->until_ms == 0 || now_ms < backend->until_ms) {
		return false;
	}
	backend->until_ms = 0;
	return true;
}

const char *weir_ejection_reason_text(enum weir_ejection_reason reason) {
	static const char *const texts[] = {
#define X(name, text) [WEIR_EJECTION_##name] = text,
		WEIR_EJECTION_REASONS(X)
#undef X
	};

	return texts[reason];
}
