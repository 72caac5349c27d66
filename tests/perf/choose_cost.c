// SPDX-License-Identifier: BSD-3-Clause
//
// Measures the cost of a new flow (choose + started + ended) for each policy and number of
// candidates, in four cases: no limit of active flows; a limit that no backend reaches; a limit
// that workers share (SHARING workers; further workers are idle); a limit that all backends have
// reached (spill). Other flows are active between the start and the end of a flow, so that the
// loads of the backends differ. Prints medians of many runs; the memory is in the cache from
// previous runs.
//
// usage: choose_cost [--json | --once]
// --once: a short run of all cases, to check that they work.
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#include "interleaved.h"
#include "maglev.h"
#include "policy.h"
#include "shared_limit.h"
#include "stride.h"

#define CANDIDATES_MAX 10000u
#define SLOTS 65537u
#define FLOWS 4096u // maximum number of concurrent flows
#define FLOWS_PER_CANDIDATE 8u
#define HASHES 4096u
#define RUNS 31u
#define CHOICES 20000u // choices in a run
#define FLOW_GAP_NS 1000u
#define FLOWS_PER_TURN 16u
#define LIMIT 100u

#define SHARING 16u

enum variant { UNLIMITED, LIMITED, SHARED, EXHAUSTED, VARIANTS };
static const char *const variant_names[VARIANTS] = {
	"no limit", "limit 100", "shared limit", "all at limit"};
static const char *const variant_keys[VARIANTS] = {"unlimited", "limited", "shared", "exhausted"};
static const uint32_t sizes[] = {10, 100, 10000};
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

struct bench {
	uint32_t runs; // at most RUNS
	struct weir_policy_backend *backends;
	struct weir_limit_word *words;
	struct weir_limit_part *parts;
	uint64_t *costs;
	struct weir_candidate *candidates;
	struct weir_round *rounds;
	uint16_t *slots;
	struct weir_maglev_backend *maglev;
	void *scratch;
	uint64_t hashes[HASHES];
	uint16_t flows[FLOWS];
	struct weir_policy_client client;
	struct weir_policy_worker worker;
	struct weir_policy_table table;
	uint64_t now_ns;
	uint64_t failed; // number of wrong choices
};

struct result {
	double ns;
	double ticks;
};

