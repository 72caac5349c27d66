// SPDX-License-Identifier: BSD-3-Clause
//
// Meter helper: a child process that loads and unloads the meter on request, with CAP_BPF and
// CAP_PERFMON and no other capability. Therefore the process that reads datagrams needs no
// capability. The parent requests the meter only while a balancer requests values of the meter. At
// its start, the parent also makes the helper load the program that watches listening sockets. The
// helper exits when its parent exits.
//
// Threads: one. No logging.
#pragma once

#include <stdbool.h>

#include "listen_loader.h"
#include "meter_loader.h"

struct weir_meter_answer {
	bool loaded; // the meter is loaded
	int error; // 0 or negative errno
	int fd; // descriptor for weir_meter_open, which the receiver closes; -1 = none
	char why[192]; // describes the error
};

// Fork the helper. *ret: the parent's end of the connection, non-blocking; closing this descriptor
// terminates the child. Call this function before any thread is started. Returns 0 or negative
// errno.
int weir_meter_helper_start(const struct weir_meter_params *params, int *ret);

// Send a request to load or unload the meter. Each request gets one answer. Returns 0 or negative
// errno.
int weir_meter_helper_send(int fd, bool load);

// Receive the answer to a request. Returns 0, -EAGAIN (no answer yet), -EPIPE (the helper has
// exited), or another negative errno.
int weir_meter_helper_answer(int fd, struct weir_meter_answer *ret);

// Make the helper load the program that watches listening sockets on the meter's ports, and wait
// for the helper's answer. *ret: as from weir_listen_load, valid even after the helper has exited.
// Call this function before weir_meter_helper_send. Returns 0, -ETIMEDOUT or another negative
// errno.
int weir_meter_helper_watch(
	int fd, int timeout_ms, struct weir_listen_program *ret, char *why, size_t why_bytes);
