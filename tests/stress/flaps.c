// SPDX-License-Identifier: BSD-3-Clause
//
// Flaps: the health of random backends of many services changes between healthy and refusing, at a
// given rate or as fast as control can publish. Workers apply the changes and choose backends for
// new flows. Prints the cost of one change, from the call to the last store, and the cost of a step
// of building. Checks:
//   - The memory of published tables does not grow: at the end, the heap is no larger than after
//     the first second.
//   - A worker does not choose a backend if the row that it has loaded is closed. (The selection
//     without this backend is built later, in steps.)
//   - At the end, the selection has exactly the open backends.
//
// With KILLS (guarantee S3), control is a separate process. It is killed KILLS times, at random
// moments: between publishing a row and its selection, or while it builds a table. Then a new
// control process continues.
//
// usage: flaps [BACKENDS [SERVICES [SECONDS [CHANGES_PER_SECOND [POLICY [WORKERS [KILLS]]]]]]]
//
// Exit 0: the memory is constant, and all workers have applied all changes.
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "blob.h"
#include "grace.h"
#include "reader.h"
#include "tables.h"

#define SECOND_NS UINT64_C(1000000000)
#define WORKERS_MAX 8u
#define SAMPLES_MAX 2000000u
#define HEAP_BYTES (4ull << 30)

struct options {
	uint32_t backends, services, seconds, rate, workers, kills;
	const char *policy;
};

struct worker {
	struct weir_segment *segment;
	uint32_t index, services, backends;
	bool stop;
	uint64_t turns, rows, flows, wrong;
	struct weir_backend_row *row; // [backends] headers of the loaded rows
	struct weir_policy_worker policy;
	struct weir_policy_client *clients; // [services] clients of the policies
	uint64_t *generation; // [services] generation of the selection that the client has loaded
	pthread_t thread;
};

static uint64_t now_ns(void) {
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * SECOND_NS + (uint64_t)now.tv_nsec;
}

// CPU time of this thread. Unlike wall time, it is not affected by other threads on a busy machine.
static uint64_t cpu_ns(void) {
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * SECOND_NS + (uint64_t)now.tv_nsec;
}

static uint64_t next_random(uint64_t *state) {
	*state = *state * 6364136223846793005ull + 1442695040888963407ull;
	return *state >> 33;
}

// --- workers ------------------------------------------------------------------------------

static bool adopt_row(void *context, uint16_t backend, const struct weir_backend_row *row) {
	struct worker *self = context;
	struct weir_policy_client *client;

	if (row->service >= self->services) {
		return false;
	}
	self->rows++;
	self->row[backend] = *row;
	client = &self->clients[row->service];
	if ((row->flags & WEIR_BACKEND_CLOSED) != 0) {
		weir_policy_close(&self->policy, client, backend);
	} else {
		weir_policy_set_limit(&self->policy, client, backend, UINT32_MAX);
	}
	return true;
}

// Choose a backend for a new flow of a random service.
static void choose(struct worker *self, const struct weir_reader *reader, uint64_t *random) {
	uint16_t service = (uint16_t)(next_random(random) % self->services);
	const struct weir_selection_view *view = weir_reader_selection(reader, service);
	struct weir_policy_client *client = &self->clients[service];
	struct weir_chosen chosen;

	if (view->table.count == 0) {
		return;
	}
	if (self->generation[service] != view->generation) {
		weir_policy_adopt(&self->policy, client, &view->table, self->turns);
		self->generation[service] = view->generation;
	}
	chosen = weir_policy_choose(&self->policy, client, &view->table,
		next_random(random) << 31 | next_random(random), self->turns);
	self->flows++;
	if (chosen.how == WEIR_CHOSEN_NONE ||
		(self->row[chosen.id].flags & WEIR_BACKEND_CLOSED) != 0 ||
		self->row[chosen.id].service != service) {
		self->wrong++;
	}
}

static bool prepare_worker(struct worker *self, const struct options *options) {
	self->services = options->services;
	self->backends = options->backends;
	self->row = calloc(options->backends, sizeof(self->row[0]));
	self->clients = aligned_alloc(64, options->services * sizeof(self->clients[0]));
	self->generation = calloc(options->services, sizeof(self->generation[0]));
	self->policy = (struct weir_policy_worker){
		.backends = aligned_alloc(64, options->backends * sizeof(self->policy.backends[0])),
		.cost_ns = self->segment->costs,
		.backend_count = options->backends,
		.rank = self->index,
		.ranks = options->workers};
	if (self->row == NULL || self->clients == NULL || self->generation == NULL ||
		self->policy.backends == NULL || weir_policy_windows_alloc(&self->policy) < 0) {
		return false;
	}
	memset(self->clients, 0, options->services * sizeof(self->clients[0]));
	memset(self->policy.backends, 0, options->backends * sizeof(self->policy.backends[0]));
	return true;
}

