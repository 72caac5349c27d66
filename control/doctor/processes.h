// SPDX-License-Identifier: BSD-3-Clause
//
// Processes: which daemons of Weir run on this machine, and with which run directory: several may
// run, each with its own. From the command lines in /proc, which every user may read. Used by the
// doctors, weirctl and weir-agent.
//
// Threads: any. No logging.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define WEIR_PROCESS_DIR_BYTES 128
#define WEIR_SHELL_SAFE \
	"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+:,@%" // in any word

enum weir_program { WEIR_PROGRAM_DATAPLANE, WEIR_PROGRAM_CONTROL, WEIR_PROGRAM_AGENT };

struct weir_process {
	pid_t pid; // 0: none
	// As an argument of --run-dir here; "" = one with characters that a shell treats specially.
	char run_dir[WEIR_PROCESS_DIR_BYTES];
};

struct weir_processes {
	pid_t here; // one with the run directory; 0: none
	struct weir_process elsewhere; // one with another
};

// Find the processes of a program in this network namespace, or below a root (tree.h).
struct weir_processes weir_processes_find(
	const char *root, enum weir_program program, const char *run_dir);

// Why the program does not answer in the run directory although it runs, and what to do. Returns
// false, with text empty, if it does not run. Returns true with one line otherwise.
bool weir_processes_explain(const struct weir_processes *processes, enum weir_program program,
	const char *run_dir, char *text, size_t bytes);
