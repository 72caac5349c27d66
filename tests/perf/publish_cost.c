// SPDX-License-Identifier: BSD-3-Clause
//
// Measures the cost of publications, and the grace period with busy workers. The publications
// are: one row and 10,000 rows; a selection with 65,537 slots for 100 and 10,000 backends, with
// equal and with different weights; a service table of 4,000 binds. Prints minimum, median and
// 90th percentile of many iterations. Other load on the host affects the median and the 90th
// percentile.
//
// usage: publish_cost [TURNS [WORKERS]]
#include <netinet/in.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backend_row.h"
#include "reader.h"
#include "selection.h"
#include "service_table.h"
#include "writer.h"

#define BACKENDS 10000u
#define SLOTS 65537u
#define BINDS 4000u
#define TURNS 200u
#define GRACE_PERIODS 20000u
#define WORKERS_MAX 8u

enum step { STEP_ROW, STEP_ROWS, STEP_SELECTION, STEP_SERVICES, STEP_PUBLISH, STEP_GRACE, STEPS };

struct selection_case {
	uint32_t backends;
	bool equal; // whether all weights are equal
	const char *name;
};

static const struct selection_case selection_cases[] = {
	{100, true, "100 backends, equal weights"},
	{100, false, "100 backends, different weights"},
	{BACKENDS, true, "10,000 backends, equal weights"},
	{BACKENDS, false, "10,000 backends, different weights"},
};

static const char *const step_names[STEPS] = {
	"publish one row",
	"publish 10,000 rows",
	"build a selection, 10,000 backends, 65,537 slots",
	"build the service table, 4,000 binds",
	"publish both tables (two release-stores)",
	"grace period and freeing of the two previous tables",
};

struct worker {
	struct weir_segment *segment;
	uint32_t index;
	bool stop;
	uint64_t loops;
	pthread_t thread;
};

