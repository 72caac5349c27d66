// SPDX-License-Identifier: BSD-3-Clause
//
// Saved state: stores the announced state in a file in the run directory, so that a lame duck whose
// agent has crashed is a lame duck again after the restart of the agent. The file also lists the
// ports that had a listening socket; after a restart of the agent, such a port is down if it no
// longer has a listening socket. The file also contains the states that applications have announced
// (called words in the code).
//
// Threads: one.
#pragma once

#include "health_state.h"
#include "log.h"

#define WEIR_SAVED_STATE "word" // name of the file in the run directory

// Open the file; call this function before the privileges are dropped. Returns the descriptor,
// owned by the caller, or -1: the reason was logged, and no state is saved.
int weir_saved_state_open(const char *run_dir, struct weir_log *log);

// Returns LAME_DUCK if a crashed process has saved this state, otherwise NONE. fd: may be -1.
enum weir_health_word weir_saved_state_read(int fd);

// Returns 1 if the last agent that used this run directory is still running, has crashed, or failed
// to start. Returns 0 if this agent has exited normally, or drains before its exit: it has then
// saved NONE. Returns a negative errno if the file cannot be read (-ENOENT: no agent has used the
// directory).
int weir_saved_state_is_left(const char *run_dir);

// Save a state. word: NONE if this process exits normally, so that the next process restores no
// state. fd: if -1, nothing is saved.
void weir_saved_state_write(int fd, enum weir_health_word word);

// Read or save the ports as text, such as "80/tcp 53/udp ", padded with zeros. fd: if -1, nothing
// is read or saved.
#define WEIR_SAVED_PORTS_BYTES 2046 // 128 ports with at most 13 bytes each
void weir_saved_state_read_ports(int fd, char ret[static WEIR_SAVED_PORTS_BYTES]);
void weir_saved_state_write_ports(int fd, const char text[static WEIR_SAVED_PORTS_BYTES]);