static void free_worker(struct worker *self) {
	free(self->row);
	free(self->clients);
	free(self->generation);
	free(self->policy.windows.key);
	free(self->policy.backends);
}

static void *work(void *context) {
	const struct timespec pause = {.tv_nsec = 1000};
	struct worker *self = context;
	uint64_t random = self->index + 1;
	struct weir_reader reader;

	if (weir_reader_init(&reader, self->segment, self->index, adopt_row, self) < 0) {
		return NULL;
	}
	weir_reader_online(&reader);
	while (!__atomic_load_n(&self->stop, __ATOMIC_RELAXED)) {
		weir_reader_update(&reader);
		choose(self, &reader, &random);
		weir_reader_quiescent(&reader);
		self->turns++;
		if (self->index > 0) {
			// only one worker polls, and the others sleep, because a small machine has
			// few CPUs
			nanosleep(&pause, NULL);
		}
	}
	weir_reader_offline(&reader);
	weir_reader_fini(&reader);
	return NULL;
}

// --- configuration ------------------------------------------------------------------------

static struct weir_config *configure(const struct options *options) {
	size_t room = 4096 + options->services * 256ull + options->backends * 96ull, at;
	struct weir_config_errors errors;
	struct weir_config *config = NULL;
	char *text = malloc(room);

	if (text == NULL) {
		return NULL;
	}
	at = (size_t)sprintf(text,
		"{\"instance\":{\"name\":\"lb\"},\"ports\":[{\"name\":\"wan\","
		"\"device\":\"net_null0\",\"gateway_mac\":\"02:00:00:00:00:01\",\"source_ipv4\":"
		"\"10.255.0.1\"}],\"segment\":{\"max_services\":%u,\"max_backends\":%u},"
		"\"services\":[",
		options->services, options->backends);
	for (uint32_t s = 0; s < options->services; s++) {
		uint32_t first = (uint32_t)((uint64_t)options->backends * s / options->services);
		uint32_t end =
			(uint32_t)((uint64_t)options->backends * (s + 1) / options->services);

		at += (size_t)sprintf(text + at,
			"%s{\"name\":\"s%u\",\"binds\":[{\"address\":\"198.18.%u.%u\",\"protocol\":"
			"\"tcp\",\"port\":80}],\"policy\":{\"name\":\"%s\"},\"health_check\":"
			"{\"type\":\"tcp\",\"port\":80},\"backends\":[",
			s > 0 ? "," : "", s, s >> 8, s & 255, options->policy);
		for (uint32_t b = first; b < end; b++) {
			at += (size_t)sprintf(text + at,
				"%s{\"name\":\"b%u\",\"address\":\"10.%u.%u.%u\"}",
				b > first ? "," : "", b, b >> 16, b >> 8 & 255, b & 255);
		}
		at += (size_t)sprintf(text + at, "]}");
	}
	at += (size_t)sprintf(text + at, "]}");
	if (weir_config_parse(text, at, &config, &errors) < 0) {
		char line[512];

		fprintf(stderr, "%s\n",
			errors.count > 0 ? weir_config_error_format(
						   "flaps", &errors.error[0], line, sizeof(line))
					 : "cannot make the configuration");
	}
	weir_config_errors_fini(&errors);
	free(text);
	return config;
}

// --- flaps --------------------------------------------------------------------------------

struct result {
	uint32_t *us10; // cost of each change, tenths of a microsecond
	uint64_t changes, failed;
	uint64_t flap_ns, build_ns, steps;
	uint64_t step_cpu_ns, step_most_ns; // CPU time of steps: total, and maximum
	uint64_t used_first, used_most, used_last, backed_first, backed_last;
};

// Backends that are refusing, one in a hundred at any time. With many more, panic mode would use
// all backends, and changes would not be published.
struct refusing {
	uint16_t *id; // ring of ids
	uint32_t room, first, count;
};

