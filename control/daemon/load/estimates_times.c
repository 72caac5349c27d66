// SPDX-License-Identifier: BSD-3-Clause
//
// Service times: reads samples of workers from rings, and computes the costs that policies use.
#include <string.h>

#include "backend_signal.h"
#include "estimates_private.h"

// Number of elements of a sorted window that can be moved in the time that one sample takes.
#define MEDIAN_WORK 512u
#define WINDOW_MOST_MS 30000u
#define WINDOW_TIMES 10 // length of the error window, in mean service times
#define OUTLIER 10u

static const struct weir_segment *segment_of(const struct weir_estimates *estimates) {
	return estimates->tables != NULL ? weir_tables_segment(estimates->tables) : NULL;
}

void weir_estimates_skip(struct weir_estimates *estimates) {
	const struct weir_segment *segment = segment_of(estimates);

	for (uint32_t worker = 0; segment != NULL && worker < segment->workers; worker++) {
		const uint64_t *tail = &segment->worker_boxes[worker].samples.tail;

		__atomic_store_n(&segment->control_boxes[worker].samples.head,
			__atomic_load_n(tail, __ATOMIC_ACQUIRE), __ATOMIC_RELEASE);
	}
}

struct weir_moving *weir_estimates_times(struct backend_estimates *backend) {
	const struct weir_config_policy *config = &backend->service->config;

	if (backend->times == NULL) {
		backend->times = weir_moving_create(
			config->window, config->statistic == WEIR_STATISTIC_MEDIAN);
	}
	return backend->times;
}

static uint32_t work_of(const struct backend_estimates *backend) {
	const struct weir_config_policy *config = &backend->service->config;
	uint32_t moves = config->statistic == WEIR_STATISTIC_MEDIAN ? config->window : 0;

	return (backend->times == NULL ? WEIR_ESTIMATES_FIRST : 1) + moves / MEDIAN_WORK;
}

// Adds a sample to the statistics of a backend. id: is checked, because another process has written
// it. Returns the work done.
static uint32_t take_sample(
	struct weir_estimates *estimates, uint16_t id, uint64_t service_ns, uint64_t now_ns) {
	struct backend_estimates *backend;
	struct service_estimates *service;
	struct weir_moving *times;
	uint32_t work = 1;

	estimates->samples++;
	if (id >= estimates->ids || estimates->backend[id].service == NULL) {
		return work; // the backend was removed
	}
	backend = &estimates->backend[id];
	service = backend->service;
	if (service->times != NULL) {
		weir_moving_add(service->times, service_ns, now_ns);
	}
	if (service->costs && service->config.service_time == WEIR_SERVICE_TIME_FLOW) {
		work = work_of(backend);
		times = weir_estimates_times(backend);
		if (times != NULL) {
			weir_moving_add(times, service_ns, now_ns);
			weir_estimates_changed(estimates, id);
		}
	}
	return work;
}

// Returns the end time of a flow in nanoseconds. end: in ticks, truncated to 32 bits. An end time
// in the future is replaced by the current time.
static uint64_t end_of(uint32_t end, uint64_t now_ns) {
	uint32_t ago = (uint32_t)(now_ns / WEIR_SAMPLE_TICK_NS) - end;

	return ago > INT32_MAX ? now_ns : now_ns - (uint64_t)ago * WEIR_SAMPLE_TICK_NS;
}

