// SPDX-License-Identifier: BSD-3-Clause
//
// Word lines: the requests of an application to weir-agent, and the replies. A request has one or
// more lines. If several lines announce a state (a word), the last of them is used:
//
//   starting | ready | lame-duck | down    the word of the service
//   status, or an empty line               no word: request only the reply
//   READY=1, STOPPING=1                    as sd_notify(3): ready, lame-duck
//   NAME=VALUE                             other lines of sd_notify(3): no word
//
// A request with any other line is refused as a whole. The reply is one line:
//
//   web: lame-duck, balancers 2, pending 1, ports 80 53/udp
//   error: REASON
//
// Threads: any; no shared state.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "health_state.h"
#include "named_services.h"

#define WEIR_WORD_REQUEST_BYTES 512 // maximum length of a request
#define WEIR_WORD_REPLY_BYTES 256

// Read the lines of a request; the last line needs no line feed. *ret_word: the announced state;
// NONE = the request announces no state. Returns 0 or -EINVAL.
int weir_word_lines_read(const char *text, size_t bytes, enum weir_health_word *ret_word);

struct weir_word_reply {
	enum weir_health_word word; // READY also for a service that has announced no state
	uint32_t balancers; // number of balancers that probe the agent
	uint32_t pending; // number of these balancers that have not acknowledged the state
	struct weir_service_port port[WEIR_PORT_WORDS_MOST];
	uint32_t port_count;
};

// Write a reply with a line feed. to: has WEIR_WORD_REPLY_BYTES bytes. Returns to.
const char *weir_word_reply_write(
	const char *service, const struct weir_word_reply *reply, char *to);

// Read a reply. Returns 0, or -EINVAL: the text is an error message, or not a reply.
int weir_word_reply_read(const char *text, struct weir_word_reply *ret);