static uint64_t clock_ns(void) {
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static uint64_t clock_ticks(void) {
#if defined(__x86_64__)
	unsigned int cpu;

	return __rdtscp(&cpu);
#else
	return 0;
#endif
}

static uint64_t next_random(uint64_t *seed) {
	uint64_t x = *seed += 0x9e3779b97f4a7c15ull;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

static int compare(const void *left, const void *right) {
	const double *a = left;
	const double *b = right;

	return (*a > *b) - (*a < *b);
}

static double median(double *values, size_t n) {
	qsort(values, n, sizeof(values[0]), compare);
	return values[n / 2];
}

static int bench_init(struct bench *bench) {
	uint64_t seed = 1;

	bench->backends = aligned_alloc(64, CANDIDATES_MAX * sizeof(*bench->backends));
	bench->words = aligned_alloc(64, CANDIDATES_MAX * sizeof(*bench->words));
	bench->parts = calloc(CANDIDATES_MAX, sizeof(*bench->parts));
	bench->costs = calloc(CANDIDATES_MAX, sizeof(*bench->costs));
	bench->candidates = calloc(CANDIDATES_MAX, sizeof(*bench->candidates));
	bench->rounds = calloc(CANDIDATES_MAX, sizeof(*bench->rounds));
	bench->slots = calloc(SLOTS, sizeof(*bench->slots));
	bench->maglev = calloc(CANDIDATES_MAX, sizeof(*bench->maglev));
	bench->scratch = malloc(weir_maglev_scratch_bytes(CANDIDATES_MAX));
	if (bench->backends == NULL || bench->words == NULL || bench->parts == NULL ||
		bench->costs == NULL || bench->candidates == NULL || bench->rounds == NULL ||
		bench->slots == NULL || bench->maglev == NULL || bench->scratch == NULL) {
		return -1;
	}
	for (uint32_t i = 0; i < HASHES; i++) {
		bench->hashes[i] = next_random(&seed);
	}
	return 0;
}

static void bench_fini(struct bench *bench) {
	free(bench->scratch);
	free(bench->maglev);
	free(bench->slots);
	free(bench->rounds);
	free(bench->candidates);
	free(bench->costs);
	free(bench->parts);
	free(bench->words);
	free(bench->backends);
}

// Weights are 100, 200 and 300, in ascending order, for which weir_interleaved_rounds is efficient.
// Service times are 10 to 20 ms.
static void fill_table(struct bench *bench, enum weir_policy policy, uint32_t n) {
	uint8_t needs = weir_policy_needs(policy);
	uint64_t seed = n;

	bench->table = (struct weir_policy_table){.candidates = bench->candidates, .count = n};
	bench->table.settings.policy = (uint8_t)policy;
	bench->table.settings.needs = needs;
	bench->table.settings.error_window_ms = 1000;
	for (uint32_t i = 0; i < n; i++) {
		uint64_t identity = next_random(&seed);

		bench->candidates[i] =
			(struct weir_candidate){.id = (uint16_t)i, .weight = 100 * (1 + i * 3 / n)};
		bench->costs[i] = 10000000 + identity % 10000000;
		bench->maglev[i].weight = bench->candidates[i].weight;
		weir_maglev_permutation(
			identity, SLOTS, &bench->maglev[i].offset, &bench->maglev[i].skip);
	}
	if (policy == WEIR_POLICY_WEIGHTED_ROUND_ROBIN) {
		weir_stride_scale(bench->candidates, n, false);
	}
	if ((needs & WEIR_NEEDS_SLOTS) != 0) {
		weir_maglev_build(bench->maglev, n, bench->slots, SLOTS, bench->scratch);
		bench->table.slots = bench->slots;
		bench->table.slot_count = SLOTS;
	}
	if ((needs & WEIR_NEEDS_ROUNDS) != 0) {
		bench->table.rounds = bench->rounds;
		bench->table.round_count =
			weir_interleaved_rounds(bench->candidates, n, bench->rounds);
	}
}

static uint16_t begin_flow(struct bench *bench, uint32_t i, enum variant variant) {
	enum weir_chosen_how how = variant == EXHAUSTED ? WEIR_CHOSEN_SPILLED : WEIR_CHOSEN;
	struct weir_chosen chosen = weir_policy_choose(&bench->worker, &bench->client,
		&bench->table, bench->hashes[i % HASHES], bench->now_ns);

	bench->failed += chosen.how != how;
	weir_policy_started(&bench->worker, &bench->client, chosen.id, bench->now_ns);
	return chosen.id;
}

static void share_limit(struct bench *bench, uint32_t n) {
	memset(bench->words, 0, n * sizeof(*bench->words));
	memset(bench->parts, 0, n * sizeof(*bench->parts));
	weir_shared_limit_init(&bench->worker, bench->words, bench->parts, SHARING);
	for (uint32_t id = 0; id < n; id++) {
		weir_policy_count_shared(&bench->worker, (uint16_t)id, true);
		weir_policy_set_limit(&bench->worker, &bench->client, (uint16_t)id, LIMIT);
	}
}

static void bench_start(
	struct bench *bench, enum weir_policy policy, uint32_t n, enum variant variant) {
	uint32_t flows = n * FLOWS_PER_CANDIDATE < FLOWS ? n * FLOWS_PER_CANDIDATE : FLOWS;

	fill_table(bench, policy, n);
	memset(bench->backends, 0, CANDIDATES_MAX * sizeof(*bench->backends));
	memset(&bench->client, 0, sizeof(bench->client));
	bench->worker = (struct weir_policy_worker){.backends = bench->backends,
		.cost_ns = bench->costs,
		.backend_count = n,
		.ranks = 1};
	bench->failed += weir_policy_windows_alloc(&bench->worker) < 0;
	bench->now_ns = 1;
	if (variant == SHARED) {
		share_limit(bench, n);
	} else if (variant != UNLIMITED) {
		bench->table.settings.max_active_flows = LIMIT;
	}
	for (uint32_t i = 0; variant == EXHAUSTED && i < n; i++) {
		bench->backends[i].active = LIMIT + (uint32_t)(bench->hashes[i % HASHES] % 8);
	}
	weir_policy_adopt(&bench->worker, &bench->client, &bench->table, bench->now_ns);
	for (uint32_t i = 0; i < FLOWS; i++) {
		bench->flows[i] = i < flows ? begin_flow(bench, i, variant) : 0;
	}
}

static struct result measure(
	struct bench *bench, enum weir_policy policy, uint32_t n, enum variant variant) {
	uint32_t flows = n * FLOWS_PER_CANDIDATE < FLOWS ? n * FLOWS_PER_CANDIDATE : FLOWS;
	double ns[RUNS];
	double ticks[RUNS];
	uint32_t at = 0;

	bench_start(bench, policy, n, variant);
	for (uint32_t turn = 0; turn < bench->runs + bench->runs / 4; turn++) {
		uint32_t warm_up = bench->runs / 4;
		uint32_t timed = turn < warm_up ? 0 : turn - warm_up;
		uint64_t begin_ns = clock_ns();
		uint64_t begin_ticks = clock_ticks();

		for (uint32_t i = 0; i < CHOICES; i++) {
			uint16_t id = begin_flow(bench, i, variant);

			weir_policy_ended(&bench->worker, &bench->client, bench->flows[at],
				WEIR_OUTCOME_COMPLETED, bench->now_ns);
			bench->flows[at] = id;
			at = at + 1 < flows ? at + 1 : 0;
			bench->now_ns += FLOW_GAP_NS;
			if (i % FLOWS_PER_TURN == 0) {
				weir_shared_limit_turn(&bench->worker, bench->now_ns);
			}
		}
		ticks[timed] = (double)(clock_ticks() - begin_ticks) / CHOICES;
		ns[timed] = (double)(clock_ns() - begin_ns) / CHOICES;
	}
	free(bench->worker.windows.key);
	return (struct result){.ns = median(ns, bench->runs), .ticks = median(ticks, bench->runs)};
}

static void print_json(enum weir_policy policy, uint32_t n, enum variant variant,
	const struct result *result, bool first) {
	printf("%s\n  {\"policy\": \"%s\", \"candidates\": %" PRIu32
	       ", \"limit\": \"%s\", \"ns\": %.1f, \"ticks\": %.0f}",
		first ? "" : ",", weir_policy_name(policy), n, variant_keys[variant], result->ns,
		result->ticks);
}

static void print_head(uint32_t runs) {
	printf("choose + started + ended, median of %u runs: ns (TSC ticks)\n\n%-34s%11s", runs,
		"policy", "candidates");
	for (int variant = 0; variant < VARIANTS; variant++) {
		printf("%19s", variant_names[variant]);
	}
	printf("\n");
}

static void run(struct bench *bench, bool json) {
	if (json) {
		printf("[");
	} else {
		print_head(bench->runs);
	}
	for (int policy = 0; policy < WEIR_POLICY_COUNT; policy++) {
		for (size_t size = 0; size < SIZES; size++) {
			if (!json) {
				printf("%-34s%11" PRIu32,
					weir_policy_name((enum weir_policy)policy), sizes[size]);
			}
			for (int variant = 0; variant < VARIANTS; variant++) {
				struct result result = measure(bench, (enum weir_policy)policy,
					sizes[size], (enum variant)variant);

				if (json) {
					print_json((enum weir_policy)policy, sizes[size],
						(enum variant)variant, &result,
						policy == 0 && size == 0 && variant == 0);
				} else {
					printf("%11.1f (%5.0f)", result.ns, result.ticks);
				}
			}
			if (!json) {
				printf("\n");
			}
		}
	}
	printf(json ? "\n]\n" : "");
}

int main(int argc, char **argv) {
	bool json = argc == 2 && strcmp(argv[1], "--json") == 0;
	bool once = argc == 2 && strcmp(argv[1], "--once") == 0;
	struct bench *bench;
	int status = EXIT_SUCCESS;

	if (argc > 2 || (argc == 2 && !json && !once)) {
		fprintf(stderr, "usage: choose_cost [--json | --once]\n");
		return 2;
	}
	bench = aligned_alloc(64, (sizeof(*bench) + 63) / 64 * 64);
	if (bench == NULL) {
		return EXIT_FAILURE;
	}
	memset(bench, 0, sizeof(*bench));
	bench->runs = once ? 1 : RUNS;
	if (bench_init(bench) < 0) {
		status = EXIT_FAILURE;
	} else {
		run(bench, json);
	}
	if (bench->failed > 0) {
		fprintf(stderr, "choose_cost: %" PRIu64 " choices went wrong\n", bench->failed);
		status = EXIT_FAILURE;
	}
	bench_fini(bench);
	free(bench);
	return status;
}
