// SPDX-License-Identifier: BSD-3-Clause
//
// Stress test of the guarantees S2 (a worker reads either the whole old table or the whole new
// table) and S5 (no table is freed while any worker can still read it).
//
// One reader thread per worker checks every word of every table and of every row, repeatedly, while
// a writer replaces them in a heap so small that memory is reused at once. Sometimes a reader
// sleeps while it uses all tables, or goes offline. Backends are added and removed in the order
// that layout.h requires, so that no reader sees a selection with a backend that has no row.
// Another thread copies one row as fast as possible while the writer changes this row; no copy may
// be torn.
//
// usage: republish [PUBLICATIONS of each kind]. Exit 0: all checks passed.
#include <pthread.h>
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
	struct weir_segment *segment; // shared by readers and writer
	bool stop;
	bool failed;
};

struct reader_thread {
	struct shared *shared;
	uint32_t worker;
	uint64_t loops;
	uint64_t adopted; // number of table changes that this reader loaded
	uint64_t adopted_rows;
	struct weir_backend_row rows[ROWS_MAX];
	bool torn;
	pthread_t thread;
};

static void nap(void) {
	const struct timespec time = {.tv_nsec = 200000};

	nanosleep(&time, NULL);
}

static bool adopt_row(void *context, uint16_t backend, const struct weir_backend_row *row) {
	struct reader_thread *self = context;

	self->torn = self->torn || !pattern_check_row(backend, row);
	self->rows[backend] = *row;
	self->adopted_rows++;
	return true;
}

// One burst of a worker: load a few changes, and check every word of all tables.
static bool check_tables(struct weir_reader *reader, struct reader_thread *self) {
	const struct weir_services_view *services = weir_reader_services(reader);
	uint64_t before = services->generation;

	for (uint16_t service = 0; service < SERVICES; service++) {
		before += weir_reader_selection(reader, service)->generation;
	}
	weir_reader_update(reader);
	if (self->loops % 512 == self->worker) {
		nap(); // sleep while using all tables
	}
	before -= services->generation;
	for (uint16_t service = 0; service < SERVICES; service++) {
		const struct weir_selection_view *view = weir_reader_selection(reader, service);

		before -= view->generation;
		if (!pattern_check_selection(view, 0) || !pattern_check_order(view, self->rows)) {
			return false;
		}
	}
	self->adopted += before != 0;
	return pattern_check_services(services) && !self->torn;
}

static void *read_tables(void *arg) {
	struct reader_thread *self = arg;
	struct shared *shared = self->shared;
	struct weir_reader reader;

	if (weir_reader_init(&reader, shared->segment, self->worker, adopt_row, self) < 0) {
		__atomic_store_n(&shared->failed, true, __ATOMIC_RELAXED);
		return NULL;
	}
	weir_reader_online(&reader);
	while (!__atomic_load_n(&shared->stop, __ATOMIC_RELAXED)) {
		const struct weir_refusals *r = &reader.refusals;

		if (!check_tables(&reader, self) || r->services + r->selections + r->rows > 0) {
			fprintf(stderr, "worker %u, loop %llu: %llu tables refused\n", self->worker,
				(unsigned long long)self->loops,
				(unsigned long long)(r->services + r->selections + r->rows));
			__atomic_store_n(&shared->failed, true, __ATOMIC_RELAXED);
			break;
		}
		self->loops++;
		weir_reader_quiescent(&reader);
		if (self->loops % 1000 == 0) {
			weir_reader_offline(&reader);
			sched_yield();
			weir_reader_online(&reader);
		}
	}
	weir_reader_offline(&reader);
	weir_reader_fini(&reader);
	return NULL;
}

struct copier {
	struct shared *shared;
	uint64_t copies, busy;
	pthread_t thread;
};

static void *copy_rows(void *arg) {
	struct copier *self = arg;

	while (!__atomic_load_n(&self->shared->stop, __ATOMIC_RELAXED)) {
		uint16_t backend = self->copies % 8 == 0 ? 1 : 0;
		struct weir_backend_row row;

		if (!weir_reader_row(self->shared->segment, backend, &row)) {
			self->busy++;
			continue;
		}
		self->copies++;
		if (!pattern_check_row(backend, &row)) {
			__atomic_store_n(&self->shared->failed, true, __ATOMIC_RELAXED);
			break;
		}
	}
	return NULL;
}

// --- the writer ---------------------------------------------------------------------------

struct work {
	struct shared *shared;
	struct weir_writer *writer;
	uint64_t seed;
	uint64_t selections, row_changes, services;
	uint64_t waits; // number of waits for memory
	uint32_t rows; // number of existing backends
};

