// SPDX-License-Identifier: BSD-3-Clause
//
// Measures the CPU time of three parts of stealing in weir-control: reading the counters of the
// workers' buckets, reading the half-open flows of a service's backends, and planning a round
// between backends. (steal_cost.c measures other plans.) Prints medians. Counters are written
// before each reading, spread over the memory, so that no counter is in the cache.
//
// usage: flow_steal_cost [--once]
// --once: a short run of all cases, to check that they work
#include <arpa/inet.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bucket_loads.h"
#include "steal_service.h"

#define RUNS 31u
#define BURDENED 4u // number of backends with a full queue
#define QUEUE_ROOM 100u
#define SERVICE_S 0.1 // serving a full queue takes ten times as long as moving a connection
#define SYN_SEEN_MS 5000u
#define AFTER_MS 500u

static const struct cost_case {
	const char *name;
	uint32_t workers, backends;
} cases[] = {
	{"buckets", 4, 0},
	{"buckets", 64, 0},
	{"half-open", 4, 1000},
	{"half-open", 4, 10000},
	{"half-open", 64, 10000},
	{"plan", 0, 1000},
	{"plan", 0, 10000},
};
#define CASES (sizeof(cases) / sizeof(cases[0]))

struct bench {
	const struct cost_case *what;
	struct weir_segment_header header;
	struct weir_segment segment; // only the fields that are read
	struct weir_bucket_look look;
	struct steal_service service;
	struct weir_flow_scan scan;
	uint64_t now_ms;
	uint64_t seen; // result of the last run
};

// --- measured functions ------------------------------------------------------------------

static void look_at_buckets(struct bench *bench) {
	weir_bucket_look_take(&bench->look, &bench->segment, bench->now_ms * 1000000);
	bench->seen = bench->look.packets[WEIR_BUCKETS - 1];
}

static void count_half_open(struct bench *bench) {
	(void)weir_steal_services_count(&bench->service, 1, 0, &bench->segment, bench->now_ms);
	bench->seen = bench->service.handshakes[bench->what->backends - 1].half_open;
}

static void plan(struct bench *bench) {
	struct steal_planned planned[WEIR_FLOW_STEALS_AT_ONCE];
	uint32_t n = weir_steal_service_plan(&bench->service, &bench->scan, bench->now_ms, planned);

	bench->seen = n;
}

// --- what happens between runs ------------------------------------------------------------

static void write_counters(struct bench *bench) {
	const struct weir_segment *segment = &bench->segment;

	for (uint32_t bucket = 0; bucket < WEIR_BUCKETS; bucket++) {
		for (uint32_t worker = 0; worker < segment->workers; worker++) {
			segment->bucket_packets[worker].packets[bucket] += bucket;
		}
	}
	for (uint32_t i = 0; i < bench->what->backends; i++) {
		for (uint32_t worker = 0; worker < segment->workers; worker++) {
			struct weir_share_counters *of =
				weir_segment_backend_counters(segment, worker, i);

			of->new_flows += i % 4;
			of->half_open = 1 + i % 3;
		}
	}
}

// Sets the state after an evaluation: a few queues are full, all other queues are not, and there is
// a list of the flows of the backends with full queues.
static void begin_round(struct bench *bench) {
	for (uint32_t i = 0; i < bench->what->backends; i++) {
		struct steal_member *member = &bench->service.members[i];

		member->full = i < BURDENED;
		member->thief = !member->full;
		member->fill = member->full ? 1 : i % 5 * 0.05;
		member->room = member->full ? 0 : QUEUE_ROOM;
		member->queue = member->fill * QUEUE_ROOM;
		member->service_s = SERVICE_S;
		member->requests = 0;
	}
	bench->scan.count = WEIR_FLOW_SCAN_FLOWS;
	for (uint32_t i = 0; i < bench->scan.count; i++) {
		bench->scan.flow[i] = (struct weir_flow_waiting_at){
			.family = 4, .backend = i % BURDENED, .vip_port = htons(80)};
	}
}

// --- set-up and main ---------------------------------------------------------------------

// Allocates zeroed memory in whole cache lines, because structs of a segment are aligned to cache
// lines.
static void *lines(size_t count, size_t bytes) {
	void *memory = aligned_alloc(64, count * bytes);

	return memory != NULL ? memset(memory, 0, count * bytes) : NULL;
}