// Read samples of a worker. *left: work that may still be done, reduced by this function. Returns
// false if samples are left because the work is used up.
static bool take_ring(struct weir_estimates *estimates, const struct weir_segment *segment,
	uint32_t worker, uint64_t *left, uint64_t now_ns) {
	const struct weir_sample_ring *ring = &segment->worker_boxes[worker].samples;
	struct weir_ring_position *position = &segment->control_boxes[worker].samples;
	uint64_t tail = __atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE);
	uint64_t head = __atomic_load_n(&position->head, __ATOMIC_RELAXED);

	if (tail - head > WEIR_SAMPLES) {
		__atomic_store_n(&position->head, tail,
			__ATOMIC_RELEASE); // this tail is invalid: discard all samples
		return true;
	}
	for (; head != tail && *left > 0; head++) {
		const struct weir_sample *sample = &ring->sample[head & (WEIR_SAMPLES - 1)];
		uint16_t backend = __atomic_load_n(&sample->backend, __ATOMIC_RELAXED);
		uint64_t service_ns = __atomic_load_n(&sample->service_ns, __ATOMIC_RELAXED);
		uint32_t end = __atomic_load_n(&sample->end, __ATOMIC_RELAXED);

		uint32_t work = take_sample(estimates, backend, service_ns, now_ns);

		*left -= work < *left ? work : *left;
		if (estimates->listener != NULL) {
			struct weir_estimates_sample copy = {.service_ns = service_ns,
				.end_ns = end_of(end, now_ns),
				.worker = worker,
				.backend = backend};

			estimates->listener(estimates->listener_context, &copy);
		}
	}
	__atomic_store_n(&position->head, head, __ATOMIC_RELEASE);
	return head == tail;
}

bool weir_estimates_take(struct weir_estimates *estimates, uint64_t work, uint64_t now_ns) {
	const struct weir_segment *segment = segment_of(estimates);

	for (uint32_t i = 0; segment != NULL && i < segment->workers; i++) {
		uint32_t worker = (estimates->first_worker + i) % segment->workers;

		if (!take_ring(estimates, segment, worker, &work, now_ns)) {
			// The limit of work is reached. The next iteration begins with this ring,
			// or with the next ring if this ring was the first of this iteration.
			estimates->first_worker = i > 0 ? worker : worker + 1;
			return true;
		}
	}
	estimates->first_worker++;
	return false;
}

// Returns the mean of the known estimates; 0 = no estimate is known.
static uint64_t mean_of(const struct service_estimates *service) {
	return service->known > 0 ? (uint64_t)(service->known_ns / service->known) : 0;
}

// Returns the estimate of a backend's cost from samples and reports; 0 = unknown.
static uint64_t measured_cost(const struct backend_estimates *backend, uint64_t now_ns) {
	uint64_t stale_ns = backend->service->config.stale_ms * 1000000ull;

	return backend->times != NULL ? weir_moving_estimate_ns(backend->times, now_ns, stale_ns)
				      : 0;
}

static uint64_t inherited_cost(const struct backend_estimates *backend, uint64_t now_ns) {
	return now_ns < backend->inherited_until_ns ? backend->inherited_ns : 0;
}

uint64_t weir_estimates_cost(const struct backend_estimates *backend, uint64_t now_ns) {
	uint64_t measured = measured_cost(backend, now_ns);

	return measured > 0 ? measured : inherited_cost(backend, now_ns);
}

void weir_estimates_changed(struct weir_estimates *estimates, uint16_t id) {
	struct backend_estimates *backend = &estimates->backend[id];
	struct service_estimates *service = backend->service;

	if (!backend->changed && service->changed_count < service->room) {
		backend->changed = true;
		service->changed[service->changed_count++] = id;
	}
}

void weir_estimates_none_changed(
	struct weir_estimates *estimates, struct service_estimates *service) {
	for (uint32_t i = 0; i < service->changed_count; i++) {
		estimates->backend[service->changed[i]].changed = false;
	}
	service->changed_count = 0;
}

static void store(const struct weir_segment *segment, uint16_t id, uint64_t signal) {
	if (id < segment->max_backends) {
		__atomic_store_n(&segment->costs[id], signal, __ATOMIC_RELAXED);
	}
}

static uint32_t window_ms(uint64_t mean_ns) {
	uint64_t ms = mean_ns / (1000000 / WINDOW_TIMES);

	ms = ms < WEIR_ERROR_WINDOW_LEAST_MS ? WEIR_ERROR_WINDOW_LEAST_MS : ms;
	return ms > WINDOW_MOST_MS ? WINDOW_MOST_MS : (uint32_t)ms;
}

