// SPDX-License-Identifier: BSD-3-Clause
//
// Exec notify: the NOTIFY_SOCKET of a wrapped server (sd_notify(3)). The messages of the server are
// passed on to the NOTIFY_SOCKET of weir-agent exec, without the lines about process ids,
// descriptors and NotifyAccess=.
//
// Threads: one.
#pragma once

#include <stddef.h>
#include <sys/types.h>

#include "health_state.h"

#define WEIR_EXEC_NOTIFY_NAME_BYTES 32
#define WEIR_EXEC_MESSAGE_BYTES 4096

struct weir_exec_notify {
	int fd; // -1 = closed
	// Value of NOTIFY_SOCKET in the environment of the server.
	char name[WEIR_EXEC_NOTIFY_NAME_BYTES];
};

// Open the socket. Returns 0 or negative errno.
int weir_exec_notify_open(struct weir_exec_notify *ret);
void weir_exec_notify_close(struct weir_exec_notify *notify);

// Receive a message, if there is one, and pass it on to the NOTIFY_SOCKET of this process. server:
// process id of the server. Messages are accepted from the server, from processes of the user of
// weir-agent exec, and from root. Returns the state in the message, such as READY for READY=1; NONE
// = no accepted message, or a message without a state.
enum weir_health_word weir_exec_notify_take(struct weir_exec_notify *notify, pid_t server);

// Copy a message without the lines that are not passed on. to: a buffer of WEIR_EXEC_MESSAGE_BYTES,
// into which the message with its NUL must fit. Returns to.
const char *weir_exec_notify_filter(const char *message, char *to);
