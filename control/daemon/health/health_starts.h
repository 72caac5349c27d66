// SPDX-License-Identifier: BSD-3-Clause
//
// Limits the number of probes in flight. Further probes wait in a queue. Most probes of failing
// backends run until their timeout. Therefore these probes have a separate queue, and may use only
// an eighth of the limit, or half of the limit while no other probe waits.
//
// Threads: only the event loop's thread.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

enum weir_health_start_state {
	WEIR_HEALTH_START_NONE,
	WEIR_HEALTH_START_QUEUED, // too many probes are in flight
	WEIR_HEALTH_START_RUNNING,
};

struct weir_health_start { // start of a probe; zeroed = no start requested
	STAILQ_ENTRY(weir_health_start) link;
	enum weir_health_start_state state;
	bool is_failing; // the backend is failing
	unsigned int descriptors; // number of descriptors that the probe uses
	unsigned int cost; // while RUNNING: how much of the limit the probe uses
	// The caller of weir_health_starts_add sets these: loop time of the request, interval of
	// the check, id of its service.
	uint64_t due_ms;
	uint32_t interval_ms;
	uint16_t service;
};

STAILQ_HEAD(weir_health_queue, weir_health_start);

struct weir_health_starts {
	void (*run)(struct weir_health_start *start);
	struct weir_health_queue queue, failing_queue;
	// Sum of the costs of the running probes; `running` includes `running_failing`.
	unsigned int running, running_failing;
	unsigned int max; // limit of `running`
	unsigned int descriptors_max;
};

// max: maximum number of probes in flight. run: starts the probe; may call
// weir_health_starts_remove.
void weir_health_starts_init(struct weir_health_starts *starts, unsigned int max,
	void (*run)(struct weir_health_start *start));
// Sets the limit of file descriptors for all probes together: about half of the process's current
// limit, but at least 8, and at most the number that `max` probes need.
void weir_health_starts_limit(struct weir_health_starts *starts);
// Queues a probe, and runs the queued probes that the limit permits. If the limit does not permit
// this probe yet, a later call of weir_health_starts_add or weir_health_starts_run runs it.
void weir_health_starts_add(struct weir_health_starts *starts, struct weir_health_start *start,
	bool is_failing, unsigned int descriptors);
// Call when a probe has ended, or must no longer be started. Does not start another probe.
void weir_health_starts_remove(struct weir_health_starts *starts, struct weir_health_start *start);
// Run the queued probes that the limit permits.
void weir_health_starts_run(struct weir_health_starts *starts);
// Returns the queued probe that weir_health_starts_run would start next, or NULL.
struct weir_health_start *weir_health_starts_next(struct weir_health_starts *starts);

// Returns the number of queued probes that have waited for longer than the interval of their check.
// service: id of the service to count; negative = all services. *ret_ms: the longest of these
// times. now_ms: loop time.
uint32_t weir_health_starts_late(
	const struct weir_health_starts *starts, int service, uint64_t now_ms, uint64_t *ret_ms);
