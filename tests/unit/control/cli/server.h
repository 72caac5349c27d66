// SPDX-License-Identifier: BSD-3-Clause
//
// A control socket for the tests of weirctl: a thread that listens in a separate directory and
// sends the given answers. The socket, the bytes and the waiting are real.
#pragma once

#include "test.h"

enum server_mode {
	SERVER_ANSWER, // each line gets the answer of its command
	SERVER_ANSWER_BYTES, // as SERVER_ANSWER, but sent byte by byte
	SERVER_HANG, // reads and never answers
	SERVER_CLOSE, // reads one line and closes
	SERVER_UNREAD, // answers without reading, and closes
	SERVER_DEAF, // listens, but never accepts
};

struct server_answer {
	const char *command; // NULL ends the list; "*" = any command
	const char *text; // answers in turn, one per line; the last answer is repeated
};

struct server;

struct server *server_start(enum server_mode mode, const struct server_answer *answers);
void server_stop(struct server *server); // removes the folder
// Set the mode for the next requests. SERVER_DEAF can neither be set nor be left.
void server_set_mode(struct server *server, enum server_mode mode);
// Waits until a connection of a SERVER_UNREAD server was closed.
void server_wait_closed(const struct server *server);
const char *server_folder(const struct server *server);
// The last request line, without its end. Valid after an answer arrived; "" before.
const char *server_request(const struct server *server);