uint64_t weir_estimates_error_window_ns(
	const struct weir_estimates *estimates, const struct service_estimates *service) {
	struct weir_service_state state;

	if (service->costs) {
		return window_ms(mean_of(service)) * 1000000ull;
	}
	if (weir_tables_service(estimates->tables, service->id, &state) < 0 ||
		state.settings.error_window_ms == 0) {
		return WEIR_ERROR_WINDOW_LEAST_MS * 1000000ull;
	}
	return state.settings.error_window_ms * 1000000ull;
}

// Returns `cost` plus the cost of the errors that the backend has reported. A failed request costs
// the error window: the time for which an error counts as an active flow. Without this addition, a
// backend that fails requests immediately would have the lowest cost.
static uint64_t with_errors(const struct weir_estimates *estimates,
	const struct backend_estimates *backend, uint64_t cost, uint64_t now_ns) {
	if (backend->errors == NULL) {
		return cost;
	}
	return cost + weir_reported_errors_cost_ns(backend->errors,
			      weir_estimates_error_window_ns(estimates, backend->service), now_ns);
}

// Returns `cost`, multiplied by the charge of the backend if the service uses charges.
static uint64_t charged(const struct backend_estimates *backend, uint64_t cost, uint64_t now_ns) {
	const struct service_estimates *service = backend->service;

	return service->charges
		       ? (uint64_t)((double)cost * weir_reported_share_charge(&service->share,
							   &backend->count, now_ns))
		       : cost;
}

// Recalculates the estimate of a backend. Writes the cost of the backend if the estimate is known
// or if the backend has reported errors.
static void refresh(struct weir_estimates *estimates, const struct weir_segment *segment,
	uint16_t id, uint64_t now_ns) {
	struct backend_estimates *backend = &estimates->backend[id];
	struct service_estimates *service = backend->service;
	uint64_t cost = weir_estimates_cost(backend, now_ns);

	service->known_ns += cost;
	service->known_ns -= backend->known_ns;
	service->known += cost > 0;
	service->known -= backend->known_ns > 0;
	backend->known_ns = cost;
	if (cost > 0 || backend->errors != NULL) {
		// An inherited cost includes the charge.
		bool inherited = cost > 0 && measured_cost(backend, now_ns) == 0;

		cost = cost > 0 ? cost : mean_of(service);
		cost = inherited ? cost : charged(backend, cost, now_ns);
		store(segment, id, with_errors(estimates, backend, cost, now_ns));
	}
}

// Returns the cost for backends whose estimate is unknown: the mean of the known estimates. The
// largest estimate counts as at most OUTLIER times the mean of the other estimates. Without this
// limit, if one backend reports a service time of a day, the cost would be so high that backends
// with unknown estimates get no new flows, and their estimates stay unknown.
static uint64_t unknown_cost(
	const struct weir_estimates *estimates, const struct service_estimates *service) {
	unsigned __int128 others;
	uint64_t most = 0;

	for (uint32_t i = 0; i < service->count; i++) {
		uint64_t known_ns = estimates->backend[service->member[i]].known_ns;

		most = known_ns > most ? known_ns : most;
	}
	others = service->known_ns - most;
	if (service->known < 2 || most <= others * OUTLIER / (service->known - 1)) {
		return mean_of(service);
	}
	return (uint64_t)((others + others * OUTLIER / (service->known - 1)) / service->known);
}

static void write_unknown(const struct weir_estimates *estimates,
	const struct weir_segment *segment, struct service_estimates *service, uint64_t now_ns) {
	uint64_t mean = unknown_cost(estimates, service);

	for (uint32_t i = 0; i < service->count; i++) {
		const struct backend_estimates *backend = &estimates->backend[service->member[i]];

		if (backend->known_ns == 0) {
			store(segment, service->member[i],
				with_errors(estimates, backend, charged(backend, mean, now_ns),
					now_ns));
		}
	}
	service->known_then = service->known;
}