static uint64_t now_ns(void) {
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static int compare(const void *left, const void *right) {
	const uint64_t *a = left;
	const uint64_t *b = right;

	return (*a > *b) - (*a < *b);
}

static void show(const char *name, uint64_t *samples, unsigned int n) {
	uint64_t median, high;

	qsort(samples, n, sizeof(samples[0]), compare);
	median = samples[n / 2];
	high = samples[n * 9 / 10];
	printf("%-52s min %9.2f us   median %9.2f us   90th percentile %9.2f us\n", name,
		(double)samples[0] / 1e3, (double)median / 1e3, (double)high / 1e3);
}

// A poll loop that only loads new tables.
static void *work(void *arg) {
	struct worker *self = arg;
	struct weir_reader reader;

	if (weir_reader_init(&reader, self->segment, self->index, NULL, NULL) < 0) {
		return NULL;
	}
	weir_reader_online(&reader);
	while (!__atomic_load_n(&self->stop, __ATOMIC_RELAXED)) {
		weir_reader_update(&reader);
		weir_reader_quiescent(&reader);
		self->loops++;
	}
	weir_reader_offline(&reader);
	weir_reader_fini(&reader);
	return NULL;
}

static void publish_row(struct weir_writer *writer, uint32_t i, uint64_t turn) {
	const struct weir_backend_path path = {
		.address = {10, 0, (uint8_t)(i >> 8), (uint8_t)i},
		.source = {192, 0, 2, 1},
		.next_hop_mac = {2, 0, 0, 0, (uint8_t)(turn >> 8), (uint8_t)turn},
		.family = 4,
		.mtu = 1500,
		.resolved = 1,
	};
	struct weir_backend_row row;

	weir_backend_row_build(&path, &row);
	weir_writer_publish_row(writer, (uint16_t)i, &row);
}

// If the weights are not equal, they are different numbers from 500 to 10,499, and change in each
// iteration.
static struct weir_selection *build_selection(
	struct weir_writer *writer, uint32_t backends, bool equal, uint64_t turn) {
	static struct weir_selection_member members[BACKENDS];
	struct weir_selection_params params = weir_selection_defaults(0, WEIR_POLICY_MAGLEV, SLOTS);
	struct weir_selection *selection = NULL;

	for (uint32_t i = 0; i < backends; i++) {
		uint32_t weight = 500 + (uint32_t)((i * (uint64_t)7919 + turn) % BACKENDS);

		members[i] = (struct weir_selection_member){
			.identity = (i + 1) * 0x9e3779b97f4a7c15ull,
			.id = (uint16_t)i,
			.weight = equal ? 100 : weight,
		};
	}
	weir_selection_build(writer, &params, members, backends, &selection);
	return selection;
}

static struct weir_service_table *build_services(struct weir_writer *writer) {
	static struct weir_service_bind binds[BINDS];
	struct weir_service_table *table = NULL;

	for (uint32_t i = 0; i < BINDS; i++) {
		binds[i] = (struct weir_service_bind){
			.address = {198, 51, (uint8_t)(i / 4 >> 8), (uint8_t)(i / 4)},
			.family = 4,
			.protocol = i % 2 ? IPPROTO_TCP : IPPROTO_UDP,
			.port_first = (uint16_t)(80 + i % 4 / 2),
			.port_last = (uint16_t)(80 + i % 4 / 2),
			.service = (uint16_t)(i / 4),
		};
	}
	weir_service_table_build(writer, binds, BINDS, 1, &table);
	return table;
}

static bool turn(struct weir_writer *writer, uint64_t n, uint64_t ret[STEPS]) {
	const struct weir_root selection_root = {.kind = WEIR_BLOB_SELECTION};
	const struct weir_root services_root = {.kind = WEIR_BLOB_SERVICES};
	struct weir_service_table *services;
	struct weir_selection *selection;
	uint64_t at[STEPS + 1];

	at[STEP_ROW] = now_ns();
	publish_row(writer, (uint32_t)(n * 7919 % BACKENDS), 2 * n + 1);
	at[STEP_ROWS] = now_ns();
	for (uint32_t i = 0; i < BACKENDS; i++) {
		publish_row(writer, i, 2 * n + 2);
	}
	at[STEP_SELECTION] = now_ns();
	selection = build_selection(writer, BACKENDS, false, n);
	at[STEP_SERVICES] = now_ns();
	services = build_services(writer);
	at[STEP_PUBLISH] = now_ns();
	if (selection == NULL || services == NULL) {
		return false;
	}
	weir_writer_publish(writer, selection_root, selection);
	weir_writer_publish(writer, services_root, services);
	at[STEP_GRACE] = now_ns();
	while (weir_writer_reclaim(writer) > 0) {
	}
	at[STEPS] = now_ns();
	for (unsigned int i = 0; i < STEPS; i++) {
		ret[i] = at[i + 1] - at[i];
	}
	return true;
}

static bool measure(struct weir_writer *writer, unsigned int turns) {
	uint64_t *samples[STEPS] = {NULL};
	uint64_t step[STEPS] = {0};
	bool ok = true;

	for (unsigned int i = 0; i < STEPS; i++) {
		samples[i] = calloc(turns, sizeof(*samples[i]));
		ok = ok && samples[i] != NULL;
	}
	for (unsigned int n = 0; ok && n < turns; n++) {
		ok = turn(writer, n, step);
		for (unsigned int i = 0; i < STEPS; i++) {
			samples[i][n] = step[i];
		}
	}
	for (unsigned int i = 0; i < STEPS; i++) {
		if (ok) {
			show(step_names[i], samples[i], turns);
		}
		free(samples[i]);
	}
	return ok;
}

// Measures publications of only a selection: its weights change, and everything else is unchanged.
static bool measure_selection(
	struct weir_writer *writer, const struct selection_case *c, unsigned int turns) {
	const struct weir_root root = {.kind = WEIR_BLOB_SELECTION};
	uint64_t *built = calloc(turns, sizeof(*built));
	uint64_t *published = calloc(turns, sizeof(*published));
	bool ok = built != NULL && published != NULL;
	char name[64];

	for (unsigned int n = 0; ok && n < turns; n++) {
		uint64_t start = now_ns();
		struct weir_selection *selection =
			build_selection(writer, c->backends, c->equal, n);

		built[n] = now_ns() - start;
		start = now_ns();
		ok = selection != NULL && weir_writer_publish(writer, root, selection) == 0;
		published[n] = now_ns() - start;
		while (weir_writer_reclaim(writer) > 0) {
		}
	}
	if (ok) {
		snprintf(name, sizeof(name), "build: %s", c->name);
		show(name, built, turns);
		snprintf(name, sizeof(name), "publish: %s", c->name);
		show(name, published, turns);
	}
	free(published);
	free(built);
	return ok;
}

static bool measure_selections(struct weir_writer *writer, unsigned int turns) {
	bool ok = true;

	for (size_t i = 0; i < sizeof(selection_cases) / sizeof(selection_cases[0]); i++) {
		ok = ok && measure_selection(writer, &selection_cases[i], turns);
	}
	return ok;
}

static bool measure_grace(struct weir_writer *writer) {
	uint64_t *samples = calloc(GRACE_PERIODS, sizeof(*samples));

	if (samples == NULL) {
		return false;
	}
	for (unsigned int i = 0; i < GRACE_PERIODS; i++) {
		uint64_t start = now_ns();
		uint64_t mark = weir_writer_mark(writer);

		while (!weir_writer_passed(writer, mark)) {
		}
		samples[i] = now_ns() - start;
	}
	show("grace period alone", samples, GRACE_PERIODS);
	free(samples);
	return true;
}

static struct weir_segment *create(uint32_t workers) {
	static const struct weir_port_info port = {.name = "wan"};
	const struct weir_segment_params params = {
		.workers = workers,
		.ports = 1,
		.max_services = 1000,
		.max_backends = BACKENDS,
		.heap_bytes = 64u << 20,
		.port_info = &port,
	};
	struct weir_segment *segment = NULL;

	return weir_segment_create(&params, &segment) == 0 ? segment : NULL;
}

int main(int argc, char **argv) {
	unsigned int turns = argc > 1 ? (unsigned int)strtoul(argv[1], NULL, 10) : TURNS;
	unsigned int workers = argc > 2 ? (unsigned int)strtoul(argv[2], NULL, 10) : 1;
	struct worker worker[WORKERS_MAX] = {{0}};
	struct weir_writer *writer = NULL;
	struct weir_writer_usage usage;
	struct weir_segment *segment, *control = NULL;
	bool ok;

	if (turns < 1 || workers < 1 || workers > WORKERS_MAX) {
		fprintf(stderr, "usage: %s [TURNS [WORKERS]]\n", argv[0]);
		return 2;
	}
	segment = create(workers);
	if (segment == NULL || weir_segment_attach_own(segment, &control) < 0 ||
		weir_writer_open(control, &writer) < 0 ||
		weir_writer_reserve(writer, 1000, BACKENDS) < 0 ||
		weir_segment_follow(segment) < 0) {
		fprintf(stderr, "cannot create a segment\n");
		return 1;
	}
	for (uint32_t i = 0; i < workers; i++) {
		worker[i].segment = segment;
		worker[i].index = i;
		if (pthread_create(&worker[i].thread, NULL, work, &worker[i]) != 0) {
			fprintf(stderr, "cannot start a worker\n");
			return 1;
		}
	}
	printf("%u busy worker(s), %u turns\n", workers, turns);
	ok = measure_selections(writer, turns) && measure(writer, turns) && measure_grace(writer);
	for (uint32_t i = 0; i < workers; i++) {
		__atomic_store_n(&worker[i].stop, true, __ATOMIC_RELAXED);
		pthread_join(worker[i].thread, NULL);
	}
	weir_writer_usage(writer, &usage);
	printf("heap: %.1f MB live, %.1f MB taken\n", (double)usage.used_bytes / 1e6,
		(double)usage.backed_bytes / 1e6);
	weir_writer_free(writer);
	weir_segment_free(control);
	weir_segment_free(segment);
	return ok ? 0 : 1;
}
