// SPDX-License-Identifier: BSD-3-Clause
//
// Saved state: the announced state in a file of the run directory, so that a lame duck whose agent
// has crashed is a lame duck again after the restart; and the ports that had a listening socket, so
// that those without one are down after any restart, with the words of their applications.
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

// Whether the agent that used a run directory last has not ended on purpose, or still runs. Returns
// 1, 0, or negative errno: unknown; -ENOENT: none has used it.
int weir_saved_state_is_left(const char *run_dir);

// NONE: this process ends on purpose, so nothing is restored. fd: -1 is allowed.
void weir_saved_state_write(int fd, enum weir_health_word word);

// The ports as text, "80/tcp 53/udp ", padded with zeros. fd: -1 is allowed, and saves nothing.
#define WEIR_SAVED_PORTS_BYTES 2046 // 128 ports need at most 13 each
void weir_saved_state_read_ports(int fd, char ret[static WEIR_SAVED_PORTS_BYTES]);
void weir_saved_state_write_ports(int fd, const char text[static WEIR_SAVED_PORTS_BYTES]);
