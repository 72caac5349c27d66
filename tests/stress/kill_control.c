// SPDX-License-Identifier: BSD-3-Clause
//
// Stress of S3 (control may die at any instruction), at the level of the segment.
//
// 1. A child opens the writer and publishes without end; it is killed at a random moment, again
//    and again, while reader processes check every word of every table. After each kill a new
//    writer must open cleanly, find all tables whole and no memory lost.
// 2. A child is stepped instruction by instruction through publications. Memory is shared, so after
//    each instruction it holds what a kill at that instruction would leave: all tables must be
//    whole, and a writer that opens a copy of the memory must find nothing amiss.
//
// usage: kill_control [KILLS]. Exit 0: all whole.
#include <errno.h>
#include <fcntl.h>
#include <rte_rcu_qsbr.h>
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
#define BACKENDS 20u
#define HEAP_BYTES (256u << 10)
#define STEP_HEAP_BYTES (64u << 10)
#define KILLS 250u
#define STEPPED_PUBLICATIONS 10u
#define COPY_EVERY 97u // instructions
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

	return weir_segment_create(&params, &segment) == 0 ? segment : NULL;
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
	void *blob = NULL;

	switch (r >> 8 & 7) {
	case 0:
		root.kind = WEIR_BLOB_BACKENDS;
		blob = pattern_backends(writer, 1 + (uint32_t)(r >> 32) % ROWS_MAX);
		break;
	case 1:
		root.kind = WEIR_BLOB_SERVICES;
		blob = pattern_services(writer, (uint32_t)(r >> 32) % PATTERN_PORTS);
		break;
	case 2:
		break; // withdraw a selection
	default:
		blob = pattern_selection(writer, root.service, 1 + (uint32_t)(r >> 32) % BACKENDS,
			11 + (uint32_t)(r >> 40) % 100, ROWS_MAX);
		break;
	}
	if (blob == NULL && (r >> 8 & 7) != 2) {
		sched_yield(); // no memory: readers still hold it
		return true;
	}
	return weir_writer_publish(writer, root, blob) == 0;
}

