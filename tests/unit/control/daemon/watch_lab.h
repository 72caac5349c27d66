// SPDX-License-Identifier: BSD-3-Clause
//
// For tests of health checks and neighbours: a network namespace, an event loop that runs until a
// condition is true, and programs that end with the test.
#pragma once

#include <stdbool.h>
#include <sys/types.h>
#include <uv.h>

#include "config.h"
#include "shell.h"
#include "test.h"

// For cmocka_run_group_tests: enters a new network namespace in which lo is up, and ignores signals
// about broken pipes.
int watch_lab_enter(void **state);

// Packets to these addresses are dropped at the other end of a veth.
#define WATCH_LAB_HOLE4 "10.1.0.9"
#define WATCH_LAB_HOLE6 "2001:db8:1::9"
void watch_lab_make_hole(void);

// Start a program, which is killed when the test ends. Returns its pid.
pid_t watch_lab_start(const char *const *words);
void watch_lab_stop(pid_t pid);

// Run the loop until the condition is true. Fails the test after timeout_ms.
typedef bool (*watch_lab_condition)(void *context);
void watch_lab_run(uv_loop_t *loop, watch_lab_condition condition, void *context,
	unsigned int timeout_ms, const char *what);

// Run the loop for a while, to check that something does not happen.
void watch_lab_idle(uv_loop_t *loop, unsigned int ms);

// Run the loop until all handles are closed, and close the loop. If a handle is left open, the test
// fails here.
void watch_lab_close(uv_loop_t *loop);

struct weir_address watch_lab_address(const char *text);
