// SPDX-License-Identifier: BSD-3-Clause
//
// A lab with the real weir-control. It starts the process in a separate run directory, sends
// requests to its socket, and kills it. Instead of the real dataplane, one thread passes the
// segment to weir-control, reads the tables like workers, reports quiescent states, answers
// mailboxes from real tables, and stores flows. There are no packets.
//
// The functions wait with deadlines, and fail the test with the assertions of cmocka.
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <sys/types.h>

#include "segment.h"
#include "test.h"

#define LAB_DEADLINE_MS 30000
#define LAB_FLOWS_MAX 4096

// Wait until a condition is true; fail the test after LAB_DEADLINE_MS.
#define LAB_UNTIL(condition) \
	do { \
		uint64_t lab_deadline = lab_now_ms() + LAB_DEADLINE_MS; \
		while (!(condition)) { \
			if (lab_now_ms() > lab_deadline) { \
				fail_msg("%s:%d: still not true: %s", __FILE__, __LINE__, \
					#condition); \
			} \
			lab_pause(); \
		} \
	} while (0)

struct lab {
	char dir[64]; // the directory of all files
	char run_dir[80];
	char config[96];
	char log[96];
	pid_t control; // 0 = not running
};

uint64_t lab_now_ms(void);
void lab_pause(void); // waits a few milliseconds

// Group set-up: enters a separate network namespace, whose loopback has the backends' addresses
// 10.0.0.11 to 10.0.0.19, so that no check leaves the machine. Needs root, or user namespaces.
int lab_own_network(void **state);

void lab_init(struct lab *lab); // creates the directories
void lab_fini(struct lab *lab); // kills the processes, removes the files
void lab_write(const char *path, const char *format, ...) __attribute__((format(printf, 2, 3)));

// Write a complete configuration with this JSON of services. Its port has a gateway_mac, so next
// hops do not depend on the kernel.
void lab_write_config(const struct lab *lab, const char *services);
// Write a configuration as lab_write_config does, with these further settings of the port.
void lab_write_config_with(const struct lab *lab, const char *port, const char *services);

// Start weir-control with these additional arguments; the last one must be NULL. Does not wait.
void lab_spawn(struct lab *lab, ...) __attribute__((sentinel));
// Start weir-control as the user of the test, and wait until it listens.
void lab_start(struct lab *lab);
int lab_wait_exit(struct lab *lab); // returns the exit status, or 1000 + the signal
int lab_stop(struct lab *lab); // sends SIGTERM; returns the result of lab_wait_exit()
void lab_kill(struct lab *lab); // sends SIGKILL
bool lab_log_has(const struct lab *lab, const char *text);

int lab_connect(const struct lab *lab); // returns a blocking socket, with a timeout on reads
void lab_send(int fd, const void *data, size_t bytes);
json_t *lab_read_answer(int fd); // NULL = the connection was closed
// Send a request on a new connection. lab_ask returns the answer. lab_result returns the member
// `result` of the answer, which must be ok.
json_t *lab_ask(const struct lab *lab, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
json_t *lab_result(const struct lab *lab, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
// Returns the error code in the answer to this request, or "ok" if there is no error.
const char *lab_code(const struct lab *lab, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

// Returns the object of a backend in backend.show. It is borrowed from *holder, which the caller
// must release.
json_t *lab_backend(
	const struct lab *lab, json_t **holder, const char *service, const char *backend);
bool lab_attached(const struct lab *lab);
// Returns the bytes of replaced tables that workers may still use.
json_int_t lab_retired_bytes(const struct lab *lab);

// --- a dataplane without packets ---

struct lab_dataplane;

struct lab_dataplane *lab_dataplane_start(const struct lab *lab, uint32_t workers);
struct lab_dataplane *lab_dataplane_start_big(const struct lab *lab, uint32_t workers);
// with a segment of 256 kB
struct lab_dataplane *lab_dataplane_start_small(const struct lab *lab, uint32_t workers);
// with a segment of 1 MB, the minimum of segment.heap_bytes
struct lab_dataplane *lab_dataplane_start_tight(const struct lab *lab, uint32_t workers);
// A dataplane that has flows in buckets. At first bucket i belongs to worker i % workers.
struct lab_dataplane *lab_dataplane_start_bucketed(const struct lab *lab, uint32_t workers);
void lab_dataplane_stop(
	struct lab_dataplane *dataplane); // ends it without a clean-up, as after a crash
struct weir_segment *lab_dataplane_segment(struct lab_dataplane *dataplane);
// hang: if true, workers stop answering and reporting, as if stalled; if false, workers continue.
void lab_dataplane_hang(struct lab_dataplane *dataplane, bool hang);
// Returns whether every worker has loaded all publications, and does no full scan.
bool lab_dataplane_caught_up(struct lab_dataplane *dataplane);

// --- affinity ---

// Sets the number of entries of the affinity table, a multiple of 8; initially 0 = no table.
// Forgets all clients.
void lab_dataplane_affinity(struct lab_dataplane *dataplane, uint32_t entries);
// Remembers a backend of a service for an IPv4 client.
void lab_dataplane_remember(struct lab_dataplane *dataplane, const char *client, uint16_t service,
	uint16_t backend, bool proven);

// --- buckets ---

// What workers do with valid requests for buckets.
enum lab_steals {
	LAB_STEALS_CONFIRMED, // confirm, and move the bucket in the next iteration
	LAB_STEALS_REFUSED, // refuse as busy
	LAB_STEALS_LATE, // confirm, and move the bucket after LAB_STEALS_LATE_MS
	LAB_STEALS_SILENT, // do not respond
	LAB_STEALS_SLOW, // process requests after LAB_STEALS_LATE_MS, if the deadline permits
	LAB_STEALS_OTHER, // respond with the refusal of a request that was never made
};
#define LAB_STEALS_LATE_MS 1500 // longer than control waits

void lab_dataplane_steals(struct lab_dataplane *dataplane, enum lab_steals steals);
// From now on, packets of this bucket take this share of a worker's time, in thousandths.
void lab_dataplane_load(struct lab_dataplane *dataplane, uint32_t bucket, uint32_t thousandths);
// Returns the number of requests for buckets so far.
uint32_t lab_dataplane_steal_requests(struct lab_dataplane *dataplane);
uint32_t lab_dataplane_steal_requests_to(struct lab_dataplane *dataplane, uint32_t worker);
// Load of the most loaded worker, divided by the mean; 1 without load.
double lab_dataplane_unevenness(struct lab_dataplane *dataplane);

// Starts n new flows to a service's address, from the source ports 1 to n. Selects their
// backends, and stores the flows.
void lab_dataplane_flows(
	struct lab_dataplane *dataplane, const char *vip, uint16_t port, uint32_t n);
// Returns how many flows of lab_dataplane_flows are at this backend.
uint32_t lab_dataplane_flows_of(struct lab_dataplane *dataplane, uint16_t backend);
// Returns how many lookups found no backend, since the start or the last call to
// lab_dataplane_probe.
uint64_t lab_dataplane_misses(struct lab_dataplane *dataplane);
// Look up this address in every iteration from now on; misses are counted from now.
void lab_dataplane_probe(struct lab_dataplane *dataplane, const char *vip, uint16_t port);
