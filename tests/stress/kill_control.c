// SPDX-License-Identifier: BSD-3-Clause
//
// Stress test of guarantee S3 (control can be killed at any instruction) for the segment.
//
// 1. A child opens the writer and publishes endlessly, until it is killed at a random moment. This
//    is repeated, while reader processes check every word of every table. After each kill, a new
//    writer must open without errors, all tables must be complete, and no memory may be lost.
// 2. A child publishes in single steps. Its memory is shared, so after each instruction the parent
//    sees the state that a kill at this instruction would leave. After every store outside of the
//    heap, all tables and rows must be complete, and a writer that opens a copy of the memory must
//    find no error and be able to publish.
//
// usage: kill_control [KILLS]. Exit 0: all checks passed.
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "pattern.h"

#define READERS 2
#define SERVICES PATTERN_PORTS
#define ROWS_MAX 40u
#define STEPPED_ROWS 3u
#define BACKENDS 20u
#define HEAP_BYTES (256u << 10)
#define STEP_HEAP_BYTES (64u << 10)
#define KILLS 250u
#define PUBLICATIONS_MOST 256u // of a process, before it is killed
#define STEPPED_CHANGES 100u
#define COPY_EVERY 97u // instructions between two copies of the memory
#define SYNCHRONIZE_MS 20000
#define START_MS 20000

static struct weir_segment *create(uint64_t heap_bytes) {
	static const struct weir_port_info port = {.name = "wan"};
	const struct weir_segment_params params = {
		.workers = READERS,
		.ports = 1,
		.max_services = SERVICES,
		.max_backends = ROWS_MAX,
		.heap_bytes = heap_bytes,
		.port_info = &port,
	};
	struct weir_segment *segment = NULL;

	if (weir_segment_create(&params, &segment) != 0) {
		return NULL;
	}
	return segment;
}

