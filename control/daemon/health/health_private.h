// SPDX-License-Identifier: BSD-3-Clause
//
// The checks: health.c says which there are, health_schedule.c runs them.
#pragma once

#include <sys/queue.h>

#include "health.h"
#include "health_agent_check.h"
#include "health_http.h"
#include "health_relay.h"
#include "health_tcp.h"

// Parameters that checks have in common: those of a service are kept once.
struct weir_health_params {
	uint32_t users;
	struct weir_config_health_check check;
};

enum weir_health_phase {
	WEIR_HEALTH_CHECK_SLEEPING, // its timer runs
	WEIR_HEALTH_CHECK_QUEUED, // due, but too many are in flight
	WEIR_HEALTH_CHECK_RUNNING,
};

struct weir_health_check {
	struct weir_health *health;
	uv_timer_t timer; // next start
	STAILQ_ENTRY(weir_health_check) queue;
	uint16_t backend;
	uint16_t port;
	bool beside; // the agent-check beside the backend's check: its results decide nothing
	struct weir_address address;
	struct weir_address vip; // data path: to connect to; family 0 = straight to the address
	struct weir_address source; // of the outer header; family 0 = not known yet
	uint8_t source_bits;
	struct weir_health_params *params;
	enum weir_health_phase phase;
	bool refused; // while QUEUED or RUNNING: in the share of failing backends
	unsigned int cost; // while RUNNING, of WEIR_HEALTH_CONCURRENT
	enum weir_health_verdict verdict;
	bool far;
	uint32_t idle_intervals; // between two checks of a backend that is told to be idle; 0 = not
	uint64_t generation; // of the configure call that named it last
	uint64_t due_ms; // loop time of the current or next start, on the grid of the interval
	uint64_t planned_ms; // the same with jitter
	uint32_t late_ms; // from planned_ms to the last start
	bool spread; // has its own place in the interval
	uint64_t started_ns; // start of the running probe
	uint64_t ended_ns; // end of the last probe, 0 = none ended
	bool passed;
	bool without_result; // the last probe: this host could not ask
	char detail[WEIR_HEALTH_DETAIL_BYTES];
	uint32_t duration_ms;
	uint32_t streak;
	uint64_t passes, fails;
	uint8_t word; // enum weir_health_word: what it said last in an answer
	struct weir_agent_check said; // what its agent-check said
	struct weir_data_path_flow flow; // while RUNNING along the data path
	struct weir_health_tcp *tcp; // while RUNNING, one of these
	struct weir_health_http *http;
	struct weir_health_agent_check *agent_check;
};

struct weir_health {
	uv_loop_t *loop;
	weir_health_fn on_health;
	weir_health_report_fn on_report;
	void *context;
	struct weir_health_curl *curl;
	struct weir_data_path *path; // NULL = there is none
	struct weir_health_check **checks; // by slot; NULL = not checked
	uint32_t slots; // elements of checks
	uint64_t generation;
	uint64_t random; // state of the jitter
	STAILQ_HEAD(weir_health_queue, weir_health_check)
	queue, refused; // the latter of failing backends
	unsigned int running, running_refused; // of WEIR_HEALTH_CONCURRENT; the former counts all
	unsigned int descriptors_max;
};

// A check's timer: it is due.
void weir_health_on_due(uv_timer_t *timer);

// Takes a check out of its timer, the queue or flight.
void weir_health_halt(struct weir_health_check *check);

// Two for each backend: of its check, and of the one beside.
static inline uint32_t weir_health_slot(uint16_t backend, bool beside) {
	return backend * 2u + beside;
}

// A check of a backend, or NULL.
static inline struct weir_health_check *weir_health_find(
	const struct weir_health *health, uint16_t backend, bool beside) {
	uint32_t slot = weir_health_slot(backend, beside);

	return slot < health->slots ? health->checks[slot] : NULL;
}