static void flap(struct weir_tables *tables, const struct options *options,
	struct refusing *refusing, uint64_t *random, struct result *result) {
	enum weir_health_state health = WEIR_HEALTH_REFUSING;
	uint64_t start, took;
	uint16_t id;

	if (refusing->count == refusing->room) {
		id = refusing->id[refusing->first];
		refusing->first = (refusing->first + 1) % refusing->room;
		refusing->count--;
		health = WEIR_HEALTH_HEALTHY;
	} else {
		id = (uint16_t)(next_random(random) % options->backends);
		refusing->id[(refusing->first + refusing->count++) % refusing->room] = id;
	}
	start = now_ns();
	weir_tables_set_health(tables, id, health);
	result->failed += weir_tables_publish(tables) < 0;
	took = now_ns() - start;
	result->flap_ns += took;
	took /= 100;
	if (result->changes < SAMPLES_MAX) {
		result->us10[result->changes] = took < UINT32_MAX ? (uint32_t)took : UINT32_MAX;
	}
	result->changes++;
}

// One step of building the selections.
static void build(struct weir_tables *tables, struct result *result) {
	uint64_t start = now_ns(), start_cpu = cpu_ns(), took;
	int r = weir_tables_build(tables);

	took = cpu_ns() - start_cpu;
	result->build_ns += now_ns() - start;
	result->step_cpu_ns += took;
	result->step_most_ns = took > result->step_most_ns ? took : result->step_most_ns;
	result->steps++;
	result->failed += r < 0;
}

static void run(struct weir_tables *tables, const struct options *options, struct result *result) {
	uint64_t begin = now_ns(), end = begin + options->seconds * SECOND_NS, random = 1;
	uint64_t sampled = begin, due = begin;
	struct refusing refusing = {.room = options->backends / 100 + 1};

	refusing.id = calloc(refusing.room, sizeof(refusing.id[0]));
	for (uint32_t id = 0; id < options->backends; id++) {
		weir_tables_set_health(tables, (uint16_t)id, WEIR_HEALTH_HEALTHY);
	}
	weir_tables_publish(tables);
	while (refusing.id != NULL && now_ns() < end) {
		struct weir_writer_usage usage;
		uint64_t now = now_ns();

		// Build for at most half of the time, as control does.
		if (weir_tables_is_stale(tables) &&
			(options->rate > 0 || result->build_ns < result->flap_ns) &&
			2 * result->build_ns < now - begin) {
			build(tables, result);
		}
		if (options->rate > 0 && now < due) {
			const struct timespec pause = {.tv_nsec = 20000};

			nanosleep(&pause, NULL);
			continue;
		}
		due += options->rate > 0 ? SECOND_NS / options->rate : 0;
		flap(tables, options, &refusing, &random, result);
		if (now - sampled < SECOND_NS) {
			continue;
		}
		sampled = now;
		weir_writer_usage(weir_tables_writer(tables), &usage);
		if (result->used_first == 0) {
			result->used_first = usage.used_bytes;
			result->backed_first = usage.backed_bytes;
		}
		result->used_most =
			usage.used_bytes > result->used_most ? usage.used_bytes : result->used_most;
		result->backed_last = usage.backed_bytes;
		if ((now - begin) / SECOND_NS % 60 == 0) {
			printf("%4" PRIu64 " s: %" PRIu64
			       " changes, %.1f MB in use, %.1f MB taken\n",
				(now - begin) / SECOND_NS, result->changes,
				(double)usage.used_bytes / 1e6, (double)usage.backed_bytes / 1e6);
			fflush(stdout);
		}
	}
	free(refusing.id);
	for (int r = 1; r > 0;) {
		r = weir_tables_build(tables);
	}
}

static int compare(const void *left, const void *right) {
	uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;

	return (a > b) - (a < b);
}

static bool report(const struct options *options, struct result *result) {
	uint64_t n = result->changes < SAMPLES_MAX ? result->changes : SAMPLES_MAX;
	// If a worker gets no CPU time, retired blobs cannot be freed. They are limited to 16
	// MiB (writer.c), and their memory stays allocated. Therefore allocated memory may grow
	// by about this amount. The size of the blobs in use must not grow.
	bool flat = result->backed_last <=
			    result->backed_first + result->backed_first / 4 + (24u << 20) &&
		    result->used_last <= result->used_first + result->used_first / 4 + (1u << 20);

	if (n == 0) {
		return false;
	}
	qsort(result->us10, n, sizeof(result->us10[0]), compare);
	printf("%u backends, %u services, %s: %" PRIu64 " changes in %u s (%" PRIu64
	       " not published at once)\n",
		options->backends, options->services, options->policy, result->changes,
		options->seconds, result->failed);
	printf("a change: median %.1f us, 99th percentile %.1f us, longest %.1f us\n",
		result->us10[n / 2] / 10.0, result->us10[n * 99 / 100] / 10.0,
		result->us10[n - 1] / 10.0);
	printf("building: %" PRIu64
	       " steps, %.1f us of CPU each, longest %.1f us; %.1f %% of the time\n",
		result->steps,
		(double)result->step_cpu_ns / 1e3 / (double)(result->steps > 0 ? result->steps : 1),
		(double)result->step_most_ns / 1e3,
		(double)result->build_ns / 1e7 / options->seconds);
	printf("memory: %.1f MB in use after a second, at most %.1f MB; taken %.1f MB, at the end "
	       "%.1f "
	       "MB: %s\n",
		(double)result->used_first / 1e6, (double)result->used_most / 1e6,
		(double)result->backed_first / 1e6, (double)result->backed_last / 1e6,
		flat ? "flat" : "NOT FLAT");
	return flat;
}

