// SPDX-License-Identifier: BSD-3-Clause
//
// Stress of S2 (a worker sees either the old table or the new, whole) and S5 (no table is freed
// while any worker can still read it).
//
// One reader thread per worker checks every word of every table, again and again, while a writer
// replaces them in a heap that is small enough for memory to be used again at once. Now and then a
// reader falls asleep in the middle of a table, or goes offline. Tables grow and shrink, in the
// order of layout.h: no reader may see a selection without the backends that it names.
//
// usage: republish [PUBLICATIONS of each kind]. Exit 0: all whole.
#include <pthread.h>
#include <rte_rcu_qsbr.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "pattern.h"

#define READERS 3
#define SERVICES PATTERN_PORTS
#define ROWS_MAX 24u
#define BACKENDS 12u
#define HEAP_BYTES (320u << 10)
#define PUBLICATIONS 100000u
#define SYNCHRONIZE_MS 20000

struct shared {
	struct weir_segment *segment;
	bool stop;
	bool failed;
};

struct reader_thread {
	struct shared *shared;
	uint32_t worker;
	uint64_t loops;
	uint64_t adopted; // changes of any table that this reader saw
	pthread_t thread;
};

static void nap(void) {
	const struct timespec time = {.tv_nsec = 200000};

	nanosleep(&time, NULL);
}

// One burst of a worker: all tables, in the order of loading, every word.
static bool check_tables(struct weir_reader *reader, uint64_t loop, uint64_t *adopted) {
	const struct weir_services_view *services;
	const struct weir_backends_view *backends;
	const struct weir_selection_view *selection[SERVICES];
	weir_ref before = reader->backends_ref;

	services = weir_reader_services(reader);
	for (uint16_t service = 0; service < SERVICES; service++) {
		weir_ref old = reader->selection[service].ref;

		selection[service] = weir_reader_selection(reader, service);
		*adopted += old != selection[service]->ref;
	}
	backends = weir_reader_backends(reader);
	*adopted += before != reader->backends_ref;
	if (loop % 512 == reader->worker) {
		nap(); // with all tables in hand
	}
	for (uint16_t service = 0; service < SERVICES; service++) {
		if (!pattern_check_selection(selection[service], 0) ||
			!pattern_check_order(selection[service], backends)) {
			return false;
		}
	}
	return pattern_check_services(services) &&
	       pattern_check_backends(backends, reader->backends_ref);
}

static void *read_tables(void *arg) {
	struct reader_thread *self = arg;
	struct shared *shared = self->shared;
	struct rte_rcu_qsbr *qsbr = shared->segment->qsbr;
	struct weir_reader reader;

	if (weir_reader_init(&reader, shared->segment, self->worker) < 0) {
		__atomic_store_n(&shared->failed, true, __ATOMIC_RELAXED);
		return NULL;
	}
	rte_rcu_qsbr_thread_online(qsbr, self->worker);
	while (!__atomic_load_n(&shared->stop, __ATOMIC_RELAXED)) {
		if (!check_tables(&reader, self->loops, &self->adopted) || reader.refused > 0) {
			fprintf(stderr, "worker %u, loop %llu: %llu tables refused\n", self->worker,
				(unsigned long long)self->loops,
				(unsigned long long)reader.refused);
			__atomic_store_n(&shared->failed, true, __ATOMIC_RELAXED);
			break;
		}
		self->loops++;
		rte_rcu_qsbr_quiescent(qsbr, self->worker);
		if (self->loops % 1000 == 0) {
			rte_rcu_qsbr_thread_offline(qsbr, self->worker);
			sched_yield();
			rte_rcu_qsbr_thread_online(qsbr, self->worker);
		}
	}
	rte_rcu_qsbr_thread_offline(qsbr, self->worker);
	weir_reader_fini(&reader);
	return NULL;
}

// --- the writer ---------------------------------------------------------------------------

struct work {
	struct shared *shared;
	struct weir_writer *writer;
	uint64_t seed;
	uint64_t selections, backends, services;
	uint64_t waits; // for memory
	uint32_t rows; // of the published backend table
};

// Publish, or wait for readers to let go of memory and try again.
static bool publish(struct work *w, struct weir_root root, uint32_t rows) {
	for (;;) {
		void *blob = NULL;

		if (root.kind == WEIR_BLOB_BACKENDS) {
			blob = pattern_backends(w->writer, rows);
		} else if (root.kind == WEIR_BLOB_SELECTION) {
			blob = pattern_selection(w->writer, root.service, BACKENDS,
				53 + (uint32_t)(pattern_random(&w->seed) % 200), rows);
		} else {
			blob = pattern_services(
				w->writer, (uint32_t)(pattern_random(&w->seed) % PATTERN_PORTS));
		}
		if (blob != NULL) {
			return weir_writer_publish(w->writer, root, blob) == 0;
		}
		if (__atomic_load_n(&w->shared->failed, __ATOMIC_RELAXED)) {
			return false;
		}
		w->waits++;
		sched_yield();
	}
}

