// SPDX-License-Identifier: BSD-3-Clause
//
// Declarations that the files of the control socket share: api_accept.c (creates and closes the
// socket, accepts and evicts clients) and api.c (reads requests, writes answers and lists,
// disconnects clients).
//
// Threads: the thread of the loop.
#pragma once

#include <sys/types.h>
#include <uv.h>

#include "api.h"
#include "api_text.h"

#define WEIR_API_NOT_PUBLISHED_BYTES 320

struct weir_api_client {
	struct weir_api *api;
	struct weir_api_client *next;
	// Address of the list pointer that points to this client; used to remove the client from
	// the list.
	struct weir_api_client **link;
	uv_pipe_t pipe;
	uv_timer_t deadline; // timeout of the answer that is being written
	unsigned int handles; // number of handles (pipe, deadline) that are not closed yet
	char *in; // received bytes
	size_t in_room;
	size_t taken; // number of bytes at the start of `in` that were already handled
	size_t in_bytes; // number of bytes after `taken` that were not handled yet
	size_t searched; // number of bytes after `taken` that were searched and contain no newline
	// The rest of an overlong line is being discarded; the error reply was sent.
	bool discarding;
	bool ended; // nothing more is read from the client
	struct weir_api_call *call; // the call that is being handled, or NULL
	uv_write_t write;
	char *out; // the answer that is being written, or NULL
	size_t held; // size in bytes of this client's list that is being built or written
	uint64_t request_ms; // loop time of the last request, or of the connection
	uint64_t connection; // ID of the connection, never 0
	weir_api_disconnected disconnected; // or NULL
	void *disconnected_context;
	bool waiting; // the client has a request that the next iteration of the loop handles
	struct weir_api_client *next_waiting;
	struct weir_api_peer peer;
};

struct weir_api {
	uv_loop_t *loop;
	uv_poll_t listener;
	uv_timer_t again; // runs while accepting is paused (ACCEPT_AGAIN_MS)
	unsigned int handles; // number of handles (listener, again, turn) not closed yet
	int fd; // the socket that the listener watches
	gid_t admin_group;
	size_t user_bytes;
	struct weir_api_client *clients;
	unsigned int count;
	uint64_t connections; // number of connections since the start
	weir_api_handler handler;
	void *context;
	void (*closed)(void *context);
	bool closing;
	// Active while lists are being answered, and in iterations of the loop that handle
	// requests.
	uv_idle_t turn;
	uint64_t turn_began_ns; // time of the first request in this iteration; 0 = none yet
	struct weir_api_client *waiting; // clients with requests for the next iteration, in order
	// Calls with a list to answer; an iteration builds some rows of the first list.
	struct weir_api_call *lists;
};

struct weir_api_call {
	struct weir_api_client *client; // NULL: the client has disconnected
	struct weir_api_peer peer;
	uint64_t connection;
	json_t *request;
	struct weir_api_call *next; // next call in the queue of lists
	struct weir_api_list list;
	char not_published[WEIR_API_NOT_PUBLISHED_BYTES]; // reason; "" = none
	bool change_unpublished;
	weir_api_ended ended; // or NULL
	void *ended_context;
};

// Closes the connection of a client in any state. The memory of the client is freed when libuv has
// closed the handles.
void weir_api_cut_off(struct weir_api_client *client);
// Handles the buffered lines of a client until a reply is pending. The next lines are handled when
// the reply has been written to the socket (A2 in api.h). All clients together delay an iteration
// of the loop by at most WEIR_API_TURN_NS plus one request; then the clients wait for the next
// iteration, and each waiting client delays the others by at most one request (A7).
void weir_api_next_request(struct weir_api_client *client);
// Write one reply. answer: takes ownership of the reference; NULL means out of memory and closes
// the connection.
void weir_api_write_answer(struct weir_api_client *client, json_t *answer);
// Returns an error answer, a new reference, or NULL if out of memory. text: the message; bytes of
// it may be overwritten, see weir_api_safe_string.
json_t *weir_api_error_answer(enum weir_api_code code, char *text);
// Releases the lists that are being answered. Call this function only after their clients were
// disconnected.
void weir_api_abandon_lists(struct weir_api *api);
// Releases api if it was closed and all of its handles and clients are closed.
void weir_api_finish_close(struct weir_api *api);