// Open what the former one left, and go on until killed.
static void control(int fd, uint64_t seed) {
	struct weir_segment *segment = NULL;
	struct weir_writer *writer = NULL;
	char why[300] = "";

	if (weir_segment_attach(dup(fd), &segment, why, sizeof(why)) != 0 ||
		weir_writer_open(segment, &writer) != 0) {
		fprintf(stderr, "control: %s\n", why);
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

// One burst: adopt all tables, maybe sleep with them in hand, check every word.
static bool check_all(struct weir_reader *reader, bool sleepy) {
	const struct timespec pause = {.tv_nsec = 2000000};
	const struct weir_services_view *services = weir_reader_services(reader);
	const struct weir_backends_view *backends;

	for (uint16_t service = 0; service < SERVICES; service++) {
		weir_reader_selection(reader, service);
	}
	backends = weir_reader_backends(reader);
	if (sleepy) {
		nanosleep(&pause, NULL);
	}
	for (uint16_t service = 0; service < SERVICES; service++) {
		if (!pattern_check_selection(&reader->selection[service], ROWS_MAX)) {
			return false;
		}
	}
	return pattern_check_services(services) &&
	       pattern_check_backends(backends, reader->backends_ref) && reader->refused == 0;
}

static void work(struct weir_segment *segment, uint32_t worker) {
	struct weir_reader reader;

	if (weir_reader_init(&reader, segment, worker) < 0) {
		_exit(1);
	}
	rte_rcu_qsbr_thread_online(segment->qsbr, worker);
	// Ended by a signal; the loops are counted where the parent sees them.
	for (uint64_t loop = 0;; loop++) {
		if (!check_all(&reader, loop % 8 == 0)) {
			fprintf(stderr, "worker %u: refused %llu\n", worker,
				(unsigned long long)reader.refused);
			_exit(1);
		}
		weir_counter_add(&segment->worker_counters[worker].loops, 1);
		rte_rcu_qsbr_quiescent(segment->qsbr, worker);
		sched_yield();
	}
}

// --- after a kill -------------------------------------------------------------------------

static uint64_t live_bytes(const struct weir_writer *writer, uint32_t *ret_blobs) {
	const enum weir_blob_kind kinds[] = {
		WEIR_BLOB_IDENTITY, WEIR_BLOB_BACKENDS, WEIR_BLOB_SERVICES};
	uint64_t bytes = 0;
	uint32_t blobs = 0;

	for (unsigned int i = 0; i < 3 + SERVICES; i++) {
		struct weir_root root = {.kind = i < 3 ? kinds[i] : WEIR_BLOB_SELECTION,
			.service = (uint16_t)(i < 3 ? 0 : i - 3)};
		const struct weir_blob *blob = weir_writer_current(writer, root);

		bytes += blob != NULL ? blob->bytes : 0;
		blobs += blob != NULL;
	}
	*ret_blobs = blobs;
	return bytes;
}

// Open as a new control process would: everything whole, nothing dropped, nothing lost.
static bool check_open(struct weir_segment *segment) {
	struct weir_writer *writer = NULL;
	struct weir_writer_usage usage;
	struct weir_reader reader;
	uint32_t blobs;
	uint64_t live;
	bool ok;

	if (weir_reader_init(&reader, segment, 0) < 0 || weir_writer_open(segment, &writer) != 0) {
		fprintf(stderr, "cannot open\n");
		return false;
	}
	ok = check_all(&reader, false);
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
	weir_reader_fini(&reader);
	weir_writer_free(writer);
	return ok;
}

// --- 1: random moments --------------------------------------------------------------------

// Let a child publish for a while and kill it. Adds how much it published.
static bool kill_once(struct weir_segment *segment, uint64_t *seed, uint64_t *publications) {
	uint64_t before = weir_counter_read(&segment->roots->publications);
	uint64_t end = now_ms() + START_MS;
	const struct timespec pause = {.tv_nsec = (long)(pattern_random(seed) % 3000000)};
	uint64_t child_seed = pattern_random(seed);
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		control(segment->fd, child_seed);
	}
	if (pid < 0) {
		return false;
	}
	// Some die while they still open, most while they publish.
	while (pattern_random(seed) % 8 != 0 &&
		weir_counter_read(&segment->roots->publications) == before && now_ms() < end) {
		sched_yield();
	}
	nanosleep(&pause, NULL);
	kill(pid, SIGKILL);
	if (waitpid(pid, &status, 0) != pid || !WIFSIGNALED(status)) {
		fprintf(stderr, "control ended by itself: %x\n", (unsigned int)status);
		return false;
	}
	*publications += weir_counter_read(&segment->roots->publications) - before;
	return true;
}

static bool kill_at_random_moments(uint64_t kills) {
	struct weir_segment *segment = create(HEAP_BYTES);
	pid_t workers[READERS];
	uint64_t seed = 1, publications = 0, loops = 0;
	bool ok = segment != NULL;

	for (uint32_t i = 0; i < READERS; i++) {
		workers[i] = fork();
		if (workers[i] == 0) {
			work(segment, i);
		}
	}
	for (uint64_t i = 0; ok && i < kills; i++) {
		// Each second time the next control process meets what the killed one left; we
		// would wait for a grace period first.
		ok = kill_once(segment, &seed, &publications) &&
		     (i % 2 == 0 || check_open(segment));
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
	weir_segment_free(segment);
	return ok && publications > kills && loops > kills / 2;
}

// --- 2: every instruction -----------------------------------------------------------------

// The memory as it is now, in a segment of its own.
static struct weir_segment *copy(const struct weir_segment *segment) {
	int fd = memfd_create("copy", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct weir_segment *other = NULL;
	char why[300];

	if (fd < 0 || ftruncate(fd, (off_t)segment->bytes) < 0 ||
		pwrite(fd, segment->base, segment->bytes, 0) != (ssize_t)segment->bytes ||
		fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0 ||
		weir_segment_attach(fd, &other, why, sizeof(why)) != 0) {
		return NULL;
	}
	return other;
}

static bool check_copy(const struct weir_segment *segment) {
	struct weir_segment *other = copy(segment);
	bool ok = other != NULL && check_open(other);

	weir_segment_free(other);
	return ok;
}

// One publication of each kind, of small tables; the second turn replaces the first one's.
static bool publish_each_kind(struct weir_writer *writer, uint16_t turn) {
	const struct weir_root backends = {.kind = WEIR_BLOB_BACKENDS};
	const struct weir_root services = {.kind = WEIR_BLOB_SERVICES};
	struct weir_root selection = {.kind = WEIR_BLOB_SELECTION};
	int r;

	r = weir_writer_publish(writer, backends, pattern_backends(writer, 2u + turn));
	r |= weir_writer_publish(
		writer, selection, pattern_selection(writer, 0, 2, 5u + turn, ROWS_MAX));
	weir_writer_reclaim(writer);
	selection.service = 1;
	r |= weir_writer_publish(writer, selection, pattern_selection(writer, 1, 1, 3, ROWS_MAX));
	r |= weir_writer_publish(writer, services, pattern_services(writer, turn));
	weir_writer_reclaim(writer);
	r |= weir_writer_publish(writer, selection, NULL);
	weir_writer_reclaim(writer);
	return r == 0;
}

// Publications of every kind between two stops, for the parent to step through.
static void stepped_control(int fd) {
	struct weir_segment *segment = NULL;
	struct weir_writer *writer = NULL;
	char why[300];

	if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0 ||
		weir_segment_attach(dup(fd), &segment, why, sizeof(why)) != 0 ||
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

static bool roots_changed(const struct weir_segment *segment, uint64_t *before) {
	uint64_t sum = 0;

	for (size_t i = 0; i < sizeof(*segment->roots) / 8 + SERVICES; i++) {
		sum = pattern_word(sum, ((const uint64_t *)(const void *)segment->roots)[i]);
	}
	if (sum == *before) {
		return false;
	}
	*before = sum;
	return true;
}

// Step a stopped child until it stops itself again. Counts instructions and copies.
static bool step_through(struct weir_segment *segment, pid_t pid) {
	struct weir_reader reader;
	uint64_t instructions = 0, copies = 0, changes = 0, sum = 0;
	int status = 0;
	bool ok = weir_reader_init(&reader, segment, 0) == 0;

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
		bool changed = roots_changed(segment, &sum);

		changes += changed;
		if (changed || instructions % COPY_EVERY == 0) {
			copies++;
			ok = check_all(&reader, false) && check_copy(segment);
		}
	}
	printf("%llu instructions, %llu changes of the roots, %llu copies opened\n",
		(unsigned long long)instructions, (unsigned long long)changes,
		(unsigned long long)copies);
	weir_reader_fini(&reader);
	return ok && changes >= STEPPED_PUBLICATIONS && instructions > 1000;
}

static bool kill_at_every_instruction(void) {
	struct weir_segment *segment = create(STEP_HEAP_BYTES);
	int status = 0;
	pid_t pid;
	bool ok;

	if (segment == NULL) {
		return false;
	}
	pid = fork();
	if (pid == 0) {
		stepped_control(segment->fd);
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
	ok = ok && check_open(segment);
	weir_segment_free(segment);
	return ok;
}

int main(int argc, char **argv) {
	uint64_t kills = argc > 1 ? strtoull(argv[1], NULL, 10) : KILLS;
	bool ok = kill_at_every_instruction() && kill_at_random_moments(kills);

	printf("%s\n", ok ? "S3: every table whole, no memory lost" : "FAILED");
	return ok ? 0 : 1;
}
