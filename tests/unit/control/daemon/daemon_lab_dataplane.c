// SPDX-License-Identifier: BSD-3-Clause
#include <arpa/inet.h>
#include <pthread.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "daemon_lab.h"
#include "daemon_lab_affinity.h"
#include "flow_state.h"
#include "handover.h"
#include "hash.h"
#include "mailbox.h"
#include "reader.h"
#include "selection.h"
#include "service_table.h"

struct flow {
	uint64_t hash;
	uint16_t backend;
};

// A request for a bucket that is not executed yet.
struct steal {
	struct weir_message message;
	uint64_t due_ns; // time of execution; 0 = none
};

struct worker {
	struct weir_reader reader;
	struct steal steal;
	uint8_t *row_flags; // [max_backends] flags of the loaded backend rows
};

struct lab_dataplane {
	struct weir_segment *segment;
	struct weir_handover_server *server;
	struct worker worker[WEIR_WORKERS_MAX];
	pthread_t thread;
	// protects the members below; the thread holds it during each iteration
	pthread_mutex_t lock;
	bool stop;
	bool hang;
	struct flow flow[LAB_FLOWS_MAX]; // flows of worker 0
	uint32_t flows;
	uint8_t probe_vip[16];
	uint16_t probe_port; // 0 = no lookup
	uint64_t probes, misses;
	uint32_t load[WEIR_BUCKETS]; // load in thousandths of a worker's time
	struct lab_affinity affinity;
	enum lab_steals steals;
	uint32_t requests[WEIR_WORKERS_MAX]; // number of requests for buckets of each worker
};

struct choice {
	uint16_t service;
	uint16_t backend;
	uint32_t slot;
};

