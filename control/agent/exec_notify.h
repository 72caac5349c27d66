// SPDX-License-Identifier: BSD-3-Clause
//
// Exec notify: the NOTIFY_SOCKET of a wrapped server (sd_notify(3)). Its messages go on to that of
// weir-agent exec, without those about its process id and its descriptors.
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
	char name[WEIR_EXEC_NOTIFY_NAME_BYTES]; // for the environment
};

// Returns 0 or negative errno.
int weir_exec_notify_open(struct weir_exec_notify *ret);
void weir_exec_notify_close(struct weir_exec_notify *notify);

// Take a message, if there is one, from the server with this process id, from our own user or from
// root, and pass it on. Returns its word (READY or LAME_DUCK), NONE: no message, or one without.
enum weir_health_word weir_exec_notify_take(struct weir_exec_notify *notify, pid_t server);

// The lines of a message that are passed on. to: of WEIR_EXEC_MESSAGE_BYTES, like the message with
// its NUL. Returns to.
const char *weir_exec_notify_filter(const char *message, char *to);
