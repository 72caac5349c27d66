// SPDX-License-Identifier: BSD-3-Clause
//
// Service: `weir-agent run`. Answers the balancers' probes, announces the backend's state to them,
// measures the requested values, and executes the commands of weir-agent on this host. Its parts
// share this struct:
//
//   service.c         life: sockets, privileges, event loop, signals, the end
//   service_word.c    probes and answers, the announced state, the drain
//   service_steal.c   answers whether a flow may leave this backend
//   service_meter.c   loads and unloads the meter on demand
//   service_local.c   the local socket: status, lame-duck, ready
//   service_note.c    saves the state in a file, for the next process after a crash
//
// Threads: one, libuv's loop; the ORCA poll has a worker thread of libuv's.
#pragma once

#include <uv.h>

#include "agent_keys.h"
#include "balancers.h"
#include "datagrams.h"
#include "drain.h"
#include "handshake.h"
#include "health_state.h"
#include "load.h"
#include "log_limit.h"
#include "options.h"
#include "orca_poll.h"
#include "privileges.h"
#include "steals.h"
#include "syn_cookies.h"

#define WEIR_SERVICE_SOCKET "agent.sock" // in the run directory
#define WEIR_SERVICE_NOTE "word" // the same
#define WEIR_SERVICE_CLIENTS_MAX 16 // at the same time

#define WEIR_SERVICE_PROBLEM_BYTES 256

struct weir_service_meter {
	int helper; // -1 = none, or it has ended
	bool poll_open;
	bool asked; // an answer is pending
	bool loaded;
	bool failed; // permanent failure: no retry
	uint64_t unwanted_ms; // since when no balancer requests it; 0 = one does
	struct weir_meter *reader; // while loaded
	uv_poll_t poll;
};

struct weir_service_steal { // with --allow-steal
	int helper; // -1 = none, or it has ended
	bool poll_open;
	bool failed_start; // the helper has reported why it cannot start
	int error; // errno of the last removal or request that failed and was logged
	char problem[WEIR_SERVICE_PROBLEM_BYTES]; // why handshakes are not removed; "" = they are
	uv_poll_t poll;
	struct weir_handshakes handshakes;
	struct weir_syn_cookies cookies;
	struct weir_steals steals;
	uint64_t answered[WEIR_AGENT_STEAL_RESULT_COUNT];
};

struct weir_service_client;

struct weir_service_local {
	int fd; // listening; -1 = none
	bool poll_open;
	struct weir_service_client *client[WEIR_SERVICE_CLIENTS_MAX];
	uv_poll_t poll;
};

struct weir_service {
	const struct weir_agent_options *options;
	struct weir_log *log;
	struct weir_log_limit *log_limit; // its filter
	struct weir_run_as run_as;
	struct weir_agent_keys keys;
	struct weir_datagrams datagrams;
	struct weir_cpu_source cpu;
	struct weir_service_meter meter;
	struct weir_service_steal steal;
	struct weir_service_local local;
	struct weir_orca_poll *orca; // NULL = no --orca-url

	uv_loop_t loop;
	uv_poll_t probe_poll[WEIR_DATAGRAM_SOCKETS];
	uv_signal_t term, interrupt, hangup;
	uv_timer_t turn; // WEIR_LOAD_TICK_MS: load, meter, silent balancers
	uv_timer_t notice; // runs while a notice is unacknowledged
	uv_timer_t drain_turn; // runs while a lame duck
	uv_process_t warm_up;

	uint64_t number; // of this process, random
	uint64_t started_ms;
	enum weir_health_word word;
	uint32_t serial; // of the announced state
	char why[WEIR_AGENT_WHY_BYTES];
	struct weir_balancers balancers;
	struct weir_load load;
	struct weir_drain drain;
	int note; // file of service_note.c; -1 = none
	bool no_cpu; // the missing CPU time of the cgroup was logged
	bool stopping; // SIGTERM: exit after the drain
	uint64_t answered, notices; // datagrams sent
	uint64_t refused[WEIR_AGENT_REFUSAL_COUNT];
};

// All of `weir-agent run`, from start to end. Returns the exit status.
int weir_service_run(const struct weir_agent_options *options, struct weir_log *log,
	struct weir_log_limit *limit);

static inline uint64_t weir_service_now_ms(const struct weir_service *service) {
	return uv_now(&service->loop);
}

// The clock of our answers, ms.
static inline uint64_t weir_service_clock_ms(const struct weir_service *service) {
	return weir_service_now_ms(service) - service->started_ms;
}

// --- service_word.c -----------------------------------------------------------------------

int weir_service_state_start(struct weir_service *service);
// Announce a state to all balancers. Does nothing if it is unchanged.
void weir_service_announce(
	struct weir_service *service, enum weir_health_word word, const char *why);
// Become a lame duck, or set another deadline. Starts the drain.
void weir_service_lame_duck(struct weir_service *service, uint64_t interval_ms, const char *why);
void weir_service_ready(struct weir_service *service, const char *why);

// --- service_steal.c ----------------------------------------------------------------------

int weir_service_steal_start(struct weir_service *service);
void weir_service_steal_stop(struct weir_service *service);
// Process a request that is authentic and was sent to our own address.
void weir_service_steal(struct weir_service *service, const struct weir_agent_steal *steal,
	const struct weir_path *path);

// --- service_meter.c ----------------------------------------------------------------------

int weir_service_meter_start(struct weir_service *service);
void weir_service_meter_stop(struct weir_service *service);
// Load or unload the meter, as the requested fields need.
void weir_service_meter_turn(struct weir_service *service, uint32_t wants);

// --- service_local.c ----------------------------------------------------------------------

// Create the socket; call it before the privileges are dropped. Returns 0 or negative errno, one
// line in why.
int weir_service_local_open(struct weir_service *service, char *why, size_t why_bytes);
int weir_service_local_start(struct weir_service *service);
void weir_service_local_stop(struct weir_service *service);

// --- service_note.c -----------------------------------------------------------------------

// Open the file; call it before the privileges are dropped. Without it the state is not saved.
void weir_service_saved_open(struct weir_service *service);
// The state that a crashed process saved.
enum weir_health_word weir_service_saved_state(const struct weir_service *service);
// NONE: this process ends on purpose, so nothing is restored.
void weir_service_save_state(const struct weir_service *service, enum weir_health_word word);
