// SPDX-License-Identifier: BSD-3-Clause
//
// Helper process: a child process that does a task for its parent, and has other privileges than
// its parent. Parent and child communicate over a socket pair; each request and each answer is one
// message. The child exits when its parent exits, and ignores SIGTERM, SIGINT and SIGHUP. The child
// inherits only standard input, output and error, and its end of the socket pair (helper_process.c
// describes an exception).
//
// Threads: one; call before other threads start. No logging.
#pragma once

// Main loop of the child. fd: the child's end of the connection. The function must return when the
// parent's end is closed; the child then exits.
typedef void (*weir_helper_body)(int fd, const void *context);

// Fork a child with this process name (up to 15 characters). The child calls body(fd, context).
// *ret: the parent's end of the connection, non-blocking; closing this descriptor terminates the
// child. Returns 0 or negative errno.
int weir_helper_start(const char *name, weir_helper_body body, const void *context, int *ret);