static uint64_t now_ms(void) {
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

// --- the control process ------------------------------------------------------------------

static bool publish_one(struct weir_writer *writer, uint64_t *seed) {
	uint64_t r = pattern_random(seed);
	struct weir_root root = {.kind = WEIR_BLOB_SELECTION, .service = (uint16_t)(r % SERVICES)};
	struct weir_backend_row row;
	void *blob = NULL;

	switch (r >> 8 & 7) {
	case 0:
		row = pattern_row((uint16_t)((r >> 32) % ROWS_MAX), (uint32_t)(r >> 16) | 1);
		weir_writer_publish_row(writer, row.service, &row);
		return true;
	case 1:
		root.kind = WEIR_BLOB_SERVICES;
		blob = pattern_services(writer, (uint32_t)(r >> 32) % PATTERN_PORTS);
		break;
	case 2:
		break; // remove a selection
	default:
		blob = pattern_selection(writer, root.service, 1 + (uint32_t)(r >> 32) % BACKENDS,
			11 + (uint32_t)(r >> 40) % 100, ROWS_MAX);
		break;
	}
	if (blob == NULL && (r >> 8 & 7) != 2) {
		sched_yield(); // no memory is free yet, because readers still use retired tables
		return true;
	}
	return weir_writer_publish(writer, root, blob) == 0;
}

// Open the memory left by the previous control process, and publish until killed.
static void control(const struct weir_segment *own, uint64_t seed) {
	struct weir_segment *segment = NULL;
	struct weir_writer *writer = NULL;

	if (weir_segment_attach_own(own, &segment) != 0 ||
		weir_writer_open(segment, &writer) != 0 ||
		weir_writer_reserve(writer, SERVICES, ROWS_MAX) != 0) {
		fprintf(stderr, "control: cannot open\n");
		_exit(1);
	}
	while (publish_one(writer, &seed)) {
		if (seed % 3 == 0) {
			weir_writer_reclaim(writer);
		}
	}
	_exit(1);
}

// --- the workers --------------------------------------------------------------------------

struct checked {
	struct weir_reader reader;
	bool torn; // whether a row was torn
	uint64_t rows;
};

static bool adopt_row(void *context, uint16_t backend, const struct weir_backend_row *row) {
	struct checked *checked = context;

	checked->torn = checked->torn || !pattern_check_row(backend, row);
	checked->rows++;
	return true;
}

// One burst: load published tables, sometimes sleep while using them, check every word.
static bool check_all(struct checked *checked, bool sleepy) {
	const struct timespec pause = {.tv_nsec = 2000000};
	struct weir_reader *reader = &checked->reader;
	const struct weir_refusals *refusals = &reader->refusals;

	weir_reader_update(reader);
	if (sleepy) {
		nanosleep(&pause, NULL);
	}
	for (uint16_t service = 0; service < SERVICES; service++) {
		if (!pattern_check_selection(weir_reader_selection(reader, service), ROWS_MAX)) {
			return false;
		}
	}
	return pattern_check_services(weir_reader_services(reader)) && !checked->torn &&
	       refusals->services + refusals->selections + refusals->rows == 0;
}

static void work(struct weir_segment *segment, uint32_t worker) {
	struct checked checked = {.torn = false};

	if (weir_reader_init(&checked.reader, segment, worker, adopt_row, &checked) < 0) {
		_exit(1);
	}
	weir_reader_online(&checked.reader);
	// This process runs until a signal kills it. It counts its loops in memory that it shares
	// with the parent.
	for (uint64_t loop = 0;; loop++) {
		if (!check_all(&checked, loop % 8 == 0)) {
			fprintf(stderr, "worker %u: incomplete or refused table\n", worker);
			_exit(1);
		}
		weir_counter_add(&segment->worker_counters[worker].loops, 1);
		weir_reader_quiescent(&checked.reader);
		sched_yield();
	}
}

// --- after a kill -------------------------------------------------------------------------

static uint64_t live_bytes(const struct weir_writer *writer, uint32_t *ret_blobs) {
	uint64_t lines = 0;
	uint32_t blobs = 0;

	for (unsigned int i = 0; i < 1 + SERVICES; i++) {
		struct weir_root root = {.kind = i < 1 ? WEIR_BLOB_SERVICES : WEIR_BLOB_SELECTION,
			.service = (uint16_t)(i < 1 ? 0 : i - 1)};
		const struct weir_blob *blob = weir_writer_current(writer, root);

		lines += blob != NULL ? blob->lines : 0;
		blobs += blob != NULL;
	}
	*ret_blobs = blobs;
	return lines * 64;
}

// Publish a row and a table, and check that readers get them, whatever the previous process was
// doing when it was killed.
static bool publish_on(struct weir_writer *writer, struct weir_segment *segment) {
	struct weir_backend_row row = pattern_row(0, 0x7fffffff), copy;
	struct weir_selection *selection = pattern_selection(writer, 0, 2, 7, ROWS_MAX);
	struct weir_reader reader;
	bool ok;

	if (selection == NULL || weir_writer_reserve(writer, SERVICES, ROWS_MAX) != 0 ||
		weir_reader_init(&reader, segment, 0, NULL, NULL) < 0) {
		return false;
	}
	weir_writer_publish_row(writer, 0, &row);
	ok = weir_writer_publish(
		     writer, (struct weir_root){.kind = WEIR_BLOB_SELECTION}, selection) == 0 &&
	     weir_reader_row(segment, 0, &copy) && memcmp(&row, &copy, sizeof(row)) == 0;
	weir_reader_settle(&reader);
	ok = ok && reader.selection[0].generation == selection->blob.generation &&
	     pattern_check_selection(&reader.selection[0], ROWS_MAX);
	weir_reader_fini(&reader);
	if (!ok) {
		fprintf(stderr, "cannot publish after the crash\n");
	}
	return ok;
}

// Open the segment as a new control process does. Check that all tables are complete, no root was
// dropped, and no memory is lost. segment: the dataplane's mapping. busy: worker 0 is using the
// segment.
static bool check_open(struct weir_segment *segment, struct weir_segment *control, bool busy) {
	struct weir_writer *writer = NULL;
	struct checked checked = {.torn = false};
	struct weir_writer_usage usage;
	uint32_t blobs;
	uint64_t live;
	bool ok;

	if (weir_reader_init(&checked.reader, control, 0, adopt_row, &checked) < 0 ||
		weir_writer_open(control, &writer) != 0) {
		fprintf(stderr, "cannot open\n");
		return false;
	}
	control->counted_backends = ROWS_MAX; // here the reader uses the mapping of control
	weir_reader_settle(&checked.reader);
	ok = check_all(&checked, false);
	if (weir_writer_synchronize(writer, SYNCHRONIZE_MS) != 0) {
		fprintf(stderr, "workers do not report\n");
		ok = false;
	}
	weir_writer_usage(writer, &usage);
	live = live_bytes(writer, &blobs);
	if (usage.dropped_roots != 0 || usage.used_bytes != live || usage.blobs != blobs ||
		usage.retired_bytes != 0) {
		fprintf(stderr, "%u roots dropped; %llu bytes in use, %llu live\n",
			usage.dropped_roots, (unsigned long long)usage.used_bytes,
			(unsigned long long)live);
		ok = false;
	}
	ok = ok && (busy || publish_on(writer, segment));
	weir_reader_fini(&checked.reader);
	weir_writer_free(writer);
	return ok;
}

// --- 1: random moments --------------------------------------------------------------------

// Let a child publish for a while, and kill it. Adds the number of its publications to
// *publications.
static bool kill_once(struct weir_segment *segment, uint64_t *seed, uint64_t *publications) {
	uint64_t before = weir_counter_read(&segment->notes->publications);
	uint64_t end = now_ms() + START_MS;
	uint64_t enough = before + 1 + pattern_random(seed) % PUBLICATIONS_MOST;
	const struct timespec pause = {.tv_nsec = (long)(pattern_random(seed) % 3000000)};
	uint64_t child_seed = pattern_random(seed);
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		control(segment, child_seed);
	}
	if (pid < 0) {
		return false;
	}
	// Kill some processes while they open the segment, but most while they publish.
	if (pattern_random(seed) % 8 == 0) {
		nanosleep(&pause, NULL);
	} else {
		while (weir_counter_read(&segment->notes->publications) < enough &&
			now_ms() < end) {
			sched_yield();
		}
	}
	kill(pid, SIGKILL);
	if (waitpid(pid, &status, 0) != pid || !WIFSIGNALED(status)) {
		fprintf(stderr, "control exited without a signal: %x\n", (unsigned int)status);
		return false;
	}
	*publications += weir_counter_read(&segment->notes->publications) - before;
	return true;
}

