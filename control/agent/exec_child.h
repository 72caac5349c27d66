// SPDX-License-Identifier: BSD-3-Clause
//
// Exec child: the process of a wrapped server, its signals and its end.
//
// Threads: one.
#pragma once

#include <signal.h>
#include <sys/types.h>

// Block all signals that can be passed on, and SIGCHLD, which is no longer ignored. *ret_before:
// the mask until now. Returns a descriptor of signalfd(2), or negative errno.
int weir_exec_block_signals(sigset_t *ret_before);

// Start a program with this NOTIFY_SOCKET, this mask, and the descriptors of this process. program:
// ends with NULL. What systemd gives to this process by its id (LISTEN_PID, WATCHDOG_PID) is the
// program's. If it cannot be run, the process prints why and exits with 127 (not found) or 126.
// Returns its process id, or -1 with errno.
pid_t weir_exec_spawn(char **program, const char *notify_socket, const sigset_t *mask);

// The exit status of a process that ended with this status of waitpid(2). If a signal ended it, the
// same one ends this process, unless that is process 1.
int weir_exec_end_like(int status, const sigset_t *mask);
