// SPDX-License-Identifier: BSD-3-Clause
//
// A control socket for the tests of weirctl: a thread listens on a real socket in a separate
// directory, and sends the answers that the test provides.
#pragma once

#include "test.h"

enum server_mode {
	SERVER_ANSWER, // each line gets the answer of its command
	SERVER_ANSWER_BYTES, // like SERVER_ANSWER, but sends the answer byte by byte
	SERVER_HANG, // reads and never answers
	SERVER_CLOSE, // reads one line, and closes the connection
	SERVER_UNREAD, // answers without reading, and closes the connection
	SERVER_DEAF, // listens, but never accepts
};

struct server_answer {
	const char *command; // NULL ends the list; "*" = any command
	const char
		*text; // one answer per line, sent in this order; the last is repeated; NULL = none
};

struct server;

struct server *server_start(enum server_mode mode, const struct server_answer *answers);
void server_stop(struct server *server); // also removes its directory
// Set the mode for the next requests. The mode cannot be changed from or to SERVER_DEAF.
void server_set_mode(struct server *server, enum server_mode mode);
// Waits until a connection of a SERVER_UNREAD server was closed.
void server_wait_closed(const struct server *server);
const char *server_folder(const struct server *server);
// Returns the last request line, without the newline. Valid after an answer has arrived; "" before.
const char *server_request(const struct server *server);