static void *follow(void *context) { // the dataplane's main thread
	const struct timespec pause = {.tv_nsec = 10000000};
	struct worker *self = context;

	while (!__atomic_load_n(&self->stop, __ATOMIC_RELAXED)) {
		weir_segment_follow(self->segment);
		nanosleep(&pause, NULL);
	}
	return NULL;
}

static int create_segment(const struct options *options, struct weir_segment **ret) {
	static const struct weir_port_info port = {.name = "wan", .mtu = 1500};
	const struct weir_segment_params params = {.workers = options->workers,
		.ports = 1,
		.max_services = options->services,
		.max_backends = options->backends,
		.heap_bytes = HEAP_BYTES,
		.port_info = &port};

	return weir_segment_create(&params, ret);
}

// --- kills --------------------------------------------------------------------------------

#define KILL_SOONEST_NS 1000000u // minimum time from the publication of the configuration to a kill
#define KILL_LATEST_NS 60000000u // building a table takes about this long

static int open_tables(const struct weir_segment *segment, const struct weir_config *config,
	struct weir_segment **ret_control, struct weir_tables **ret) {
	char why[256] = "";
	int r = weir_segment_attach_own(segment, ret_control);

	if (r == 0) {
		r = weir_tables_open(*ret_control, ret);
	}
	if (r == 0) {
		r = weir_tables_apply(*ret, config, why, sizeof(why));
	}
	if (r < 0) {
		fprintf(stderr, "cannot publish: %s %s\n", strerror(-r), why);
	}
	return r;
}

// Runs a control process, which is killed before it ends. It writes to `begun` when it has
// published the configuration.
static void control_process(const struct weir_segment *segment, const struct weir_config *config,
	const struct options *options, int begun) {
	struct options endless = *options;
	struct weir_segment *control = NULL;
	struct weir_tables *tables = NULL;
	struct result result = {.us10 = calloc(SAMPLES_MAX, sizeof(uint32_t))};

	endless.seconds = 3600;
	if (result.us10 != NULL && open_tables(segment, config, &control, &tables) == 0 &&
		write(begun, "", 1) == 1) {
		run(tables, &endless, &result);
	}
	_exit(1);
}

static bool kill_once(const struct weir_segment *segment, const struct weir_config *config,
	const struct options *options, uint64_t *random) {
	const struct timespec pause = {
		.tv_nsec = (long)(KILL_SOONEST_NS + next_random(random) % KILL_LATEST_NS)};
	int begun[2], status = 0;
	bool ok;
	char byte;
	pid_t pid;

	if (pipe(begun) < 0) {
		return false;
	}
	pid = fork();
	if (pid == 0) {
		control_process(segment, config, options, begun[1]);
	}
	close(begun[1]);
	ok = pid > 0 && read(begun[0], &byte, 1) == 1;
	close(begun[0]);
	nanosleep(&pause, NULL);
	if (!ok || kill(pid, SIGKILL) < 0 || waitpid(pid, &status, 0) != pid ||
		!WIFSIGNALED(status)) {
		fprintf(stderr, "control has ended by itself: %x\n", (unsigned int)status);
		return false;
	}
	return true;
}

// Returns whether the selection of any service contains a backend whose row is closed.
static bool names_closed(const struct weir_segment *segment, const struct options *options) {
	for (uint32_t service = 0; service < options->services; service++) {
		struct weir_blob_extent extent;
		struct weir_selection_view view;

		if (!weir_blob_selection(segment, (uint16_t)service,
			    segment->roots->selection[service], 0, &extent, &view)) {
			continue;
		}
		for (uint32_t i = 0; i < view.table.count; i++) {
			struct weir_backend_row row;

			if (weir_reader_row(segment, view.table.candidates[i].id, &row) &&
				(row.flags & WEIR_BACKEND_CLOSED) != 0) {
				return true;
			}
		}
	}
	return false;
}

