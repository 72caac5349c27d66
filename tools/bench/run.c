// SPDX-License-Identifier: BSD-3-Clause
#include "run.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define WARM_UP_PACKETS 1000000ull

struct step { // a timed pass; the checks later repeat it with the same packets
	uint64_t packets;
	bool alone;
};

struct session {
	struct weir_bench_engine *engine;
	const struct weir_bench_options *options;
	const struct weir_bench_heap *heap;
	struct weir_bench_publisher *publisher;
	struct weir_bench_result *result;
	struct step *steps;
	uint32_t step_count;
	double published, publishing_s;
	char *why;
	size_t why_bytes;
};

static double seconds_now(void) {
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static int failed(const struct session *session, int error, const char *what) {
	snprintf(session->why, session->why_bytes, "%s: %s", what, strerror(-error));
	return error;
}

static int statistics_result(const struct session *session, int error) {
	return error < 0 ? failed(session, error, "cannot compute the statistics") : 0;
}

static struct weir_bench_length run_length(const struct session *session) {
	return (struct weir_bench_length){session->options->packets, session->options->seconds};
}

static int start(struct session *session) {
	int r = weir_bench_balancer_start(session->engine->balancer, session->heap);

	if (r < 0) {
		return failed(session, r, "cannot start the packet pipeline");
	}
	return weir_bench_fill(session->engine, session->why, session->why_bytes);
}

// --- pass: timed --------------------------------------------------------------------------

static struct weir_bench_tally tally_now(const struct session *session) {
	const struct weir_worker_counters *counters =
		&session->engine->balancer->segment->worker_counters[WEIR_BENCH_WORKER];

	return (struct weir_bench_tally){.packets = counters->rx_packets,
		.hits = counters->flow_hits,
		.started = counters->flow_new,
		.untracked = counters->flow_untracked,
		.evicted = counters->flow_half_open_evicted,
		.expired = counters->flow_expired};
}

static void add_tally(struct weir_bench_tally *sum, const struct weir_bench_tally *before,
	const struct weir_bench_tally *after) {
	sum->packets += after->packets - before->packets;
	sum->hits += after->hits - before->hits;
	sum->started += after->started - before->started;
	sum->untracked += after->untracked - before->untracked;
	sum->evicted += after->evicted - before->evicted;
	sum->expired += after->expired - before->expired;
}

static int timed_step(struct session *session, struct weir_bench_length length,
	struct weir_bench_samples *samples, struct weir_bench_samples *machine, bool alone) {
	struct weir_bench_pass pass = {
		.length = length, .alone = alone, .samples = samples, .machine = machine};
	int r = weir_bench_pass(session->engine, &pass, session->why, session->why_bytes);

	session->steps[session->step_count++] = (struct step){pass.packets, alone};
	return r;
}

static int warm_up(struct session *session) {
	struct weir_bench_samples unused = {0};
	struct weir_bench_length length = {RTE_MIN(session->options->packets, WARM_UP_PACKETS), 0};
	int r = timed_step(session, length, &unused, NULL, session->result->has_base);

	weir_bench_samples_fini(&unused);
	return r;
}

// Does one timed run, and adds its samples and its median to a series. run: index of the run in the
// series. alone: only packets of steady flows. Returns 0 or negative errno.
static int timed_run(
	struct session *session, struct weir_bench_series *series, uint32_t run, bool alone) {
	size_t first = series->samples.count;
	struct weir_bench_summary summary;
	struct weir_bench_result *result = session->result;
	// The idle loop makes the next burst slower. Therefore it runs in all series, so that they
	// can be compared.
	int r = timed_step(session, run_length(session), &series->samples, &result->machine, alone);

	if (r < 0) {
		return r;
	}
	if (series->samples.count == first) {
		return failed(session, -ETIME,
			"--seconds: no burst was completed in this time; use a longer time");
	}
	r = weir_bench_summarize_bursts(
		series->samples.sample + first, series->samples.count - first, &summary);
	if (r < 0) {
		return failed(session, r, "cannot compute the statistics");
	}
	series->medians[run] = summary.median;
	series->packets += session->steps[session->step_count - 1].packets;
	return 0;
}

static int main_run(struct session *session, uint32_t run) {
	struct weir_bench_tally before = tally_now(session), after;
	int r = timed_run(session, &session->result->main, run, false);

	after = tally_now(session);
	add_tally(&session->result->tally, &before, &after);
	return r;
}

static int published_run(struct session *session, uint32_t run) {
	struct weir_bench_publisher *publisher = session->publisher;
	int r = weir_bench_publisher_go(publisher), stopped;
	uint64_t count = weir_bench_publisher_count(publisher);
	double begin = seconds_now();

	if (r < 0) {
		return failed(session, r, "the publishing process failed");
	}
	r = main_run(session, run);
	session->publishing_s += seconds_now() - begin;
	session->published += (double)(weir_bench_publisher_count(publisher) - count);
	stopped = weir_bench_publisher_pause(publisher);
	if (r == 0 && stopped < 0) {
		return failed(session, stopped, "the publishing process failed");
	}
	return r;
}

static int timed_runs(struct session *session) {
	struct weir_bench_result *result = session->result;
	bool flood = session->options->kind == WEIR_BENCH_CASE_SYN_FLOOD;
	uint32_t runs = session->options->runs;
	int r = 0;

	// Measure the base first, because half-open flows of a flood would stay in the table.
	for (uint32_t i = 0; r == 0 && flood && i < runs; i++) {
		r = timed_run(session, &result->base, i, true);
	}
	for (uint32_t i = 0; r == 0 && i < runs; i++) {
		if (session->options->publications == 0) {
			r = main_run(session, i);
			continue;
		}
		r = flood ? 0 : timed_run(session, &result->base, i, false);
		if (r == 0) {
			r = published_run(session, i);
		}
	}
	return r;
}

static int timed(struct session *session) {
	struct weir_bench_result *result = session->result;
	int r = start(session);

	if (r < 0) {
		return r;
	}
	result->flows =
		session->engine->balancer->segment->worker_counters[WEIR_BENCH_WORKER].flows;
	result->moved = session->engine->refused;
	r = warm_up(session);
	if (r == 0) {
		r = timed_runs(session);
	}
	if (session->publishing_s > 0) {
		result->publications = session->published / session->publishing_s;
	}
	if (r == 0 && session->options->kind == WEIR_BENCH_CASE_SYN_FLOOD) {
		r = weir_bench_check_steady(session->engine, session->why, session->why_bytes);
		result->steady_checked = weir_bench_traffic_flows(&session->engine->traffic);
	}
	return r;
}

// --- passes: counted, traced, checked -----------------------------------------------------

static int counted(struct session *session) {
	struct weir_bench_result *result = session->result;
	struct weir_bench_samples unused = {0};
	struct weir_bench_events events;
	struct weir_bench_pass pass = {
		.length = run_length(session), .samples = &unused, .events = &events};
	int r = 0;

	weir_bench_events_open(&events);
	if (events.any) {
		r = weir_bench_pass(session->engine, &pass, session->why, session->why_bytes);
	}
	for (unsigned int i = 0; r == 0 && events.any && i < WEIR_BENCH_EVENT_COUNT; i++) {
		uint64_t count = 0;

		result->counted[i] =
			weir_bench_events_read(&events, (enum weir_bench_event)i, &count);
		result->event[i] = (double)count / (double)pass.packets;
	}
	weir_bench_events_close(&events);
	weir_bench_samples_fini(&unused);
	return r;
}

static int traced(struct session *session) {
	struct weir_bench_result *result = session->result;
	struct weir_trace trace = {0};
	struct weir_bench_pass pass = {.length = run_length(session), .trace = &trace};
	int r = weir_bench_pass(session->engine, &pass, session->why, session->why_bytes);

	if (r < 0) {
		return r;
	}
	for (unsigned int i = 0; i < WEIR_STAGE_COUNT; i++) {
		result->stage[i] = (double)trace.cycles[i] / (double)pass.packets;
	}
	result->stage_rest = (double)pass.rest_cycles / (double)pass.packets;
	result->stage_idle = (double)pass.idle_cycles / (double)pass.packets;
	return 0;
}

static int checked(struct session *session) {
	int r = start(session);

	for (uint32_t i = 0; r == 0 && i < session->step_count; i++) {
		struct weir_bench_pass pass = {.length = {.packets = session->steps[i].packets},
			.alone = session->steps[i].alone};

		r = weir_bench_pass(session->engine, &pass, session->why, session->why_bytes);
		session->result->verified += pass.packets;
	}
	if (r == 0 && session->options->kind == WEIR_BENCH_CASE_SYN_FLOOD) {
		r = weir_bench_check_steady(session->engine, session->why, session->why_bytes);
	}
	return r;
}

// --- pass: repeated -----------------------------------------------------------------------

// Repeats all passes of the timed runs with a new flow table, and writes the samples of the main
// runs and of the base runs. Discards the samples of the warm-up.
static int repeat(struct session *session, struct weir_bench_samples *samples,
	struct weir_bench_samples *base) {
	const struct weir_bench_result *result = session->result;
	int r;

	session->engine->pace = result->main.summary.median;
	r = start(session);
	for (uint32_t i = 0; r == 0 && i < session->step_count; i++) {
		const struct step *step = &session->steps[i];
		struct weir_bench_samples unused = {0};
		struct weir_bench_pass pass = {.length = {.packets = step->packets},
			.alone = step->alone,
			.samples = i == 0        ? &unused
				   : step->alone ? base
						 : samples};

		session->engine->pace =
			step->alone ? result->base.summary.median : result->main.summary.median;
		r = weir_bench_pass(session->engine, &pass, session->why, session->why_bytes);
		weir_bench_samples_fini(&unused);
	}
	return r;
}

// Checks that the counters of a repetition equal the counters of the first repetition.
static int check_repeat(const struct session *session, const struct weir_bench_tally *first) {
	struct weir_bench_tally tally = tally_now(session);

	if (memcmp(&tally, first, sizeof(tally)) == 0) {
		return 0;
	}
	snprintf(session->why, session->why_bytes,
		"a repeat differs from the first repeat: of %" PRIu64 " packets %" PRIu64
		" matched a flow, %" PRIu64 " started a flow, %" PRIu64
		" found the table full, %" PRIu64 " flows evicted, %" PRIu64
		" expired; numbers of the first repeat: %" PRIu64 ", %" PRIu64 ", %" PRIu64
		", %" PRIu64 ", %" PRIu64 ", %" PRIu64,
		tally.packets, tally.hits, tally.started, tally.untracked, tally.evicted,
		tally.expired, first->packets, first->hits, first->started, first->untracked,
		first->evicted, first->expired);
	return -EBADMSG;
}

static int repeat_all(struct session *session, struct weir_bench_repeated *least) {
	struct weir_bench_samples again = {0}, base = {0};
	struct weir_bench_tally first;
	int r = repeat(session, &least->main, &least->base);

	first = tally_now(session);
	if (r == 0) {
		r = statistics_result(session, weir_bench_summarize_bursts(least->main.sample,
						       least->main.count, &least->first));
	}
	for (uint32_t i = 1; r == 0 && i < session->options->repeats; i++) {
		again.count = base.count = 0;
		r = repeat(session, &again, &base);
		if (r == 0) {
			r = check_repeat(session, &first);
		}
		if (r == 0) {
			r = statistics_result(
				session, weir_bench_samples_least(&least->main, &again));
		}
		if (r == 0) {
			r = statistics_result(
				session, weir_bench_samples_least(&least->base, &base));
		}
	}
	weir_bench_samples_fini(&again);
	weir_bench_samples_fini(&base);
	return r;
}

static int summarize_repeated(struct weir_bench_repeated *repeated) {
	const struct weir_bench_samples *bursts = &repeated->main, *base = &repeated->base;
	int r = weir_bench_summarize_bursts(bursts->sample, bursts->count, &repeated->summary);

	if (r == 0) {
		r = weir_bench_split_bursts(bursts->sample, bursts->count, &repeated->split);
	}
	if (r == 0 && base->count > 0) {
		r = weir_bench_split_bursts(base->sample, base->count, &repeated->base_split);
	}
	repeated->slow_share = weir_bench_share_above(
		bursts->sample, bursts->count, 10 * repeated->summary.median);
	return r;
}

static int repeated(struct session *session) {
	struct weir_bench_result *result = session->result;
	int r = repeat_all(session, &result->repeated);

	session->engine->pace = 0;
	if (r < 0) {
		return r;
	}
	return statistics_result(session, summarize_repeated(&result->repeated));
}

// --- all passes ---------------------------------------------------------------------------

static int summarize(struct weir_bench_series *series, uint32_t runs) {
	int r = weir_bench_summarize_bursts(
		series->samples.sample, series->samples.count, &series->summary);

	if (r == 0) {
		r = weir_bench_split_bursts(
			series->samples.sample, series->samples.count, &series->split);
	}
	series->median_min = series->median_max = series->medians[0];
	for (uint32_t i = 1; i < runs; i++) {
		series->median_min = RTE_MIN(series->median_min, series->medians[i]);
		series->median_max = RTE_MAX(series->median_max, series->medians[i]);
	}
	for (size_t i = 0; i < series->samples.count; i++) {
		series->slowest_cycles =
			RTE_MAX(series->slowest_cycles, series->samples.sample[i].cycles);
	}
	return r;
}

// Counts slow bursts. A burst is slow if it takes more than 10 times the median of all bursts. Sets
// slow_share to the share of slow bursts. Sets slow_machine_share to the estimated share of bursts
// that were slow only because of interrupts, the scheduler or the hypervisor. The estimate comes
// from the idle loop after each burst. A loop is slow if it took longer than the median of all
// loops by more than 9 times the median of a burst. The share of slow loops is scaled from the
// duration of a loop to the duration of a burst.
static void count_slow(struct weir_bench_result *result) {
	const double median = result->main.summary.median;
	const double idle = result->machine_summary.median;
	const struct weir_bench_samples *bursts = &result->main.samples;
	const struct weir_bench_samples *machine = &result->machine;

	result->slow_share = weir_bench_share_above(bursts->sample, bursts->count, 10 * median);
	result->slow_machine_share =
		weir_bench_share_above(machine->sample, machine->count, idle + 9 * median) *
		median / idle;
}

static int summarize_all(struct session *session) {
	struct weir_bench_result *result = session->result;
	uint32_t runs = session->options->runs;
	int r = summarize(&result->main, runs);

	if (r == 0) {
		r = weir_bench_summarize_bursts(
			result->machine.sample, result->machine.count, &result->machine_summary);
	}
	if (r == 0) {
		count_slow(result);
	}
	if (r == 0 && result->has_base) {
		r = summarize(&result->base, runs);
	}
	return statistics_result(session, r);
}

static int all_passes(struct session *session) {
	int r = timed(session);

	if (r == 0) {
		r = counted(session);
	}
	if (r == 0) {
		r = traced(session);
	}
	if (r == 0) {
		r = checked(session);
	}
	if (r == 0) {
		r = summarize_all(session);
	}
	if (r == 0 && session->options->repeats > 0) {
		r = repeated(session);
	}
	return r;
}

int weir_bench_run(struct weir_bench_engine *engine, const struct weir_bench_heap *heap,
	struct weir_bench_publisher *publisher, struct weir_bench_result *ret, char *why,
	size_t why_bytes) {
	const struct weir_bench_options *options = engine->options;
	struct weir_bench_result result = {.has_base = options->kind == WEIR_BENCH_CASE_SYN_FLOOD ||
						       options->publications > 0};
	struct session session = {.engine = engine,
		.options = options,
		.heap = heap,
		.publisher = publisher,
		.result = &result,
		.why = why,
		.why_bytes = why_bytes};
	int r;

	session.steps = calloc(2 * (size_t)options->runs + 1, sizeof(*session.steps));
	result.main.medians = calloc(options->runs, sizeof(double));
	result.base.medians = calloc(options->runs, sizeof(double));
	if (session.steps == NULL || result.main.medians == NULL || result.base.medians == NULL) {
		r = failed(&session, -ENOMEM, "set-up");
	} else {
		r = all_passes(&session);
	}
	free(session.steps);
	if (r < 0) {
		weir_bench_result_fini(&result);
		return r;
	}
	*ret = result;
	return 0;
}

void weir_bench_result_fini(struct weir_bench_result *result) {
	weir_bench_samples_fini(&result->main.samples);
	weir_bench_samples_fini(&result->base.samples);
	weir_bench_samples_fini(&result->machine);
	weir_bench_samples_fini(&result->repeated.main);
	weir_bench_samples_fini(&result->repeated.base);
	free(result->main.medians);
	free(result->base.medians);
	*result = (struct weir_bench_result){0};
}
