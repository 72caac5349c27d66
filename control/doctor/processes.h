// SPDX-License-Identifier: BSD-3-Clause
//
// Processes: finds the daemons of Weir that run on this machine, and their run directories. Daemons
// with different run directories can run at the same time. Reads the command lines in /proc, which
// every user can read. Used by the doctors, weirctl and weir-agent.
//
// Threads: any. No logging.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define WEIR_PROCESS_DIR_BYTES 128
// Characters that have no special meaning in a shell, regardless of their position in a word.
#define WEIR_SHELL_SAFE "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+:,@%"

enum weir_program { WEIR_PROGRAM_DATAPLANE, WEIR_PROGRAM_CONTROL, WEIR_PROGRAM_AGENT };

struct weir_process {
	pid_t pid; // 0 = none
	// The run directory, as a path on this host (relative if the working directory of the
	// process is unreadable); "" = the path is too long, or has characters that are special in
	// a shell.
	char run_dir[WEIR_PROCESS_DIR_BYTES];
};

struct weir_processes {
	pid_t here; // a process with the given run directory; 0 = none
	struct weir_process elsewhere; // a process of the program with another run directory
};

// Finds the processes of a program in this network namespace. root: "" = this machine, otherwise a
// directory with a copy of another machine's files (tree.h).
struct weir_processes weir_processes_find(
	const char *root, enum weir_program program, const char *run_dir);

// Writes one line to text: why a running program cannot be reached in the run directory, and the
// remedy. If the program does not run, sets text to "" and returns false.
bool weir_processes_explain(const struct weir_processes *processes, enum weir_program program,
	const char *run_dir, char *text, size_t bytes);
