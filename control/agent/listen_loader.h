// SPDX-License-Identifier: BSD-3-Clause
//
// Listen loader: loads listen.bpf.c and attaches the program. The program stays attached while any
// process, even without privileges, holds the descriptor of the attachment.
//
// Needs Linux 5.8 or newer with BTF, and the capabilities CAP_BPF and CAP_PERFMON.
//
// Threads: one. No logging; why gets one line: the error and its remedy.
#pragma once

#include <stddef.h>
#include <stdint.h>

struct weir_listen_program { // descriptors, owned by the caller; -1 = none
	int ring; // ring buffer, for weir_listen_open
	int attachment;
};

// Start to report when a socket on one of these TCP ports in this network namespace starts or stops
// listening. Returns 0, -EPERM, -ENOENT (no BTF), ...
int weir_listen_load(const uint16_t *ports, uint32_t port_count, struct weir_listen_program *ret,
	char *why, size_t why_bytes);
void weir_listen_unload(struct weir_listen_program *program);
