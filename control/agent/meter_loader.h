// SPDX-License-Identifier: BSD-3-Clause
//
// Meter loader: loads meter.bpf.c and attaches the program. The kernel detaches the program when
// the process exits for any reason.
//
// Needs Linux 5.9 or newer with BTF, and the capabilities CAP_BPF and CAP_PERFMON.
//
// Threads: one. No logging; why gets one line: the error and its remedy.
#pragma once

#include <stddef.h>
#include <stdint.h>

struct weir_meter_program;

struct weir_meter_params {
	const uint16_t *ports; // local ports of the connections to measure
	uint32_t port_count;
	uint32_t connections; // maximum number of open connections; 0 = WEIR_METER_CONNECTIONS
};

// Start to measure the connections of this network namespace. Connections that are already open are
// counted, but their service time is not measured. Returns 0, -EPERM, -ENOENT (no BTF), ...
int weir_meter_load(const struct weir_meter_params *params, struct weir_meter_program **ret,
	char *why, size_t why_bytes);
void weir_meter_unload(struct weir_meter_program *program); // NULL is allowed

// Returns the descriptor for weir_meter_open, which can also be passed to another process. Owned by
// the program; valid until weir_meter_unload.
int weir_meter_fd(const struct weir_meter_program *program);
