// SPDX-License-Identifier: BSD-3-Clause
//
// Capture session: a capture from start to end, for the commands that show its packets. The capture
// ends after --packets or --duration, on ^C (SIGINT, SIGTERM, SIGHUP), when weir-control ends the
// capture, or when the connection to weir-control is closed.
//
// Threads: one. SIGINT, SIGTERM and SIGHUP are blocked between begin and free.
#pragma once

#include "command.h"

struct weir_capture_session;

// Start a capture. request: the request capture.start. If the request is refused, prints the
// reason. Returns enum weir_cli_exit; after WEIR_CLI_DONE the caller owns *ret.
int weir_capture_session_begin(
	struct weir_cli *cli, const json_t *request, struct weir_capture_session **ret);
void weir_capture_session_free(struct weir_capture_session *capture); // NULL is allowed

// Returns the names of the dataplane's ports, valid until weir_capture_session_free.
json_t *weir_capture_session_ports(const struct weir_capture_session *capture);

// Read the packets since the last call. *ret_packets: an array, valid until the next call. Waits up
// to a second for a packet. Prints errors, and once if workers are stalled: their packets are not
// captured. Returns enum weir_cli_exit; call this function again
// only after WEIR_CLI_DONE.
int weir_capture_session_read(struct weir_capture_session *capture, json_t **ret_packets);
// Returns why there are no more packets to read: "packets" (--packets is reached), "duration",
// "interrupt", or the reason in weir-control's reply. Returns NULL if more packets may follow.
const char *weir_capture_session_ended(struct weir_capture_session *capture);

// Wait until a write of up to 4,096 bytes (PIPE_BUF) to fd can complete without blocking, or fd has
// failed; then returns true. Returns false on ^C. fd: in blocking mode; -1 = returns true
// immediately.
bool weir_capture_session_may_write(struct weir_capture_session *capture, int fd);
// Wait for `ms` milliseconds, or until ^C.
void weir_capture_session_pause(struct weir_capture_session *capture, int ms);

// Stop the capture if it is running. Prints errors. Returns enum weir_cli_exit: WEIR_CLI_REFUSED
// also if weir-control has ended the capture before --packets was reached, or a worker was stalled.
int weir_capture_session_stop(struct weir_capture_session *capture);

// weir_capture_session_lost returns the number of packets that did not fit into the rings of the
// workers. weir_capture_session_limited returns the number of packets above the maximum rate. Both
// numbers count from the start of the capture to the last reply of weir-control.
json_int_t weir_capture_session_lost(const struct weir_capture_session *capture);
json_int_t weir_capture_session_limited(const struct weir_capture_session *capture);

// Returns whether at least `ms` milliseconds have passed since the start of the capture.
bool weir_capture_session_lasts(const struct weir_capture_session *capture, int ms);
