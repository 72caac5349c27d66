// SPDX-License-Identifier: BSD-3-Clause
//
// Words: the sockets through which an application announces a word for its own service without
// root. Each service has a stream socket, RUN_DIR/words/NAME.sock, that belongs to the service's
// user with mode 0600: the kernel admits that user and root, and the user of each client is checked
// again. One request per connection (word_line.h), answered by one line.
//
// One user cannot delay the words of another, nor keep the agent busy: each service has its own
// queue of connections, of which at most WEIR_WORDS_ACCEPTED are handled per WEIR_WORDS_TURN_MS;
// the clients beyond wait in that queue, or are refused by the kernel. A word that changes too
// often is applied later: after WEIR_WORDS_CHANGES changes in close succession, one per
// WEIR_WORDS_CHANGE_MS; meanwhile the last one counts.
//
// Threads: one, the event loop's.
#pragma once

#include <jansson.h>
#include <stdio.h>
#include <uv.h>

#include "log.h"
#include "word_line.h"

#define WEIR_WORDS_DIR "words" // in the run directory
#define WEIR_WORDS_SUFFIX ".sock"
#define WEIR_WORDS_CLIENTS 4 // of a service, at the same time; another one replaces the oldest
#define WEIR_WORDS_TURN_MS 50
#define WEIR_WORDS_ACCEPTED 8
#define WEIR_WORDS_READS 8 // of one request
#define WEIR_WORDS_CHANGES 8
#define WEIR_WORDS_CHANGE_MS 2000

struct weir_word_listeners { // in the order of the services
	int fd[WEIR_NAMED_SERVICES_MAX];
	uid_t uid[WEIR_NAMED_SERVICES_MAX]; // who may announce, beside root
	uint32_t count;
};

// The caller applies the words. index: of the service.
struct weir_words_params { // pointers: must outlive the words
	struct weir_log *log;
	const struct weir_named_services *services;
	const struct weir_word_listeners *listeners;
	enum weir_health_word (*word)(void *context, uint32_t index); // the mildest of its ports
	// Whether all its ports have this word.
	bool (*has)(void *context, uint32_t index, enum weir_health_word word);
	// How many words like this one would have ended with their processes so far.
	uint32_t (*ended)(void *context, uint32_t index, enum weir_health_word word);
	void (*announce)(void *context, uint32_t index, enum weir_health_word word);
	// Set balancers and pending.
	void (*count)(void *context, uint32_t index, struct weir_word_reply *reply);
	void *context;
};

struct weir_word_client;
struct weir_words;

struct weir_word_service {
	struct weir_words *words;
	struct weir_word_client *client[WEIR_WORDS_CLIENTS];
	uint32_t next_client; // the oldest
	uv_poll_t poll;
	bool paused; // until the next turn
	uint32_t accepted; // in this turn
	uint64_t turn_ms; // its start
	uint32_t changes; // recent ones
	uint64_t changes_ms; // when that was last reduced
	bool is_waiting;
	enum weir_health_word waiting; // is applied once changes permit it
	// Words like it, when it came: with the next one it has ended, too, unless it is READY.
	uint32_t waiting_ended;
	uint64_t requests, refused, postponed;
};

struct weir_words {
	struct weir_words_params params;
	struct weir_word_service service[WEIR_NAMED_SERVICES_MAX];
	uv_timer_t turn; // runs while a service is paused or has a word that waits
};

// Create the sockets, and remove those of earlier services; call it before the privileges are
// dropped. Lets all users search run_dir if a service has a user. Returns 0, or negative errno with
// one line in why; ret must be closed in both cases.
int weir_words_open(const char *run_dir, const struct weir_named_services *services,
	struct weir_word_listeners *ret, char *why, size_t why_bytes);
void weir_words_close(struct weir_word_listeners *listeners);

// Returns 0 or negative errno.
int weir_words_start(
	uv_loop_t *loop, const struct weir_words_params *params, struct weir_words *ret);
// Run the loop afterwards to close its handles.
void weir_words_stop(struct weir_words *words);

// For weir-agent status: an array, owned by the caller.
json_t *weir_words_status(const struct weir_words *words);
void weir_words_status_write(const json_t *status, FILE *out);
