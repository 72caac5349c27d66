// SPDX-License-Identifier: BSD-3-Clause
//
// Exec child: starts the process of a wrapped server, and handles its signals and its exit status.
//
// Threads: one.
#pragma once

#include <signal.h>
#include <sys/types.h>

// Block SIGCHLD and all signals that weir-agent exec passes on to the server. Resets SIGCHLD to its
// default action, because a parent process may have set it to be ignored. *ret_before: the previous
// signal mask. Returns a descriptor of signalfd(2), or negative errno.
int weir_exec_block_signals(sigset_t *ret_before);

// Start a program with this NOTIFY_SOCKET, this signal mask, and the descriptors of this process.
// program: the program and its arguments; ends with NULL. Environment variables that contain the
// process id of this process (LISTEN_PID, WATCHDOG_PID) are set to the id of the program. If the
// program cannot be run, the new process prints the reason and exits with 127 (not found) or 126.
// Returns the process id of the program, or -1 with errno.
pid_t weir_exec_spawn(char **program, const char *notify_socket, const sigset_t *mask);

// Returns the exit status of a process. status: from waitpid(2). If a signal has killed that
// process, this function restores the signal mask `mask`, and kills the calling process with the
// same signal; as PID 1, it returns 128 + signal instead.
int weir_exec_end_like(int status, const sigset_t *mask);
