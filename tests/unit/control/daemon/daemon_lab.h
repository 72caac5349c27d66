// SPDX-License-Identifier: BSD-3-Clause
//
// The real weir-control against a real segment: a run directory of its own, a process that is
// started, asked over its socket, and killed; and a dataplane without packets, one thread that
// hands the segment over, reads the tables as workers do, reports quiescent states, answers
// mailboxes from real tables, and remembers flows.
//
// Polls with deadlines; asserts with cmocka.
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <sys/types.h>

#include "segment.h"
#include "test.h"

#define LAB_DEADLINE_MS 10000
#define LAB_FLOWS_MAX 4096

// Wait until a condition holds; fail the test after LAB_DEADLINE_MS.
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
	char dir[64]; // everything is in here
	char run_dir[80];
	char config[96];
	char log[96];
	pid_t control; // 0 = not running
};

uint64_t lab_now_ms(void);
void lab_pause(void); // a few milliseconds

// Group set-up: a network namespace of our own, with the backends' addresses 10.0.0.11 to 10.0.0.19
// on its loopback, so that no check leaves the machine. Needs root, or user namespaces.
int lab_own_network(void **state);

void lab_init(struct lab *lab); // makes the directories
void lab_fini(struct lab *lab); // kills what runs, removes them
void lab_write(const char *path, const char *format, ...) __attribute__((format(printf, 2, 3)));

// A whole configuration around the services' JSON: one port with a gateway_mac, so that next hops
// need no kernel.
void lab_write_config(const struct lab *lab, const char *services);
// The same with other settings of the dataplane's part.
void lab_write_config_with(const struct lab *lab, const char *port, const char *services);

// Start weir-control with these further arguments (NULL ends them); does not wait.
void lab_spawn(struct lab *lab, ...) __attribute__((sentinel));
// Start as the user of the test, wait until it listens.
void lab_start(struct lab *lab);
int lab_wait_exit(struct lab *lab); // its exit status, or 1000 + the signal
int lab_stop(struct lab *lab); // SIGTERM
void lab_kill(struct lab *lab); // SIGKILL
bool lab_log_has(const struct lab *lab, const char *text);

int lab_connect(const struct lab *lab); // blocking socket, with a timeout on reads
void lab_send(int fd, const void *data, size_t bytes);
json_t *lab_read_answer(int fd); // NULL: end of the connection
// Ask on a connection of its own. The answer; or the member `result` of one that must be ok.
json_t *lab_ask(const struct lab *lab, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
json_t *lab_result(const struct lab *lab, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
// The code of the error that this request gets.
const char *lab_code(const struct lab *lab, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

// One member of a backend as backend.show tells it (borrowed from *holder, which is released
// first).
json_t *lab_backend(
	const struct lab *lab, json_t **holder, const char *service, const char *backend);
bool lab_attached(const struct lab *lab);
// Memory of replaced tables that workers may still use, bytes.
json_int_t lab_retired_bytes(const struct lab *lab);

// --- a dataplane without packets ---

struct lab_dataplane;

struct lab_dataplane *lab_dataplane_start(const struct lab *lab, uint32_t workers);
struct lab_dataplane *lab_dataplane_start_big(const struct lab *lab, uint32_t workers);
struct lab_dataplane *lab_dataplane_start_small(const struct lab *lab, uint32_t workers); // 256 kB
// With flows in buckets; bucket i belongs to worker i % workers at first.
struct lab_dataplane *lab_dataplane_start_bucketed(const struct lab *lab, uint32_t workers);
void lab_dataplane_stop(struct lab_dataplane *dataplane); // as if it had died
struct weir_segment *lab_dataplane_segment(struct lab_dataplane *dataplane);
// Workers stop answering and reporting, as if they hung, until false.
void lab_dataplane_hang(struct lab_dataplane *dataplane, bool hang);
// Whether every worker has taken over all that is published, and looks through nothing.
bool lab_dataplane_caught_up(struct lab_dataplane *dataplane);

// --- buckets ---

// What workers do with requests for buckets that they need not refuse.
enum lab_steals {
	LAB_STEALS_CONFIRMED, // confirm, and the bucket moves in the next turn
	LAB_STEALS_REFUSED, // as busy
	LAB_STEALS_LATE, // confirm, and move, after LAB_STEALS_LATE_MS
	LAB_STEALS_SILENT, // nothing
	LAB_STEALS_SLOW, // get to them after LAB_STEALS_LATE_MS, as far as the deadline says
	LAB_STEALS_OTHER, // refuse, but a request that was never made
};
#define LAB_STEALS_LATE_MS 1500 // later than control waits

void lab_dataplane_steals(struct lab_dataplane *dataplane, enum lab_steals steals);
// Packets of this bucket take so much of a worker's time from now on.
void lab_dataplane_load(struct lab_dataplane *dataplane, uint32_t bucket, uint32_t thousandths);
// Requests for buckets so far.
uint32_t lab_dataplane_steal_requests(struct lab_dataplane *dataplane);
uint32_t lab_dataplane_steal_requests_to(struct lab_dataplane *dataplane, uint32_t worker);
// What the most loaded worker has to do, over the mean; 1 without load.
double lab_dataplane_unevenness(struct lab_dataplane *dataplane);

// New flows to a service's address, one per source port from 1: chosen and remembered.
void lab_dataplane_flows(
	struct lab_dataplane *dataplane, const char *vip, uint16_t port, uint32_t n);
// How many of them went to this backend.
uint32_t lab_dataplane_flows_of(struct lab_dataplane *dataplane, uint16_t backend);
// How many packets a second look at a service's address found no backend for, since the start.
uint64_t lab_dataplane_misses(struct lab_dataplane *dataplane);
// Look this address up in every turn from now on (misses count from now).
void lab_dataplane_probe(struct lab_dataplane *dataplane, const char *vip, uint16_t port);