static uint64_t now_ns(void) {
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

// Select the backend of a new flow as a worker does.
static struct choice choose(struct worker *worker, const uint8_t vip[16], uint8_t protocol,
	uint16_t port, uint64_t hash) {
	struct choice choice = {WEIR_SERVICE_NONE, WEIR_BACKEND_NONE, 0};
	const struct weir_services_view *services;
	const struct weir_selection_view *selection;

	weir_reader_update(&worker->reader);
	services = weir_reader_services(&worker->reader);
	if (services->buckets == NULL) {
		return choice;
	}
	choice.service = weir_bind_existing(weir_service_lookup(services, vip, 4, protocol, port));
	if (choice.service == WEIR_SERVICE_NONE) {
		return choice;
	}
	selection = weir_reader_selection(&worker->reader, choice.service);
	if (selection->table.slot_count > 0) {
		choice.slot = weir_selection_slot(hash, selection->table.slot_count);
	}
	choice.backend = weir_selection_choose(selection, hash);
	if (choice.backend != WEIR_BACKEND_NONE &&
		(worker->row_flags[choice.backend] & WEIR_BACKEND_PRESENT) == 0) {
		// guarantee S2: a selection contains only known backends
		choice.backend = WEIR_BACKEND_NONE;
	}
	return choice;
}

static uint64_t hash_of(const struct lab_dataplane *dataplane, const uint8_t *source,
	const uint8_t *destination, uint16_t source_port, uint16_t destination_port,
	uint8_t protocol) {
	uint32_t from, to;

	memcpy(&from, source, 4);
	memcpy(&to, destination, 4);
	return weir_hash_ipv4(from, to, htons(source_port), htons(destination_port), protocol,
		dataplane->segment->header->hash_seed);
}

// Returns whether a backend takes new flows, as a worker does.
static bool is_usable(const struct worker *worker, uint16_t backend) {
	return (worker->row_flags[backend] & (WEIR_BACKEND_PRESENT | WEIR_BACKEND_CLOSED)) ==
	       WEIR_BACKEND_PRESENT;
}

static void answer_source(
	struct lab_dataplane *dataplane, uint32_t worker, struct weir_message *message) {
	struct lab_affinity *affinity = &dataplane->affinity;
	struct worker *of = &dataplane->worker[worker];
	const int i = lab_affinity_find(affinity, message->source.service, message->source.address);

	lab_affinity_look_up(affinity, message, i >= 0 && is_usable(of, affinity->entry[i].backend),
		weir_selection_choose(weir_reader_selection(&of->reader, message->source.service),
			message->source.address[3]));
	message->source.slot = 7;
}

// Adds what the affinity table has about the client to the answer to a lookup of its flow.
static void look_up_entry(
	struct lab_dataplane *dataplane, uint32_t worker, struct weir_message *message) {
	const int i = lab_affinity_find(
		&dataplane->affinity, message->flow.service, message->flow.source);

	message->flow.entry = dataplane->affinity.entries == 0 ? WEIR_SOURCE_ENTRY_NO_TABLE
							       : WEIR_SOURCE_ENTRY_NONE;
	if (i >= 0) {
		const uint16_t backend = dataplane->affinity.entry[i].backend;
		const bool usable = is_usable(&dataplane->worker[worker], backend);

		message->flow.entry = usable ? WEIR_SOURCE_ENTRY_KNOWN : WEIR_SOURCE_ENTRY_STALE;
		message->flow.chosen = usable ? backend : message->flow.chosen;
	}
}

static void answer(struct lab_dataplane *dataplane, uint32_t worker, struct weir_message *message) {
	uint64_t hash = hash_of(dataplane, message->flow.source, message->flow.destination,
		message->flow.source_port, message->flow.destination_port, message->flow.protocol);
	struct choice choice = choose(&dataplane->worker[worker], message->flow.destination,
		message->flow.protocol, message->flow.destination_port, hash);

	message->flow.hash = hash;
	message->flow.service = choice.service;
	message->flow.chosen = choice.backend;
	message->flow.slot = choice.slot;
	look_up_entry(dataplane, worker, message);
	message->flow.found = 0;
	message->flow.backend = WEIR_BACKEND_NONE;
	for (uint32_t i = 0; worker == 0 && i < dataplane->flows; i++) {
		if (dataplane->flow[i].hash == hash) {
			message->flow.found = 1;
			message->flow.state = WEIR_FLOW_ESTABLISHED;
			message->flow.idle_ms = 7;
			message->flow.backend = dataplane->flow[i].backend;
		}
	}
}

static void probe(struct lab_dataplane *dataplane, struct worker *worker) {
	struct choice choice;

	if (dataplane->probe_port == 0) {
		return;
	}
	choice = choose(worker, dataplane->probe_vip, IPPROTO_TCP, dataplane->probe_port,
		weir_hash_mix(++dataplane->probes, 0x9e3779b97f4a7c15ull));
	dataplane->misses += choice.backend == WEIR_BACKEND_NONE;
}

// --- buckets ------------------------------------------------------------------------------

static enum weir_bucket_answer judge_steal(const struct lab_dataplane *dataplane, uint32_t worker,
	const struct weir_message *message) {
	const struct weir_segment *segment = dataplane->segment;

	if (segment->bucketing != WEIR_BUCKETING_YES) {
		return WEIR_BUCKET_NOT_BUCKETED;
	}
	if (!weir_segment_stealing(segment)) {
		return WEIR_BUCKET_OFF;
	}
	if (message->steal.bucket >= WEIR_BUCKETS || message->steal.thief >= segment->workers) {
		return WEIR_BUCKET_OUT_OF_RANGE;
	}
	if (message->steal.thief == worker) {
		return WEIR_BUCKET_SELF;
	}
	if (weir_segment_bucket_owner(segment, message->steal.bucket) != worker) {
		return WEIR_BUCKET_NOT_OWNER;
	}
	if (now_ns() + (dataplane->steals == LAB_STEALS_SLOW ? LAB_STEALS_LATE_MS * 1000000ull
							     : 0) >
		message->steal.deadline_ns) {
		return WEIR_BUCKET_LATE;
	}
	return dataplane->steals == LAB_STEALS_REFUSED || dataplane->steals == LAB_STEALS_OTHER ||
			       dataplane->worker[worker].steal.due_ns != 0
		       ? WEIR_BUCKET_BUSY
		       : WEIR_BUCKET_CONFIRMED;
}

// Returns whether to respond now.
static bool answer_steal(
	struct lab_dataplane *dataplane, uint32_t worker, struct weir_message *message) {
	struct steal *steal = &dataplane->worker[worker].steal;
	enum weir_bucket_answer answer = judge_steal(dataplane, worker, message);

	dataplane->requests[worker]++;
	if (dataplane->steals == LAB_STEALS_SILENT) {
		return false;
	}
	message->steal.answer = answer;
	message->sequence ^= (uint64_t)(dataplane->steals == LAB_STEALS_OTHER) << 63;
	weir_counter_add(&dataplane->segment->steal_counters[worker].answers[answer], 1);
	if (answer == WEIR_BUCKET_CONFIRMED) {
		steal->message = *message;
		steal->due_ns = now_ns() + (dataplane->steals == LAB_STEALS_LATE
							   ? LAB_STEALS_LATE_MS * 1000000ull
							   : 0);
	}
	return answer != WEIR_BUCKET_CONFIRMED || dataplane->steals != LAB_STEALS_LATE;
}

static void carry_out_steal(struct lab_dataplane *dataplane, uint32_t worker) {
	struct weir_segment *segment = dataplane->segment;
	struct steal *steal = &dataplane->worker[worker].steal;
	uint32_t thief = steal->message.steal.thief;

	if (steal->due_ns == 0 || now_ns() < steal->due_ns) {
		return;
	}
	if (dataplane->steals == LAB_STEALS_LATE) {
		weir_mailbox_send(&segment->worker_boxes[worker].response,
			&segment->control_boxes[worker].response, &steal->message);
	}
	steal->due_ns = 0;
	weir_segment_own_bucket(segment, steal->message.steal.bucket, thief);
	weir_counter_add(&segment->steal_counters[worker].buckets_given, 1);
	weir_counter_add(&segment->steal_counters[thief].buckets_taken, 1);
}

// Simulate one iteration of 1,000 cycles: count the packets of the worker's buckets, and the cycles
// for these packets.
static void receive_load(struct lab_dataplane *dataplane, uint32_t worker) {
	struct weir_segment *segment = dataplane->segment;
	uint64_t busy = 0;

	for (uint32_t i = 0; i < WEIR_BUCKETS; i++) {
		if (dataplane->load[i] > 0 && weir_segment_bucket_owner(segment, i) == worker) {
			weir_counter_add(
				&segment->bucket_packets[0].packets[i], dataplane->load[i]);
			busy += dataplane->load[i];
		}
	}
	busy = busy < 1000 ? busy : 1000;
	weir_counter_add(&segment->worker_counters[worker].busy_cycles, busy);
	weir_counter_add(&segment->worker_counters[worker].idle_cycles, 1000 - busy);
}

static void turn(struct lab_dataplane *dataplane, uint32_t worker) {
	struct weir_worker_counters *counters = &dataplane->segment->worker_counters[worker];
	struct weir_worker_box *box = &dataplane->segment->worker_boxes[worker];
	const struct weir_control_box *control = &dataplane->segment->control_boxes[worker];
	struct weir_message message;

	weir_reader_update(&dataplane->worker[worker].reader);
	probe(dataplane, &dataplane->worker[worker]);
	if (weir_mailbox_receive(&control->request, &box->request, &message)) {
		bool respond = true;

		if (message.kind == WEIR_MESSAGE_STEAL) {
			respond = answer_steal(dataplane, worker, &message);
		} else if (message.kind == WEIR_MESSAGE_SOURCE_WALK) {
			lab_affinity_walk(
				&dataplane->affinity, dataplane->segment, worker, &message);
		} else if (message.kind >= WEIR_MESSAGE_SOURCE_LOOKUP) {
			answer_source(dataplane, worker, &message);
		} else {
			answer(dataplane, worker, &message);
		}
		if (respond) {
			weir_mailbox_send(&box->response, &control->response, &message);
		}
	}
	carry_out_steal(dataplane, worker);
	weir_counter_add(&counters->loops, 1);
	if (dataplane->segment->bucketing == WEIR_BUCKETING_YES) {
		receive_load(dataplane, worker);
	} else {
		weir_counter_add(&counters->busy_cycles, 30);
		weir_counter_add(&counters->idle_cycles, 70);
	}
	__atomic_store_n(&counters->heartbeat_ns, now_ns(), __ATOMIC_RELAXED);
	weir_reader_quiescent(&dataplane->worker[worker].reader);
}

static void *run(void *context) {
	struct lab_dataplane *dataplane = context;
	struct weir_handover offer = {.statistics_fd = dataplane->segment->statistics_fd,
		.tables_fd = dataplane->segment->tables_fd};
	struct timespec pause = {.tv_nsec = 200000};
	bool stop = false;

	while (!stop) {
		pthread_mutex_lock(&dataplane->lock);
		weir_handover_serve(dataplane->server, &offer);
		weir_segment_follow(dataplane->segment);
		for (uint32_t worker = 0; !dataplane->hang && worker < dataplane->segment->workers;
			worker++) {
			turn(dataplane, worker);
		}
		stop = dataplane->stop;
		pthread_mutex_unlock(&dataplane->lock);
		nanosleep(&pause, NULL);
	}
	return NULL;
}

static bool adopt_row(void *context, uint16_t backend, const struct weir_backend_row *row) {
	struct worker *worker = context;

	worker->row_flags[backend] = row->flags;
	return true;
}

static void start_worker(struct lab_dataplane *dataplane, uint32_t i) {
	struct worker *worker = &dataplane->worker[i];

	worker->row_flags = calloc(dataplane->segment->max_backends, 1);
	assert_non_null(worker->row_flags);
	assert_int_equal(
		weir_reader_init(&worker->reader, dataplane->segment, i, adopt_row, worker), 0);
	weir_reader_online(&worker->reader);
}

static struct lab_dataplane *start(const struct lab *lab, uint32_t workers, uint32_t max_backends,
	uint64_t heap_bytes, enum weir_bucketing bucketing) {
	struct lab_dataplane *dataplane = calloc(1, sizeof(*dataplane));
	struct weir_port_info port = {.name = "wan", .mtu = 1500, .mac = {2, 0, 0, 0, 0, 2}};
	struct weir_segment_params params = {.workers = workers,
		.ports = 1,
		.max_services = max_backends / 16,
		.max_backends = max_backends,
		.heap_bytes = heap_bytes,
		.tsc_hz = 1000000000,
		.hash_seed = 42,
		.bucketing = bucketing,
		.port_info = &port};
	// Some tests run control as user nobody.
	const struct passwd *nobody = getpwnam("nobody");
	const struct weir_handover_params where = {.run_dir = lab->run_dir,
		.control_user = nobody != NULL ? nobody->pw_uid : (uid_t)-1,
		.group = (gid_t)-1};

	assert_non_null(dataplane);
	assert_int_equal(weir_segment_create(&params, &dataplane->segment), 0);
	assert_int_equal(weir_handover_listen(&where, &dataplane->server), 0);
	for (uint32_t bucket = 0; bucket < WEIR_BUCKETS; bucket++) {
		weir_segment_own_bucket(dataplane->segment, bucket, bucket % workers);
	}
	for (uint32_t worker = 0; worker < workers; worker++) {
		start_worker(dataplane, worker);
	}
	pthread_mutex_init(&dataplane->lock, NULL);
	assert_int_equal(pthread_create(&dataplane->thread, NULL, run, dataplane), 0);
	return dataplane;
}

struct lab_dataplane *lab_dataplane_start(const struct lab *lab, uint32_t workers) {
	return start(lab, workers, 1024, 64u << 20,
		workers > 1 ? WEIR_BUCKETING_DEVICE_RSS : WEIR_BUCKETING_ONE_WORKER);
}

struct lab_dataplane *lab_dataplane_start_big(const struct lab *lab, uint32_t workers) {
	return start(lab, workers, 16384, 4ull << 30, WEIR_BUCKETING_UNKNOWN);
}

struct lab_dataplane *lab_dataplane_start_small(const struct lab *lab, uint32_t workers) {
	return start(lab, workers, 1024, 256u << 10, WEIR_BUCKETING_UNKNOWN);
}

struct lab_dataplane *lab_dataplane_start_tight(const struct lab *lab, uint32_t workers) {
	return start(lab, workers, 1024, 1u << 20, WEIR_BUCKETING_UNKNOWN);
}

struct lab_dataplane *lab_dataplane_start_bucketed(const struct lab *lab, uint32_t workers) {
	return start(lab, workers, 1024, 64u << 20, WEIR_BUCKETING_YES);
}

void lab_dataplane_load(struct lab_dataplane *dataplane, uint32_t bucket, uint32_t thousandths) {
	pthread_mutex_lock(&dataplane->lock);
	dataplane->load[bucket] = thousandths;
	pthread_mutex_unlock(&dataplane->lock);
}

void lab_dataplane_steals(struct lab_dataplane *dataplane, enum lab_steals steals) {
	pthread_mutex_lock(&dataplane->lock);
	dataplane->steals = steals;
	pthread_mutex_unlock(&dataplane->lock);
}

uint32_t lab_dataplane_steal_requests_to(struct lab_dataplane *dataplane, uint32_t worker) {
	uint32_t requests;

	pthread_mutex_lock(&dataplane->lock);
	requests = dataplane->requests[worker];
	pthread_mutex_unlock(&dataplane->lock);
	return requests;
}

uint32_t lab_dataplane_steal_requests(struct lab_dataplane *dataplane) {
	uint32_t requests = 0;

	for (uint32_t w = 0; w < dataplane->segment->workers; w++) {
		requests += lab_dataplane_steal_requests_to(dataplane, w);
	}
	return requests;
}

double lab_dataplane_unevenness(struct lab_dataplane *dataplane) {
	uint32_t workers = dataplane->segment->workers, sum = 0, most = 0;
	uint32_t load[WEIR_WORKERS_MAX] = {0};

	pthread_mutex_lock(&dataplane->lock);
	for (uint32_t i = 0; i < WEIR_BUCKETS; i++) {
		load[weir_segment_bucket_owner(dataplane->segment, i)] += dataplane->load[i];
	}
	pthread_mutex_unlock(&dataplane->lock);
	for (uint32_t i = 0; i < workers; i++) {
		sum += load[i];
		most = load[i] > most ? load[i] : most;
	}
	return sum == 0 ? 1 : (double)most * workers / sum;
}

void lab_dataplane_affinity(struct lab_dataplane *dataplane, uint32_t entries) {
	pthread_mutex_lock(&dataplane->lock);
	assert_true(entries <= LAB_AFFINITY_ENTRIES);
	dataplane->affinity.entries = entries;
	dataplane->affinity.count = 0;
	pthread_mutex_unlock(&dataplane->lock);
}

void lab_dataplane_remember(struct lab_dataplane *dataplane, const char *client, uint16_t service,
	uint16_t backend, bool proven) {
	struct lab_affinity *affinity = &dataplane->affinity;

	pthread_mutex_lock(&dataplane->lock);
	assert_true(affinity->count < affinity->entries);
	assert_int_equal(inet_pton(AF_INET, client, affinity->entry[affinity->count].client), 1);
	affinity->entry[affinity->count].service = service;
	affinity->entry[affinity->count].backend = backend;
	affinity->entry[affinity->count++].proven = proven;
	pthread_mutex_unlock(&dataplane->lock);
}

void lab_dataplane_stop(struct lab_dataplane *dataplane) {
	pthread_mutex_lock(&dataplane->lock);
	dataplane->stop = true;
	pthread_mutex_unlock(&dataplane->lock);
	pthread_join(dataplane->thread, NULL);
	for (uint32_t worker = 0; worker < dataplane->segment->workers; worker++) {
		assert_int_equal(dataplane->worker[worker].reader.refusals.refused, 0);
		weir_reader_fini(&dataplane->worker[worker].reader);
		free(dataplane->worker[worker].row_flags);
	}
	weir_handover_server_free(dataplane->server);
	weir_segment_free(dataplane->segment);
	pthread_mutex_destroy(&dataplane->lock);
	free(dataplane);
}

struct weir_segment *lab_dataplane_segment(struct lab_dataplane *dataplane) {
	return dataplane->segment;
}

void lab_dataplane_hang(struct lab_dataplane *dataplane, bool hang) {
	pthread_mutex_lock(&dataplane->lock);
	dataplane->hang = hang;
	pthread_mutex_unlock(&dataplane->lock);
}

static bool has_caught_up(const struct weir_reader *reader) {
	uint64_t updates = __atomic_load_n(&reader->segment->news->updates, __ATOMIC_ACQUIRE);

	return reader->scan == WEIR_READER_NO_SCAN && !reader->services_due &&
	       reader->closings == 0 && reader->rows_seen == updates &&
	       reader->selections_seen == updates;
}

bool lab_dataplane_caught_up(struct lab_dataplane *dataplane) {
	bool have = true;

	pthread_mutex_lock(&dataplane->lock);
	for (uint32_t worker = 0; worker < dataplane->segment->workers; worker++) {
		have = have && has_caught_up(&dataplane->worker[worker].reader);
	}
	pthread_mutex_unlock(&dataplane->lock);
	return have;
}

static struct choice choose_flow(struct lab_dataplane *dataplane, const uint8_t destination[16],
	uint16_t port, uint32_t flow, uint64_t *ret_hash) {
	static const uint8_t source[16] = {192, 0, 2, 77};

	*ret_hash =
		hash_of(dataplane, source, destination, (uint16_t)(flow + 1), port, IPPROTO_TCP);
	return choose(&dataplane->worker[0], destination, IPPROTO_TCP, port, *ret_hash);
}

// Returns whether worker 0, which has the flows, has loaded backends for this destination. The API
// shows changes a moment before they are published.
static bool has_backends(
	struct lab_dataplane *dataplane, const uint8_t destination[16], uint16_t port) {
	uint64_t hash;
	bool has;

	pthread_mutex_lock(&dataplane->lock);
	has = choose_flow(dataplane, destination, port, 0, &hash).backend != WEIR_BACKEND_NONE;
	pthread_mutex_unlock(&dataplane->lock);
	return has;
}

void lab_dataplane_flows(
	struct lab_dataplane *dataplane, const char *vip, uint16_t port, uint32_t n) {
	uint8_t destination[16] = {0};

	assert_true(n <= LAB_FLOWS_MAX);
	assert_int_equal(inet_pton(AF_INET, vip, destination), 1);
	LAB_UNTIL(has_backends(dataplane, destination, port));
	pthread_mutex_lock(&dataplane->lock);
	for (uint32_t i = 0; i < n; i++) {
		struct weir_share_counters *counters;
		uint64_t hash;
		struct choice choice = choose_flow(dataplane, destination, port, i, &hash);

		dataplane->flow[i] = (struct flow){.hash = hash, .backend = choice.backend};
		if (choice.backend == WEIR_BACKEND_NONE) {
			continue;
		}
		counters = weir_segment_backend_counters(dataplane->segment, 0, choice.backend);
		weir_counter_add(&counters->new_flows, 1);
		weir_counter_add(&counters->active_flows, 1);
		counters = weir_segment_service_counters(dataplane->segment, 0, choice.service);
		weir_counter_add(&counters->new_flows, 1);
		weir_counter_add(&counters->active_flows, 1);
	}
	dataplane->flows = n;
	pthread_mutex_unlock(&dataplane->lock);
}

uint32_t lab_dataplane_flows_of(struct lab_dataplane *dataplane, uint16_t backend) {
	uint32_t count = 0;

	pthread_mutex_lock(&dataplane->lock);
	for (uint32_t i = 0; i < dataplane->flows; i++) {
		count += dataplane->flow[i].backend == backend;
	}
	pthread_mutex_unlock(&dataplane->lock);
	return count;
}

uint64_t lab_dataplane_misses(struct lab_dataplane *dataplane) {
	uint64_t misses;

	pthread_mutex_lock(&dataplane->lock);
	misses = dataplane->misses;
	pthread_mutex_unlock(&dataplane->lock);
	return misses;
}

void lab_dataplane_probe(struct lab_dataplane *dataplane, const char *vip, uint16_t port) {
	pthread_mutex_lock(&dataplane->lock);
	memset(dataplane->probe_vip, 0, sizeof(dataplane->probe_vip));
	assert_int_equal(inet_pton(AF_INET, vip, dataplane->probe_vip), 1);
	dataplane->probe_port = port;
	dataplane->misses = 0;
	pthread_mutex_unlock(&dataplane->lock);
}
