// SPDX-License-Identifier: BSD-3-Clause
//
// Words: the sockets through which an application announces the state of its service (called word
// in the code), without root privileges. Each service has a stream socket, RUN_DIR/words/NAME.sock,
// which belongs to the service's user and has mode 0600. Therefore the kernel permits only
// connections from this user and from root. The agent checks the user of each client again. Each
// connection has one request (word_line.h), which is answered with one line.
//
// A user cannot delay the announcements of other users, or keep the agent busy: each service has a
// separate queue of connections. At most WEIR_WORDS_ACCEPTED connections of a queue are handled per
// WEIR_WORDS_TURN_MS; further clients wait in the queue, or are refused by the kernel. If a state
// changes too often, changes are delayed: after WEIR_WORDS_CHANGES changes in close succession,
// only one change is applied per WEIR_WORDS_CHANGE_MS, to the state that was announced last.
//
// Threads: one, the event loop's.
#pragma once

#include <jansson.h>
#include <stdio.h>
#include <uv.h>

#include "log.h"
#include "word_line.h"

#define WEIR_WORDS_DIR "words" // name of the directory of the sockets in the run directory
#define WEIR_WORDS_SUFFIX ".sock"
// maximum number of clients of a service; a client is disconnected when this many later clients
// have connected
#define WEIR_WORDS_CLIENTS 4
#define WEIR_WORDS_TURN_MS 50
#define WEIR_WORDS_ACCEPTED 8
#define WEIR_WORDS_READS 8 // maximum number of reads for a request
#define WEIR_WORDS_CHANGES 8
#define WEIR_WORDS_CHANGE_MS 2000

struct weir_word_listeners { // elements are in the order of the services
	int fd[WEIR_NAMED_SERVICES_MAX];
	uid_t uid[WEIR_NAMED_SERVICES_MAX]; // user who may announce; root may as well
	uint32_t count;
};

// The caller applies announced states to ports, in the functions below. index: index of a service.
struct weir_words_params { // the pointers must outlive struct weir_words
	struct weir_log *log;
	const struct weir_named_services *services;
	const struct weir_word_listeners *listeners;
	// Returns the least severe state that is announced for the service's ports.
	enum weir_health_word (*word)(void *context, uint32_t index);
	// Returns whether this state is announced for all ports of the service.
	bool (*has)(void *context, uint32_t index, enum weir_health_word word);
	// Returns how many socket changes of the kind that ends an announcement of this state have
	// occurred at the service's ports (watched_ports.h).
	uint32_t (*ended)(void *context, uint32_t index, enum weir_health_word word);
	void (*announce)(void *context, uint32_t index, enum weir_health_word word);
	// Set the fields `balancers` and `pending` of the reply.
	void (*count)(void *context, uint32_t index, struct weir_word_reply *reply);
	void *context;
};

struct weir_word_client;
struct weir_words;

struct weir_word_service {
	struct weir_words *words;
	struct weir_word_client *client[WEIR_WORDS_CLIENTS];
	uint32_t next_client; // the next client gets slot next_client % WEIR_WORDS_CLIENTS
	uv_poll_t poll;
	bool paused; // no connections are accepted until the next period
	uint32_t accepted; // connections accepted in this period of WEIR_WORDS_TURN_MS
	uint64_t turn_ms; // start of the current period
	uint32_t changes; // number of recent changes of the state; decreases over time
	// `changes` decreases by 1 after each WEIR_WORDS_CHANGE_MS from this time on
	uint64_t changes_ms;
	bool is_waiting;
	enum weir_health_word waiting; // state to apply later, when `changes` is low enough
	// Value of `ended` when the waiting state arrived. If `ended` has increased, the waiting
	// state is dropped, unless it is READY.
	uint32_t waiting_ended;
	uint64_t requests, refused, postponed;
};

struct weir_words {
	struct weir_words_params params;
	struct weir_word_service service[WEIR_NAMED_SERVICES_MAX];
	uv_timer_t turn; // runs while a service is paused or has a waiting state
};

// Create the sockets, and remove the sockets of earlier services; call this function before the
// privileges are dropped. If there is a service, all users get permission to search run_dir.
// Returns 0, or negative errno with one line in why; ret must be closed in both cases.
int weir_words_open(const char *run_dir, const struct weir_named_services *services,
	struct weir_word_listeners *ret, char *why, size_t why_bytes);
void weir_words_close(struct weir_word_listeners *listeners);

// Start accepting clients. Returns 0 or negative errno.
int weir_words_start(
	uv_loop_t *loop, const struct weir_words_params *params, struct weir_words *ret);
// Stop. Run the event loop after this call, so that libuv can close the handles.
void weir_words_stop(struct weir_words *words);

// Returns the state for weir-agent status: an array, owned by the caller.
json_t *weir_words_status(const struct weir_words *words);
void weir_words_status_write(const json_t *status, FILE *out);
