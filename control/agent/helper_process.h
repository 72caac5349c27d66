// SPDX-License-Identifier: BSD-3-Clause
//
// Helper process: a child with some of root's powers, which the process that reads datagrams has
// not. They talk over a pair of connected sockets, one message a request and one an answer.
// The child ends with its parent, and not on signals to the group of processes.
//
// Threads: one, before any other is started. No logging.
#pragma once

// What the child does until the other end of fd is closed. The child exits when this returns.
typedef void (*weir_helper_body)(int fd, const void *context);

// Fork a child, called name in lists of processes (up to 15 characters), that runs body with
// context. *ret: this process's end of the connection, non-blocking; closing it ends the child.
// Returns 0 or negative errno.
int weir_helper_start(const char *name, weir_helper_body body, const void *context, int *ret);
