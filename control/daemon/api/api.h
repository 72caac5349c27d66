// SPDX-License-Identifier: BSD-3-Clause
//
// API server: newline-delimited JSON over the control socket (docs/reference/control-api.md). The
// server implements the protocol, not the commands: it passes each request to one handler, which
// replies immediately or later.
//
// Threads: the thread of the event loop. Never blocks the loop.
// Guarantees:
//   A1 each request line that is not blank gets one reply, in order, regardless of the bytes that a
//      client sends. If memory runs out, the client is disconnected instead.
//   A2 memory per client is limited to a receive buffer of 128 KiB and one reply. The long replies
//      to one user, including unread replies, have a common limit.
//   A3 a client that does not read its reply within WEIR_API_ANSWER_MS is disconnected. If there
//      are too many clients, the client that has been idle the longest, and for at least
//      WEIR_API_IDLE_MS, is disconnected. Without such a client, the new client is refused.
//   A4 a call stays valid until it is answered, even if its client has disconnected.
//   A5 a long list is answered in slices. Between two slices, the loop does its other work, and
//      serves other clients.
//   A6 read-only clients cannot keep the loop busy by connecting: an iteration of the loop accepts
//      only a few connections. Read-only clients cannot exclude clients that may make changes: if
//      all connections are in use, a client that may make changes replaces a read-only client,
//      even one with a pending request.
//   A7 requests do not block the loop's other work. Each request is short, except that config.diff
//      and config.reload read a file. A line that cannot be a request is not parsed. After
//      WEIR_API_TURN_NS, further requests wait for the next iteration.
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include "api_rights.h"

// Maximum length of a request without its newline, large enough for the longest path of a file,
// even if every character is escaped.
#define WEIR_API_LINE_BYTES (32u << 10)
// A line with more commas and opening brackets outside strings than this is not a valid request.
#define WEIR_API_VALUES_MAX 64
#define WEIR_API_USER_BYTES (256u << 20) // maximum bytes of the long replies to one user
#define WEIR_API_TURN_NS 2000000
#define WEIR_API_CLIENTS 64
#define WEIR_API_ANSWER_MS 10000
// A client that has connected or sent a request within this time is not disconnected to make room
// for another client, unless only the other client may make changes.
#define WEIR_API_IDLE_MS 1000

// Codes of errors. X(NAME, "code in the answer")
#define WEIR_API_CODES(X) \
	X(BAD_REQUEST, "bad-request") \
	X(NOT_FOUND, "not-found") \
	X(AMBIGUOUS, "ambiguous") \
	X(REFUSED, "refused") \
	X(BUSY, "busy") \
	X(FORBIDDEN, "forbidden") \
	X(NO_DATAPLANE, "no-dataplane") \
	X(TIMEOUT, "timeout") \
	X(INTERNAL, "internal")

enum weir_api_code {
#define X(name, key) WEIR_API_##name,
	WEIR_API_CODES(X)
#undef X
};

struct weir_api;
struct weir_api_call; // one unanswered request

// Handles one request, a JSON object: replies immediately, or keeps the call and replies later.
typedef void (*weir_api_handler)(void *context, struct weir_api_call *call);

// Start to serve the clients of a bound socket (api_socket.h). Takes ownership of fd, also on
// failure. handler: is called with each request. Returns 0 or negative errno.
int weir_api_create(
	uv_loop_t *loop, int fd, weir_api_handler handler, void *context, struct weir_api **ret);
// Disconnect all clients and close the socket. Later answers to open calls only release the calls.
// The memory is released in the next iterations of the loop; then `closed` is called with the
// context of weir_api_create. closed: NULL is allowed.
void weir_api_close(struct weir_api *api, void (*closed)(void *context));
// Set the admin group. Its members may make changes, like root and the user of weir-control. gid:
// (gid_t)-1 = no admin group, which is the default. Applies to new connections.
void weir_api_set_admin_group(struct weir_api *api, gid_t gid);
// Sets a limit for the long replies to one user, instead of WEIR_API_USER_BYTES.
void weir_api_set_user_bytes(struct weir_api *api, size_t bytes);
unsigned int weir_api_clients(const struct weir_api *api); // number of open connections

const json_t *weir_api_request(const struct weir_api_call *call); // a JSON object
const struct weir_api_peer *weir_api_peer(const struct weir_api_call *call);
// Returns the ID of the client's connection, which is above 0 and unique.
uint64_t weir_api_connection(const struct weir_api_call *call);
// Set a function that is called once when the client's connection is closed; it replaces the
// previous function. If the connection is already closed, the function is not called.
typedef void (*weir_api_disconnected)(void *context, uint64_t connection);
void weir_api_on_disconnect(
	struct weir_api_call *call, weir_api_disconnected disconnected, void *context);
// Returns whether the client is still connected, even if it does not read its replies.
bool weir_api_is_connected(const struct weir_api_call *call);

// Sets the reason why some changes are not published yet, or NULL: the result of
// weir_daemon_unpublished. A successful answer will contain the reason. change: true if one of
// these changes is the change of this call.
void weir_api_not_published(struct weir_api_call *call, const char *why, bool change);
// Sets a function that is called once when the call is answered, before the memory of the call is
// released. code: the error code; NULL = success. text: the error message; or, after success, the
// reason why the change is not published yet; or NULL.
typedef void (*weir_api_ended)(
	void *context, const struct weir_api_call *call, const char *code, const char *text);
void weir_api_when_ended(struct weir_api_call *call, weir_api_ended ended, void *context);
void *weir_api_ended_context(const struct weir_api_call *call); // NULL = no function was set

// Answers and ends the call. Takes ownership of the reference to `result`. result: NULL means out
// of memory; the answer is then the error `internal`.
void weir_api_answer(struct weir_api_call *call, json_t *result);
// Produces the rows of a long list one by one. `next` is called in later iterations of the loop. It
// returns 1 and a row in *ret (NULL = out of memory); 0 after the last row; -ECANCELED if the list
// cannot be completed; or 2 if another list follows, with a string in *ret that is the name of the
// member for that list.
struct weir_api_rows {
	int (*next)(void *context, json_t **ret);
	void (*free)(void *context);
	void *context;
};

// Answers with a list, and ends the call after the last row. member: NULL = the result is the list
// itself. Otherwise the list is added to the object `head` as its last member, with the name
// `member`; a head of NULL then means out of memory. Takes ownership of the reference to head, and
// of the context of rows, which is freed when the call ends.
void weir_api_answer_rows(struct weir_api_call *call, json_t *head, const char *member,
	const struct weir_api_rows *rows);
// Answers with an error and ends the call. weir_api_fail_with adds `members` to the answer, and
// takes ownership of the reference to this object.
void weir_api_fail(struct weir_api_call *call, enum weir_api_code code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void weir_api_fail_with(struct weir_api_call *call, enum weir_api_code code, json_t *members,
	const char *format, ...) __attribute__((format(printf, 4, 5)));

const char *weir_api_code_name(enum weir_api_code code);
