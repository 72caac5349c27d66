// SPDX-License-Identifier: BSD-3-Clause
//
// Saved state: the announced state in a file of the run directory, so that a lame duck whose agent
// has crashed is a lame duck again after the restart.
//
// Threads: one.
#pragma once

#include "health_state.h"
#include "log.h"

#define WEIR_SAVED_STATE "word" // in the run directory

// Open the file; call it before the privileges are dropped. Returns its descriptor, owned by the
// caller, or -1: the reason was logged, and no state is saved.
int weir_saved_state_open(const char *run_dir, struct weir_log *log);

// The state that a crashed process saved. fd: -1 is allowed.
enum weir_health_word weir_saved_state_read(int fd);

// NONE: this process ends on purpose, so nothing is restored. fd: -1 is allowed.
void weir_saved_state_write(int fd, enum weir_health_word word);