void weir_estimates_write_changed(
	struct weir_estimates *estimates, struct service_estimates *service, uint64_t now_ns) {
	const struct weir_segment *segment = segment_of(estimates);

	for (uint32_t i = 0; segment != NULL && i < service->changed_count; i++) {
		refresh(estimates, segment, service->changed[i], now_ns);
	}
	weir_estimates_none_changed(estimates, service);
	// The first new estimates change the mean most. Therefore the mean is also updated when the
	// number of known estimates has doubled.
	if (segment != NULL && service->known < service->count &&
		service->known >= 2 * service->known_then && service->known > 0) {
		write_unknown(estimates, segment, service, now_ns);
	}
}

void weir_estimates_write(
	struct weir_estimates *estimates, struct service_estimates *service, uint64_t now_ns) {
	const struct weir_segment *segment = segment_of(estimates);

	weir_estimates_none_changed(estimates, service);
	if (segment == NULL) {
		return;
	}
	service->known_ns = 0;
	service->known = 0;
	for (uint32_t i = 0; i < service->count; i++) {
		estimates->backend[service->member[i]].known_ns = 0;
		refresh(estimates, segment, service->member[i], now_ns);
	}
	write_unknown(estimates, segment, service, now_ns);
}

// Age after which a probe is cleared. Workers ignore a probe that is older than one second.
#define PROBE_MAX_NS 10000000000ull

// Returns the latency of a backend; 0 = unknown. Before the first completed request of a backend,
// returns the mean latency of the other backends, because a new backend would otherwise get too few
// or too many flows.
static uint64_t latency_of(
	const struct weir_estimates *estimates, const struct backend_estimates *backend) {
	const struct service_estimates *service = backend->service;
	unsigned __int128 sum = 0;
	uint32_t known = 0;

	if (backend->latency_ns > 0) {
		return backend->latency_ns;
	}
	for (uint32_t i = 0; i < service->count; i++) {
		uint64_t latency_ns = estimates->backend[service->member[i]].latency_ns;

		sum += latency_ns;
		known += latency_ns > 0;
	}
	return known > 0 ? (uint64_t)(sum / known) : 0;
}

void weir_estimates_write_probe(
	struct weir_estimates *estimates, uint16_t id, double active, uint64_t now_ns) {
	const struct weir_segment *segment = segment_of(estimates);
	struct backend_estimates *backend = &estimates->backend[id];
	uint64_t latency_ns = latency_of(estimates, backend);
	uint64_t window_ns = weir_estimates_error_window_ns(estimates, backend->service);

	if (backend->errors != NULL) {
		latency_ns = with_errors(estimates, backend, latency_ns, now_ns);
		active += weir_reported_errors_active(backend->errors, 1, window_ns, now_ns);
	}
	if (segment != NULL) {
		store(segment, id, weir_signal_of_probe((uint64_t)active, latency_ns, now_ns));
	}
	backend->probed_ns = now_ns;
}

void weir_estimates_expire_probes(
	struct weir_estimates *estimates, struct service_estimates *service, uint64_t now_ns) {
	const struct weir_segment *segment = segment_of(estimates);

	for (uint32_t i = 0; segment != NULL && i < service->count; i++) {
		struct backend_estimates *backend = &estimates->backend[service->member[i]];

		if (backend->probed_ns != 0 && now_ns > backend->probed_ns + PROBE_MAX_NS) {
			backend->probed_ns = 0;
			store(segment, service->member[i], 0);
		}
	}
}

bool weir_estimates_adjust_window(
	struct weir_estimates *estimates, struct service_estimates *service) {
	struct weir_moving_stats stats;
	struct weir_service_state state;
	uint64_t ms, now_ms;

	weir_moving_read(service->times, &stats);
	if (stats.window_count == 0 ||
		weir_tables_service(estimates->tables, service->id, &state) < 0) {
		return false;
	}
	ms = window_ms(stats.mean_ns);
	now_ms = state.settings.error_window_ms;
	// Publish only an increase by more than a half or a decrease by more than a third, to limit
	// the number of publications.
	if (ms * 2 <= now_ms * 3 && now_ms * 2 <= ms * 3) {
		return false;
	}
	return weir_tables_set_error_window(estimates->tables, service->id, (uint32_t)ms) == 0;
}