// Allocate memory for all backends, before workers are forked.
static bool prepare(struct weir_segment *segment, struct weir_segment **ret_control) {
	struct weir_writer *writer = NULL;
	bool ok = weir_segment_attach_own(segment, ret_control) == 0 &&
		  weir_writer_open(*ret_control, &writer) == 0 &&
		  weir_writer_reserve(writer, SERVICES, ROWS_MAX) == 0 &&
		  weir_segment_follow(segment) == 0;

	weir_writer_free(writer);
	return ok;
}

static bool kill_at_random_moments(uint64_t kills) {
	struct weir_segment *segment = create(HEAP_BYTES), *control_side = NULL;
	pid_t workers[READERS];
	uint64_t seed = 1, publications = 0, loops = 0;
	bool ok = segment != NULL && prepare(segment, &control_side);

	if (!ok) {
		return false;
	}
	for (uint32_t i = 0; i < READERS; i++) {
		workers[i] = fork();
		if (workers[i] == 0) {
			work(segment, i);
		}
	}
	for (uint64_t i = 0; ok && i < kills; i++) {
		// After every second kill, the next control process opens the memory as the killed
		// process left it. After the other kills, check_open opens the memory before the
		// next control process, and waits for a grace period.
		ok = kill_once(segment, &seed, &publications) &&
		     (i % 2 == 0 || check_open(segment, control_side, true));
		for (uint32_t w = 0; w < READERS; w++) {
			ok = ok && waitpid(workers[w], NULL, WNOHANG) == 0;
		}
	}
	for (uint32_t i = 0; i < READERS; i++) {
		kill(workers[i], SIGKILL);
		waitpid(workers[i], NULL, 0);
		loops += weir_counter_read(&segment->worker_counters[i].loops);
	}
	printf("%llu kills, %llu publications between them, %llu loops of the workers\n",
		(unsigned long long)kills, (unsigned long long)publications,
		(unsigned long long)loops);
	weir_segment_free(control_side);
	weir_segment_free(segment);
	return ok && publications > kills && loops > kills / 2;
}

// --- 2: every instruction -----------------------------------------------------------------

static int copy_memory(const uint8_t *memory, uint64_t bytes) {
	int fd = memfd_create("copy", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0 || ftruncate(fd, (off_t)bytes) < 0 ||
		pwrite(fd, memory, bytes, 0) != (ssize_t)bytes ||
		fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0) {
		return -1;
	}
	return fd;
}

// Copy the current memory to a separate segment, and check the copy.
static bool check_copy(const struct weir_segment *segment, int statistics_fd) {
	int tables_fd = copy_memory(segment->tables, segment->tables_bytes);
	struct weir_segment *control = NULL;
	char why[300];
	bool ok = tables_fd >= 0 && weir_segment_attach(dup(statistics_fd), tables_fd, &control,
					    why, sizeof(why)) == 0;

	// Readers of the copy use control's mapping, because no dataplane has mapped the copy.
	ok = ok && check_open(control, control, false);
	weir_segment_free(control);
	return ok;
}

static void publish_rows(struct weir_writer *writer, uint32_t n) {
	for (uint16_t backend = 0; backend < STEPPED_ROWS; backend++) {
		struct weir_backend_row row = pattern_row(backend, n + backend);

		weir_writer_publish_row(writer, backend, &row);
	}
}

