// SPDX-License-Identifier: BSD-3-Clause
//
// A capture from its start to its end, for the commands that show its packets. It ends at
// --duration, at ^C (SIGINT, SIGTERM, SIGHUP), when weir-control says so, or with weirctl: it
// belongs to the connection.
//
// Threads: one. The three signals are blocked between begin and free.
#pragma once

#include "command.h"

struct weir_capture_session;

// request: that of capture.start. Refusals are printed. Returns enum weir_cli_exit; *ret is the
// caller's if it is WEIR_CLI_DONE.
int weir_capture_session_begin(
	struct weir_cli *cli, const json_t *request, struct weir_capture_session **ret);
void weir_capture_session_free(struct weir_capture_session *capture); // NULL is fine

// Names of the dataplane's ports. Valid as long as the capture.
json_t *weir_capture_session_ports(const struct weir_capture_session *capture);

// The packets since the last call, an array that is valid until the next one; waits up to a second
// for some. What goes wrong is printed. Returns enum weir_cli_exit; not to be called again after
// anything but WEIR_CLI_DONE.
int weir_capture_session_read(struct weir_capture_session *capture, json_t **ret_packets);
// Why there are no more packets to be read: "packets", "duration", "interrupt", or what
// weir-control said; NULL: there may be.
const char *weir_capture_session_ended(struct weir_capture_session *capture);

// Wait until fd, which blocks, takes a write of up to 4,096 bytes (PIPE_BUF), or has failed. fd -1:
// at once. Returns false if ^C came first.
bool weir_capture_session_may_write(struct weir_capture_session *capture, int fd);
// Wait so long, or until ^C.
void weir_capture_session_pause(struct weir_capture_session *capture, int ms);

// Stop it, if it has not ended. What goes wrong is printed. Returns enum weir_cli_exit.
int weir_capture_session_stop(struct weir_capture_session *capture);

// Packets that were not read, since the start: those that the workers had no room for, and those
// beyond the rate.
json_int_t weir_capture_session_lost(const struct weir_capture_session *capture);
json_int_t weir_capture_session_limited(const struct weir_capture_session *capture);

// Whether so many ms have passed since it began.
bool weir_capture_session_lasts(const struct weir_capture_session *capture, int ms);
