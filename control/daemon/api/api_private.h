// SPDX-License-Identifier: BSD-3-Clause
//
// What the files of the control socket share: api_accept.c (new clients, who has to make room, the
// start and the end) and api.c (requests read, answers and lists written, the end of a client).
//
// Threads: one.
#pragma once

#include <sys/types.h>
#include <uv.h>

#include "api.h"
#include "api_text.h"

#define WEIR_API_WHY_BYTES 320

struct weir_api_client {
	struct weir_api *api;
	struct weir_api_client *next;
	struct weir_api_client **link; // what points to this one
	uv_pipe_t pipe;
	uv_timer_t deadline; // of the answer that is being written
	unsigned int handles; // of the two above, not closed yet
	char *in; // received
	size_t in_room;
	size_t taken; // of it, handled already
	size_t in_bytes; // not handled yet, after these
	size_t searched; // of the latter, up to here there is no newline
	bool discarding; // inside an overlong line, which was answered already
	bool ended; // the client sends nothing more
	struct weir_api_call *call; // being handled, or NULL
	uv_write_t write;
	char *out; // being written, or NULL
	size_t held; // bytes of the list that is being built or written
	uint64_t asked_ms; // when the last request came
	uint64_t connection; // its number, never 0
	weir_api_gone gone; // or NULL
	void *gone_context;
	bool waiting; // for the loop's next turn, to have a request handled
	struct weir_api_client *next_waiting;
	struct weir_api_peer peer;
};

struct weir_api {
	uv_loop_t *loop;
	uv_poll_t listener;
	uv_timer_t again; // runs while connections wait to be accepted
	unsigned int handles; // of listener, timer and turn, not closed yet
	int fd; // that the listener watches
	gid_t admin_group;
	size_t user_bytes;
	struct weir_api_client *clients;
	unsigned int count;
	uint64_t connections; // so far
	weir_api_handler handler;
	void *context;
	void (*closed)(void *context);
	bool closing;
	uv_idle_t turn; // active while lists are being answered, or requests were handled
	uint64_t turn_began_ns; // when this turn's first request was handled; 0 = none was yet
	struct weir_api_client *waiting; // whose requests did not fit into this turn, in order
	struct weir_api_call *lists; // one slice of the first one each iteration
};

struct weir_api_call {
	struct weir_api_client *client; // NULL: it has gone
	struct weir_api_peer peer;
	uint64_t connection;
	json_t *request;
	struct weir_api_call *next; // of the lists
	struct weir_api_list list;
	char not_published[WEIR_API_WHY_BYTES]; // "" = all is
	bool change_unpublished;
	weir_api_ended ended; // or NULL
	void *ended_context;
};

// Close the connection of a client, whatever it waits for; its memory goes when libuv is done.
void weir_api_cut_off(struct weir_api_client *client);
// Handle buffered lines until a reply is pending, then wait until the client has read it (A2). The
// next iteration of the loop continues, so no client delays the others by more than one request,
// and all of them together the loop by no more than WEIR_API_TURN_NS and a request (A7).
void weir_api_next_request(struct weir_api_client *client);
// Write one reply. Takes the reference of answer; NULL (no memory) closes the connection.
void weir_api_write_answer(struct weir_api_client *client, json_t *answer);
// Returns a new reference, or NULL without memory. text is made printable.
json_t *weir_api_error_answer(enum weir_api_code code, char *text);
// Release the lists that are being answered; their clients have been cut off.
void weir_api_abandon_lists(struct weir_api *api);
// Release api if it was closed and nothing of it is left open.
void weir_api_finish_close(struct weir_api *api);