static bool publish_selections(struct work *w, uint32_t rows) {
	for (uint16_t service = 0; service < SERVICES; service++) {
		if (!publish(w, (struct weir_root){WEIR_BLOB_SELECTION, service}, rows)) {
			return false;
		}
		w->selections++;
	}
	return true;
}

static bool publish_backends(struct work *w, uint32_t rows) {
	w->backends++;
	w->rows = rows;
	return publish(w, (struct weir_root){.kind = WEIR_BLOB_BACKENDS}, rows);
}

// To another number of rows. Fewer: nothing may name the rows that go, for a grace period.
static bool resize(struct work *w, uint32_t rows) {
	if (rows >= w->rows) {
		return publish_backends(w, rows) && publish_selections(w, rows);
	}
	return publish_selections(w, rows) &&
	       weir_writer_synchronize(w->writer, SYNCHRONIZE_MS) == 0 && publish_backends(w, rows);
}

static bool turn(struct work *w) {
	uint64_t r = pattern_random(&w->seed);

	if (r % 16 == 0 && !resize(w, 1 + (uint32_t)(r >> 32) % ROWS_MAX)) {
		return false;
	}
	for (unsigned int i = 0; i < 8; i++) {
		if (!publish_backends(w, w->rows)) {
			return false;
		}
	}
	w->services++;
	return publish_selections(w, w->rows) &&
	       publish(w, (struct weir_root){.kind = WEIR_BLOB_SERVICES}, 0) &&
	       (weir_writer_reclaim(w->writer), true);
}

static struct weir_segment *create(void) {
	static const struct weir_port_info port = {.name = "wan"};
	const struct weir_segment_params params = {
		.workers = READERS,
		.ports = 1,
		.max_services = SERVICES,
		.max_backends = ROWS_MAX,
		.heap_bytes = HEAP_BYTES,
		.port_info = &port,
	};
	struct weir_segment *segment = NULL;

	return weir_segment_create(&params, &segment) == 0 ? segment : NULL;
}

static bool run(struct shared *shared, struct work *w, uint64_t publications) {
	struct reader_thread readers[READERS] = {{0}};
	uint64_t loops = 0;
	bool ok = true;

	for (uint32_t i = 0; i < READERS; i++) {
		readers[i].shared = shared;
		readers[i].worker = i;
		if (pthread_create(&readers[i].thread, NULL, read_tables, &readers[i]) != 0) {
			return false;
		}
	}
	while (ok && (w->selections < publications || w->backends < publications)) {
		ok = turn(w) && !__atomic_load_n(&shared->failed, __ATOMIC_RELAXED);
	}
	__atomic_store_n(&shared->stop, true, __ATOMIC_RELAXED);
	for (uint32_t i = 0; i < READERS; i++) {
		pthread_join(readers[i].thread, NULL);
		printf("worker %u: %llu loops, %llu tables adopted\n", i,
			(unsigned long long)readers[i].loops,
			(unsigned long long)readers[i].adopted);
		loops += readers[i].loops;
		ok = ok && readers[i].adopted > 100;
	}
	printf("published %llu selections, %llu backend tables, %llu service tables; waited %llu "
	       "times for memory; %llu loops\n",
		(unsigned long long)w->selections, (unsigned long long)w->backends,
		(unsigned long long)w->services, (unsigned long long)w->waits,
		(unsigned long long)loops);
	return ok && !shared->failed;
}

int main(int argc, char **argv) {
	uint64_t publications = argc > 1 ? strtoull(argv[1], NULL, 10) : PUBLICATIONS;
	struct shared shared = {.segment = create()};
	struct work work = {.shared = &shared, .seed = 1};
	struct weir_writer_usage usage;
	uint64_t live = 0;
	bool ok;

	if (shared.segment == NULL || weir_writer_open(shared.segment, &work.writer) < 0) {
		fprintf(stderr, "cannot set up\n");
		return 1;
	}
	ok = resize(&work, ROWS_MAX) && run(&shared, &work, publications);
	// Nobody reads any more: all but what is published must come back.
	ok = ok && weir_writer_synchronize(work.writer, SYNCHRONIZE_MS) == 0;
	weir_writer_usage(work.writer, &usage);
	for (uint16_t service = 0; service < SERVICES; service++) {
		const struct weir_blob *blob = weir_writer_current(
			work.writer, (struct weir_root){WEIR_BLOB_SELECTION, service});

		live += blob->bytes;
	}
	live += ((const struct weir_blob *)weir_writer_current(
			 work.writer, (struct weir_root){.kind = WEIR_BLOB_BACKENDS}))
			->bytes;
	live += ((const struct weir_blob *)weir_writer_current(
			 work.writer, (struct weir_root){.kind = WEIR_BLOB_SERVICES}))
			->bytes;
	if (usage.used_bytes != live) {
		fprintf(stderr, "%llu bytes in use, %llu live\n",
			(unsigned long long)usage.used_bytes, (unsigned long long)live);
		ok = false;
	}
	weir_writer_free(work.writer);
	weir_segment_free(shared.segment);
	printf("%s\n", ok ? "S2, S5: all tables whole" : "FAILED");
	return ok ? 0 : 1;
}
