// SPDX-License-Identifier: BSD-3-Clause
//
// A capture from start to end, for the commands that show its packets. It ends at --duration, on ^C
// (SIGINT, SIGTERM, SIGHUP), when weir-control ends it, or when weirctl exits: it belongs to the
// connection.
//
// Threads: one. The three signals are blocked between begin and free.
#pragma once

#include "command.h"

struct weir_capture_session;

// request: that of capture.start. Refusals are printed. Returns enum weir_cli_exit; if that is
// WEIR_CLI_DONE, the caller owns *ret.
int weir_capture_session_begin(
	struct weir_cli *cli, const json_t *request, struct weir_capture_session **ret);
void weir_capture_session_free(struct weir_capture_session *capture); // NULL is allowed

// Names of the dataplane's ports. Valid as long as the capture.
json_t *weir_capture_session_ports(const struct weir_capture_session *capture);

// The packets since the last call, an array that is valid until the next call; waits up to a second
// for one. Errors are printed. Returns enum weir_cli_exit; do not call it again after anything but
// WEIR_CLI_DONE.
int weir_capture_session_read(struct weir_capture_session *capture, json_t **ret_packets);
// Why there are no more packets to read: "packets", "duration", "interrupt", or weir-control's
// reason; NULL: more may follow.
const char *weir_capture_session_ended(struct weir_capture_session *capture);

// Wait until the blocking fd accepts a write of up to 4,096 bytes (PIPE_BUF), or has failed. fd -1:
// returns at once. Returns false on ^C.
bool weir_capture_session_may_write(struct weir_capture_session *capture, int fd);
// Wait for this time, or until ^C.
void weir_capture_session_pause(struct weir_capture_session *capture, int ms);

// Stop the capture if it runs. Errors are printed. Returns enum weir_cli_exit.
int weir_capture_session_stop(struct weir_capture_session *capture);

// Packets that were not captured, since the start: those that did not fit into the workers' rings,
// and those beyond the rate.
json_int_t weir_capture_session_lost(const struct weir_capture_session *capture);
json_int_t weir_capture_session_limited(const struct weir_capture_session *capture);

// Whether this many ms have passed since it began.
bool weir_capture_session_lasts(const struct weir_capture_session *capture, int ms);
