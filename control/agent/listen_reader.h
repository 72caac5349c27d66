// SPDX-License-Identifier: BSD-3-Clause
//
// Listen reader: reads the records of listen.bpf.c from the ring buffer. Needs no privilege.
//
// Threads: one. No logging.
#pragma once

#include <stdbool.h>

#include "listen.h"

struct weir_listen_reader;

// Open the ring buffer. fd: descriptor from weir_listen_load, owned by the caller; it becomes
// readable when a record arrives. Returns 0 or negative errno.
int weir_listen_open(int fd, struct weir_listen_reader **ret);
void weir_listen_close(struct weir_listen_reader *reader); // NULL is allowed

// Remove the oldest record from the ring buffer, and copy it to *ret. Returns false if there is no
// record.
bool weir_listen_take(struct weir_listen_reader *reader, struct weir_listen_event *ret);
