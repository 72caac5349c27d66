// SPDX-License-Identifier: BSD-3-Clause
//
// Checks: health.c configures them, health_schedule.c runs them.
#pragma once

#include <sys/queue.h>

#include "health.h"
#include "health_agent_check.h"
#include "health_http.h"
#include "health_relay.h"
#include "health_tcp.h"

// Parameters shared by the checks of a service.
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
	bool alongside; // agent-check in addition to the backend's check; its verdict has no effect
	struct weir_address address;
	struct weir_address vip; // via the data path; family 0 = connect directly to `address`
	struct weir_address source; // of the outer header; family 0 = not set yet
	uint8_t source_bits;
	struct weir_health_params *params;
	enum weir_health_phase phase;
	bool is_failing; // while QUEUED or RUNNING: counted in the share of failing backends
	unsigned int cost; // while RUNNING, of WEIR_HEALTH_CONCURRENT
	enum weir_health_verdict verdict;
	bool far;
	uint32_t idle_intervals; // between two checks of an idle backend; 0 = not idle
	uint64_t generation; // of the last configure call that contained it
	uint64_t due_ms; // loop time of the current or next start, on the grid of the interval
	uint64_t planned_ms; // due_ms with jitter
	uint32_t late_ms; // from planned_ms to the last start
	bool spread; // has its own offset in the interval
	uint64_t started_ns; // start of the running probe
	uint64_t ended_ns; // end of the last probe, 0 = none ended
	bool passed;
	bool without_result; // the last probe could not run on this host
	char detail[WEIR_HEALTH_DETAIL_BYTES];
	uint32_t duration_ms;
	uint32_t streak;
	uint64_t passes, fails;
	uint8_t word; // enum weir_health_word: the last one in an answer
	struct weir_agent_check agent_words; // words of its agent-check
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
	queue, failing_queue; // failing_queue: checks of failing backends
	unsigned int running,
		running_failing; // of WEIR_HEALTH_CONCURRENT; running includes running_failing
	unsigned int descriptors_max;
};

// Callback of a check's timer: the check is due.
void weir_health_on_due(uv_timer_t *timer);

// Stops a check's timer, removes it from its queue, or cancels its running probe.
void weir_health_halt(struct weir_health_check *check);

// Each backend has two slots: its check, and its alongside check.
static inline uint32_t weir_health_slot(uint16_t backend, bool alongside) {
	return backend * 2u + alongside;
}

// A check of a backend, or NULL.
static inline struct weir_health_check *weir_health_find(
	const struct weir_health *health, uint16_t backend, bool alongside) {
	uint32_t slot = weir_health_slot(backend, alongside);

	return slot < health->slots ? health->checks[slot] : NULL;
}
