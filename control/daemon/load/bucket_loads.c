// SPDX-License-Identifier: BSD-3-Clause
#include "bucket_loads.h"

#include "heartbeat.h"

// Assumed cost of handing a packet over to another worker, relative to the cost of processing a
// packet of the worker's own bucket. Used if each worker that has packets hands some of them over.
#define HANDED_COST 0.5

// --- reading the segment ------------------------------------------------------------------

void weir_bucket_look_take(
	struct weir_bucket_look *look, const struct weir_segment *segment, uint64_t now_ns) {
	for (uint32_t bucket = 0; bucket < WEIR_BUCKETS; bucket++) {
		uint32_t owner = weir_segment_bucket_owner(segment, bucket);

		look->owner[bucket] = owner < segment->workers ? owner : WEIR_BUCKET_NO_WORKER;
		look->packets[bucket] = 0;
	}
	// Read the counters worker by worker, in memory order. Reading them bucket by bucket takes
	// several times as long, because the counters of two workers are pages apart.
	for (uint32_t worker = 0; worker < segment->workers; worker++) {
		const struct weir_bucket_packets *of = &segment->bucket_packets[worker];

		for (uint32_t bucket = 0; bucket < WEIR_BUCKETS; bucket++) {
			look->packets[bucket] += weir_counter_read(&of->packets[bucket]);
		}
	}
	look->moves = look->move_cycles = 0;
	look->hz = (double)segment->header->tsc_hz;
	for (uint32_t worker = 0; worker < segment->workers; worker++) {
		const struct weir_worker_counters *counters = &segment->worker_counters[worker];
		const struct weir_steal_counters *steals = &segment->steal_counters[worker];

		look->worker[worker].busy_cycles = weir_counter_read(&counters->busy_cycles);
		look->worker[worker].idle_cycles = weir_counter_read(&counters->idle_cycles);
		look->worker[worker].handed_over = weir_counter_read(&counters->handed_over);
		look->worker[worker].alive = weir_worker_alive(segment, worker, now_ns);
		look->moves += weir_counter_read(&steals->buckets_given);
		look->move_cycles += weir_counter_read(&steals->move_cycles);
	}
}

// --- packets by worker --------------------------------------------------------------------

static void count_for(struct weir_bucket_loads *loads, uint32_t worker, uint64_t packets) {
	if (worker < loads->workers) {
		loads->worker[worker].window += packets;
	}
}

void weir_bucket_loads_note(struct weir_bucket_loads *loads, const struct weir_bucket_look *look) {
	for (uint32_t i = 0; i < WEIR_BUCKETS; i++) {
		struct weir_bucket_load *bucket = &loads->bucket[i];
		uint64_t packets = look->packets[i] - bucket->packets;
		// If the owner has changed since the last reading, the time of the change is
		// unknown. Assume the middle of the interval.
		uint64_t after = bucket->owner == look->owner[i] ? packets : packets / 2;

		count_for(loads, bucket->owner, packets - after);
		count_for(loads, look->owner[i], after);
		bucket->window += packets;
		bucket->packets = look->packets[i];
		bucket->owner = look->owner[i];
	}
}

// --- a tick -------------------------------------------------------------------------------

// Activity of the workers between two ticks.
struct window {
	double cost[WEIR_WORKERS_MAX]; // share of a worker's time per packet of its buckets
	double base[WEIR_WORKERS_MAX];
	uint64_t handed[WEIR_WORKERS_MAX];
};

static void measure_shares(struct weir_bucket_loads *loads, const struct weir_bucket_look *look,
	struct window *window) {
	for (uint32_t i = 0; i < loads->workers; i++) {
		struct weir_bucket_worker *worker = &loads->worker[i];
		double busy = (double)(look->worker[i].busy_cycles - worker->busy_cycles);
		double idle = (double)(look->worker[i].idle_cycles - worker->idle_cycles);

		worker->alive = look->worker[i].alive && busy + idle > 0;
		worker->share = worker->alive ? busy / (busy + idle) : 0;
		window->handed[i] = look->worker[i].handed_over - worker->handed_over;
		worker->busy_cycles = look->worker[i].busy_cycles;
		worker->idle_cycles = look->worker[i].idle_cycles;
		worker->handed_over = look->worker[i].handed_over;
	}
}