static bool kill_often(const struct weir_segment *segment, const struct weir_config *config,
	const struct options *options) {
	uint64_t random = 7, behind = 0;
	bool ok = true;

	for (uint32_t i = 0; ok && i < options->kills; i++) {
		ok = kill_once(segment, config, options, &random);
		behind += ok && names_closed(segment, options);
	}
	printf("%u kills, %" PRIu64 " of them between a row and its selection; %" PRIu64
	       " publications\n",
		options->kills, behind, weir_counter_read(&segment->notes->publications));
	return ok && (behind > 0 || options->kills < 10);
}

static uint32_t argument(int argc, char **argv, int at, uint32_t fallback) {
	return argc > at ? (uint32_t)strtoul(argv[at], NULL, 10) : fallback;
}

static bool start_workers(
	struct worker *worker, struct weir_segment *segment, const struct options *options) {
	for (uint32_t i = 0; i <= options->workers; i++) {
		worker[i].segment = segment;
		worker[i].index = i;
		if ((i < options->workers && !prepare_worker(&worker[i], options)) ||
			pthread_create(&worker[i].thread, NULL,
				i < options->workers ? work : follow, &worker[i]) != 0) {
			return false;
		}
	}
	return true;
}

// Returns whether the workers have loaded all rows, and chosen no closed backend.
static bool stop_workers(struct worker *worker, const struct options *options) {
	bool ok = true;

	for (uint32_t i = 0; i <= options->workers; i++) {
		__atomic_store_n(&worker[i].stop, true, __ATOMIC_RELAXED);
		pthread_join(worker[i].thread, NULL);
		if (i == options->workers) {
			break;
		}
		printf("worker %u: %" PRIu64 " rows adopted, %" PRIu64 " flows, %" PRIu64
		       " of them to a backend that is closed or none\n",
			i, worker[i].rows, worker[i].flows, worker[i].wrong);
		ok = ok && worker[i].rows >= options->backends && worker[i].wrong == 0;
		free_worker(&worker[i]);
	}
	return ok;
}

int main(int argc, char **argv) {
	const struct options options = {.backends = argument(argc, argv, 1, 10000),
		.services = argument(argc, argv, 2, 1000),
		.seconds = argument(argc, argv, 3, 5),
		.rate = argument(argc, argv, 4, 0),
		.policy = argc > 5 ? argv[5] : "round-robin",
		.workers = argument(argc, argv, 6, 2),
		.kills = argument(argc, argv, 7, 0)};
	struct worker worker[WORKERS_MAX + 1] = {{0}};
	struct weir_segment *segment = NULL, *control = NULL;
	struct weir_tables *tables = NULL;
	struct weir_writer_usage usage;
	struct weir_config *config;
	struct result result = {.us10 = calloc(SAMPLES_MAX, sizeof(uint32_t))};
	bool ok;

	if (options.workers < 1 || options.workers > WORKERS_MAX || options.services < 1 ||
		options.backends < options.services || result.us10 == NULL) {
		fprintf(stderr, "usage: flaps [BACKENDS [SERVICES [SECONDS [RATE [POLICY "
				"[WORKERS [KILLS]]]]]]]\n");
		return 2;
	}
	config = configure(&options);
	if (config == NULL || create_segment(&options, &segment) < 0 ||
		!start_workers(worker, segment, &options)) {
		return 1;
	}
	ok = options.kills == 0 || kill_often(segment, config, &options);
	if (open_tables(segment, config, &control, &tables) < 0) {
		return 1;
	}
	run(tables, &options, &result);
	if (weir_writer_synchronize(weir_tables_writer(tables), 20000) != 0) {
		fprintf(stderr, "a worker does not follow\n");
		ok = false;
	}
	weir_writer_usage(weir_tables_writer(tables), &usage);
	result.used_last = usage.used_bytes;
	ok = stop_workers(worker, &options) && ok;
	if (weir_tables_is_stale(tables) || usage.dropped_roots > 0) {
		fprintf(stderr, "a selection was not built, or was incomplete\n");
		ok = false;
	}
	ok = report(&options, &result) && ok;
	weir_tables_free(tables);
	weir_segment_free(control);
	weir_segment_free(segment);
	weir_config_free(config);
	free(result.us10);
	return ok ? 0 : 1;
}