static bool begin_segment(struct bench *bench) {
	struct weir_segment *segment = &bench->segment;
	uint32_t workers = bench->what->workers + 1;

	segment->workers = bench->what->workers;
	segment->max_backends = bench->what->backends;
	segment->bucket_packets = lines(workers, sizeof(segment->bucket_packets[0]));
	segment->bucket_owners = lines(1, sizeof(segment->bucket_owners[0]));
	segment->worker_counters = lines(workers, sizeof(segment->worker_counters[0]));
	segment->steal_counters = lines(workers, sizeof(segment->steal_counters[0]));
	bench->header = (struct weir_segment_header){.tsc_hz = 2000000000};
	segment->header = &bench->header;
	segment->backend_counters = lines((size_t)workers * (bench->what->backends + 1),
		sizeof(segment->backend_counters[0]));
	return segment->bucket_packets != NULL && segment->bucket_owners != NULL &&
	       segment->worker_counters != NULL && segment->steal_counters != NULL &&
	       segment->backend_counters != NULL;
}

static bool begin_service(struct bench *bench) {
	struct steal_service *service = &bench->service;
	uint32_t count = bench->what->backends;
	const struct weir_steal_params params = {.latency = 0.01,
		.pending_ratio = 1.9,
		.idle_ratio = 1,
		.steal_share = 1,
		.backoff = 0.1,
		.backoff_max = 1,
		.answer_limit = 1e9};

	if (count == 0) {
		return true;
	}
	*service = (struct steal_service){.enabled = true,
		.per_second = 10000,
		.tokens = 10000,
		.stalling = {.memory_ms = SYN_SEEN_MS, .after_ms = AFTER_MS},
		.count = count,
		.members = calloc(count, sizeof(service->members[0])),
		.handshakes = calloc(count, sizeof(service->handshakes[0])),
		.places = calloc(count, sizeof(service->places[0])),
		.thieves = calloc(count / 64 + 1, sizeof(service->thieves[0]))};
	if (service->members == NULL || service->handshakes == NULL || service->places == NULL ||
		service->thieves == NULL) {
		return false;
	}
	for (uint32_t i = 0; i < count; i++) {
		service->members[i].id = (uint16_t)i;
	}
	return weir_steal_plan_create(&params, count, count + WEIR_STEAL_WAITING, &service->plan) ==
	       0;
}

static void end(struct bench *bench) {
	weir_steal_service_fini(&bench->service);
	free(bench->segment.backend_counters);
	free(bench->segment.worker_counters);
	free(bench->segment.steal_counters);
	free(bench->segment.bucket_owners);
	free(bench->segment.bucket_packets);
	free(bench);
}

static int compare(const void *left, const void *right) {
	uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

	return (a > b) - (a < b);
}

static uint64_t cpu_ns(void) {
	struct timespec time;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

// Returns true if each run had a result.
static bool run(const struct cost_case *what, uint32_t runs) {
	struct bench *bench = calloc(1, sizeof(*bench));
	void (*timed)(struct bench *) = what->backends == 0  ? look_at_buckets
					: what->workers == 0 ? plan
							     : count_half_open;
	uint64_t took[RUNS], begin;
	bool good;

	if (bench == NULL) {
		return false;
	}
	bench->what = what;
	bench->now_ms = 1000000;
	good = begin_segment(bench) && begin_service(bench);
	for (uint32_t i = 0; good && i < runs; i++) {
		bench->now_ms += 1000;
		bench->seen = 0;
		write_counters(bench);
		begin_round(bench);
		begin = cpu_ns();
		timed(bench);
		took[i] = cpu_ns() - begin;
		good = bench->seen > 0;
	}
	if (good) {
		uint32_t middle = runs / 2;

		qsort(took, runs, sizeof(took[0]), compare);
		printf("%-10s %8" PRIu32 " %8" PRIu32 " %10.1f\n", what->name, what->workers,
			what->backends, (double)took[middle] / 1000);
	}
	end(bench);
	return good;
}

int main(int argc, char **argv) {
	bool once = argc == 2 && strcmp(argv[1], "--once") == 0;

	if (argc > 1 && !once) {
		fprintf(stderr, "usage: flow_steal_cost [--once]\n");
		return 2;
	}
	printf("%-10s %8s %8s %10s\n", "case", "workers", "backends", "us");
	for (size_t i = 0; i < CASES; i++) {
		if (!run(&cases[i], once ? 3 : RUNS)) {
			fprintf(stderr, "flow_steal_cost: %s found nothing\n", cases[i].name);
			return EXIT_FAILURE;
		}
	}
	return EXIT_SUCCESS;
}