// Returns the share of a worker's time that one packet needs, measured on workers that hand no
// packets over to other workers. If there is no such worker with packets, the share is estimated
// from all workers.
static double cost_of_packet(const struct weir_bucket_loads *loads, const struct window *window) {
	double share = 0, packets = 0, all_share = 0, all_packets = 0;

	for (uint32_t i = 0; i < loads->workers; i++) {
		const struct weir_bucket_worker *worker = &loads->worker[i];

		if (!worker->alive) {
			continue;
		}
		all_share += worker->share;
		all_packets += (double)worker->window + HANDED_COST * (double)window->handed[i];
		if (window->handed[i] == 0 && worker->window > 0) {
			share += worker->share;
			packets += (double)worker->window;
		}
	}
	if (packets > 0) {
		return share / packets;
	}
	return all_packets > 0 ? all_share / all_packets : 0;
}

// Divides the busy time of each worker into the time for the packets of its own buckets and the
// remaining time, which is the worker's base.
static void divide_share(const struct weir_bucket_loads *loads, struct window *window) {
	double expected = cost_of_packet(loads, window);

	for (uint32_t i = 0; i < loads->workers; i++) {
		const struct weir_bucket_worker *worker = &loads->worker[i];
		double packets = (double)worker->window, own = worker->share;

		if (packets == 0) {
			own = 0;
		} else if (window->handed[i] > 0 && packets * expected < own) {
			own = packets * expected;
		}
		window->cost[i] = packets > 0 ? own / packets : expected;
		window->base[i] = worker->share - own;
	}
}

// Measures the cost of moving a bucket. The cycles of an unfinished move are counted with the next
// move that is finished.
static void measure_move(struct weir_bucket_loads *loads, const struct weir_bucket_look *look) {
	uint64_t moves = look->moves - loads->moves;

	if (moves > 0 && look->hz > 0) {
		weir_steal_duration_ended(
			&loads->move, (double)(look->move_cycles - loads->move_cycles) /
					      (double)moves / look->hz);
		loads->moves = look->moves;
		loads->move_cycles = look->move_cycles;
		loads->ticks = 0;
	} else if (++loads->ticks == WEIR_BUCKET_MOVE_TICKS) {
		weir_steal_duration_init(&loads->move);
	}
}

void weir_bucket_loads_tick(struct weir_bucket_loads *loads, const struct weir_bucket_look *look) {
	struct window window;

	weir_bucket_loads_note(loads, look);
	measure_shares(loads, look, &window);
	divide_share(loads, &window);
	measure_move(loads, look);
	for (uint32_t i = 0; i < WEIR_BUCKETS; i++) {
		struct weir_bucket_load *bucket = &loads->bucket[i];

		// The loads of a stalled worker are not measured.
		if (bucket->owner < loads->workers && loads->worker[bucket->owner].alive) {
			weir_steal_duration_ended(
				&bucket->load, (double)bucket->window * window.cost[bucket->owner]);
		}
		bucket->window = 0;
	}
	for (uint32_t i = 0; i < loads->workers; i++) {
		if (loads->worker[i].alive) {
			weir_steal_duration_ended(&loads->worker[i].base, window.base[i]);
		}
		loads->worker[i].window = 0;
	}
}

// --- init and results ---------------------------------------------------------------------

void weir_bucket_loads_init(
	struct weir_bucket_loads *loads, uint32_t workers, const struct weir_bucket_look *look) {
	*loads = (struct weir_bucket_loads){.workers = workers};
	for (uint32_t i = 0; i < WEIR_BUCKETS; i++) {
		loads->bucket[i].packets = look->packets[i];
		loads->bucket[i].owner = look->owner[i];
		weir_steal_duration_init(&loads->bucket[i].load);
	}
	for (uint32_t i = 0; i < workers; i++) {
		loads->worker[i].busy_cycles = look->worker[i].busy_cycles;
		loads->worker[i].idle_cycles = look->worker[i].idle_cycles;
		loads->worker[i].handed_over = look->worker[i].handed_over;
		weir_steal_duration_init(&loads->worker[i].base);
	}
	weir_steal_duration_init(&loads->move);
	measure_move(loads, look); // the moves so far give the first estimate of the cost
}

double weir_bucket_loads_of(const struct weir_bucket_loads *loads, uint32_t bucket) {
	return weir_steal_duration_estimate(&loads->bucket[bucket].load, 0);
}

double weir_bucket_loads_base(const struct weir_bucket_loads *loads, uint32_t worker) {
	return weir_steal_duration_estimate(&loads->worker[worker].base, 0);
}

double weir_bucket_loads_move(const struct weir_bucket_loads *loads) {
	return weir_steal_duration_estimate(&loads->move, WEIR_BUCKET_MOVE_S);
}