// Publish one small table of each kind. The second call replaces the tables of the first call.
static bool publish_each_kind(struct weir_writer *writer, uint16_t turn) {
	const struct weir_root services = {.kind = WEIR_BLOB_SERVICES};
	struct weir_root selection = {.kind = WEIR_BLOB_SELECTION};
	int r = 0;

	publish_rows(writer, 100u * turn + 1);
	r |= weir_writer_publish(
		writer, selection, pattern_selection(writer, 0, 2, 5u + turn, ROWS_MAX));
	weir_writer_reclaim(writer);
	selection.service = 1;
	r |= weir_writer_publish(writer, selection, pattern_selection(writer, 1, 1, 3, ROWS_MAX));
	r |= weir_writer_publish(writer, services, pattern_services(writer, turn));
	weir_writer_reclaim(writer);
	r |= weir_writer_publish(writer, selection, NULL);
	weir_writer_reclaim(writer);
	publish_rows(writer, 100u * turn + 50);
	return r == 0;
}

// Stop this process, publish tables of every kind, and stop again. The parent single-steps the
// publications.
static void stepped_control(const struct weir_segment *own) {
	struct weir_segment *segment = NULL;
	struct weir_writer *writer = NULL;

	if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0 ||
		weir_segment_attach_own(own, &segment) != 0 ||
		weir_writer_open(segment, &writer) != 0) {
		_exit(1);
	}
	raise(SIGSTOP);
	if (!publish_each_kind(writer, 0) || !publish_each_kind(writer, 1)) {
		_exit(1);
	}
	raise(SIGSTOP);
	_exit(0);
}

// Returns whether any memory outside the heap and the identities has changed. Changes of these
// two are not counted, because their contents are written before they are referenced.
static bool tables_changed(const struct weir_segment *segment, uint8_t *before) {
	const struct {
		const void *start;
		size_t bytes;
	} parts[] = {
		{segment->news, sizeof(*segment->news) + sizeof(*segment->notes) +
					sizeof(*segment->updates)},
		{segment->roots, sizeof(*segment->roots) + SERVICES * sizeof(weir_ref)},
		{segment->rows, STEPPED_ROWS * sizeof(segment->rows[0])},
	};
	bool changed = false;

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		changed = changed || memcmp(before, parts[i].start, parts[i].bytes) != 0;
		memcpy(before, parts[i].start, parts[i].bytes);
		before += parts[i].bytes;
	}
	return changed;
}

// Single-step a stopped child until it stops itself again. Counts instructions and copies.
static bool step_through(const struct weir_segment *segment, pid_t pid) {
	static uint8_t before[64u << 10];
	struct checked checked = {.torn = false};
	uint64_t instructions = 0, copies = 0, changes = 0;
	int statistics_fd = copy_memory(segment->statistics, segment->statistics_bytes);
	int status = 0;
	bool ok = statistics_fd >= 0 &&
		  weir_reader_init(&checked.reader, segment, 0, adopt_row, &checked) == 0;

	while (ok) {
		if (ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL) < 0 ||
			waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status)) {
			fprintf(stderr, "cannot step: %s, status %x\n", strerror(errno),
				(unsigned int)status);
			ok = false;
			break;
		}
		if (WSTOPSIG(status) == SIGSTOP) {
			break;
		}
		instructions++;
		bool changed = tables_changed(segment, before);

		changes += changed;
		if (changed || instructions % COPY_EVERY == 0) {
			copies++;
			ok = check_all(&checked, false) && check_copy(segment, statistics_fd);
		}
	}
	printf("%llu instructions, %llu changes of tables, %llu copies opened, %llu rows\n",
		(unsigned long long)instructions, (unsigned long long)changes,
		(unsigned long long)copies, (unsigned long long)checked.rows);
	weir_reader_fini(&checked.reader);
	close(statistics_fd);
	return ok && changes >= STEPPED_CHANGES && instructions > 1000 && checked.rows > 0;
}

static bool kill_at_every_instruction(void) {
	struct weir_segment *segment = create(STEP_HEAP_BYTES), *control_side = NULL;
	int status = 0;
	pid_t pid;
	bool ok;

	if (segment == NULL || !prepare(segment, &control_side)) {
		return false;
	}
	pid = fork();
	if (pid == 0) {
		stepped_control(segment);
	}
	ok = pid > 0 && waitpid(pid, &status, 0) == pid && WIFSTOPPED(status);
	if (!ok) {
		fprintf(stderr, "cannot trace a child: status %x\n", (unsigned int)status);
	}
	ok = ok && step_through(segment, pid);
	if (pid > 0) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	ok = ok && check_open(segment, control_side, false);
	weir_segment_free(control_side);
	weir_segment_free(segment);
	return ok;
}

int main(int argc, char **argv) {
	uint64_t kills = argc > 1 ? strtoull(argv[1], NULL, 10) : KILLS;
	bool ok = kill_at_every_instruction() && kill_at_random_moments(kills);

	printf("%s\n", ok ? "S3: every table and row is complete, no memory lost" : "FAILED");
	return ok ? 0 : 1;
}