// Publish a table. If there is no memory, wait until readers release some, and try again.
static bool publish(struct work *w, struct weir_root root, uint32_t rows) {
	for (;;) {
		void *blob = NULL;

		if (root.kind == WEIR_BLOB_SELECTION) {
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

static void publish_row(struct work *w, uint16_t backend) {
	struct weir_backend_row row = pattern_row(backend, (uint32_t)++w->row_changes);

	weir_writer_publish_row(w->writer, backend, &row);
}

// Change the number of backends. Before rows are removed, publish tables without these backends and
// wait for a grace period.
static bool resize(struct work *w, uint32_t rows) {
	const struct weir_backend_row none = {0};
	uint32_t before = w->rows;

	w->rows = rows;
	for (uint32_t backend = before; backend < rows; backend++) {
		publish_row(w, (uint16_t)backend);
	}
	if (!publish_selections(w, rows)) {
		return false;
	}
	if (rows >= before) {
		return true;
	}
	if (weir_writer_synchronize(w->writer, SYNCHRONIZE_MS) != 0) {
		return false;
	}
	for (uint32_t backend = rows; backend < before; backend++) {
		weir_writer_publish_row(w->writer, (uint16_t)backend, &none);
	}
	return true;
}

static bool turn(struct work *w) {
	uint64_t r = pattern_random(&w->seed);

	if (r % 16 == 0 && !resize(w, 1 + (uint32_t)(r >> 32) % ROWS_MAX)) {
		return false;
	}
	for (unsigned int i = 0; i < 16; i++) {
		publish_row(w, (uint16_t)(i % 2 == 0 ? 0 : pattern_random(&w->seed) % w->rows));
	}
	// Sometimes make more changes than the update log has entries.
	for (unsigned int i = 0; r % 1024 == 7 && i < 2 * WEIR_UPDATES; i++) {
		publish_row(w, (uint16_t)(i % w->rows));
	}
	if (r % 16 == 1) {
		nap(); // give readers time to load all tables, even on a busy machine
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
	struct copier copier = {.shared = shared};
	uint64_t loops = 0;
	bool ok = pthread_create(&copier.thread, NULL, copy_rows, &copier) == 0;

	for (uint32_t i = 0; i < READERS; i++) {
		readers[i].shared = shared;
		readers[i].worker = i;
		if (pthread_create(&readers[i].thread, NULL, read_tables, &readers[i]) != 0) {
			return false;
		}
	}
	while (ok && (w->selections < publications || w->row_changes < publications)) {
		ok = turn(w) && !__atomic_load_n(&shared->failed, __ATOMIC_RELAXED);
	}
	__atomic_store_n(&shared->stop, true, __ATOMIC_RELAXED);
	for (uint32_t i = 0; i < READERS; i++) {
		pthread_join(readers[i].thread, NULL);
		printf("worker %u: %llu loops, %llu times other tables, %llu rows adopted\n", i,
			(unsigned long long)readers[i].loops,
			(unsigned long long)readers[i].adopted,
			(unsigned long long)readers[i].adopted_rows);
		loops += readers[i].loops;
		ok = ok && readers[i].adopted > 50 && readers[i].adopted_rows > 100;
	}
	pthread_join(copier.thread, NULL);
	printf("published %llu selections, %llu rows, %llu service tables; waited %llu times for "
	       "memory; %llu loops; %llu copies of a row, %llu while it changed\n",
		(unsigned long long)w->selections, (unsigned long long)w->row_changes,
		(unsigned long long)w->services, (unsigned long long)w->waits,
		(unsigned long long)loops, (unsigned long long)copier.copies,
		(unsigned long long)copier.busy);
	return ok && copier.copies > 1000 && !shared->failed;
}

static uint64_t live_bytes(const struct weir_writer *writer) {
	uint64_t lines = ((const struct weir_blob *)weir_writer_current(
				  writer, (struct weir_root){.kind = WEIR_BLOB_SERVICES}))
				 ->lines;

	for (uint16_t service = 0; service < SERVICES; service++) {
		const struct weir_blob *blob = weir_writer_current(
			writer, (struct weir_root){WEIR_BLOB_SELECTION, service});

		lines += blob->lines;
	}
	return lines * 64;
}

// Readers and writer use the same writable mapping of each memory area, because ThreadSanitizer
// identifies memory by its address. (kill_control.c tests separate processes.)
static bool open_segment(struct weir_segment **ret_sides, struct weir_segment *ret) {
	struct weir_segment *dataplane = create(), *control = NULL;
	struct weir_writer *writer = NULL;
	bool ok;

	if (dataplane == NULL) {
		return false;
	}
	ok = weir_segment_attach_own(dataplane, &control) == 0 &&
	     weir_writer_open(control, &writer) == 0 &&
	     weir_writer_reserve(writer, SERVICES, ROWS_MAX) == 0 &&
	     weir_segment_follow(dataplane) == 0;
	weir_writer_free(writer);
	ret_sides[0] = dataplane;
	ret_sides[1] = control;
	if (!ok) {
		return false;
	}
	*ret = *dataplane;
	ret->tables = control->tables;
	ret->news = control->news;
	ret->notes = control->notes;
	ret->updates = control->updates;
	ret->roots = control->roots;
	ret->rows = control->rows;
	return true;
}

int main(int argc, char **argv) {
	uint64_t publications = argc > 1 ? strtoull(argv[1], NULL, 10) : PUBLICATIONS;
	struct weir_segment *sides[2] = {NULL, NULL}, segment;
	struct shared shared = {.segment = &segment};
	struct work work = {.shared = &shared, .seed = 1};
	struct weir_writer_usage usage;
	bool ok;

	if (!open_segment(sides, &segment) || weir_writer_open(&segment, &work.writer) < 0) {
		fprintf(stderr, "cannot set up\n");
		return 1;
	}
	ok = resize(&work, ROWS_MAX) && run(&shared, &work, publications);
	// No readers are left, so all memory except published tables must be freed.
	ok = ok && weir_writer_synchronize(work.writer, SYNCHRONIZE_MS) == 0;
	weir_writer_usage(work.writer, &usage);
	if (usage.used_bytes != live_bytes(work.writer)) {
		fprintf(stderr, "%llu bytes in use, %llu live\n",
			(unsigned long long)usage.used_bytes,
			(unsigned long long)live_bytes(work.writer));
		ok = false;
	}
	weir_writer_free(work.writer);
	weir_segment_free(sides[1]);
	weir_segment_free(sides[0]);
	printf("%s\n", ok ? "S2, S5: all tables and rows whole" : "FAILED");
	return ok ? 0 : 1;
}
