// SPDX-License-Identifier: BSD-3-Clause
//
// Steer attach: the BPF side of AF_XDP ports. The driver loads and attaches the steer program
// (bpf/steer.bpf.c); here its VIP map is found again, to be handed to the control process, and a
// stale program that a killed dataplane has left on the interface is detached.
//
// Threads: main, while it still has its capabilities.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "log.h"

// Let warnings of libbpf and libxdp, which the driver uses too, look like the rest of the log.
// log must outlive the libraries.
void weir_steer_take_messages(const struct weir_log *log);

// A claim to an interface: held by one dataplane at a time in a network namespace, released by the
// kernel when its holder dies, however that happens. It is an abstract unix socket, whose holder
// can be asked for: a user without rights who squats on it is ignored.
// Returns a descriptor to keep open, -EBUSY (why names the other process), or negative errno.
int weir_steer_claim(uint32_t ifindex, const char *interface, char *why, size_t why_bytes);

// Detach a stale steer program from the interface. Call with the claim held: its dataplane is dead
// then. Any other program stays: -EBUSY, and why says how to detach it.
// Returns 1 (detached), 0 (there was none), or negative errno.
int weir_steer_clear(uint32_t ifindex, const char *interface, char *why, size_t why_bytes);

// The VIP map of the program on the interface, alone or under libxdp's dispatcher.
// Returns a descriptor, -ENOENT (no program there has one), or negative errno.
int weir_steer_map(uint32_t ifindex);
