// SPDX-License-Identifier: BSD-3-Clause
//
// Steer attach: the BPF side of AF_XDP ports. The driver loads and attaches the steer program
// (bpf/steer.bpf.c); this module finds its VIP map, for the control process, and detaches a stale
// program that a killed dataplane has left on the interface.
//
// Threads: main, while it still has its capabilities.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "log.h"

// Write warnings of libbpf and libxdp, which the driver uses too, to this log.
// log must outlive the libraries.
void weir_steer_take_messages(const struct weir_log *log);

// A claim to an interface: held by one dataplane at a time in a network namespace, released by the
// kernel when its holder exits for any reason. It is an abstract unix socket; its holder's
// credentials are checked, and a claim of an unprivileged user is ignored. Returns a descriptor to
// keep open, -EBUSY (why names the other process), or negative errno.
int weir_steer_claim(uint32_t ifindex, const char *interface, char *why, size_t why_bytes);

// Detach a stale steer program from the interface. Call with the claim held: then its dataplane has
// exited. Any other program stays: -EBUSY, and why says how to detach it. Returns 1 (detached), 0
// (there was none), or negative errno.
int weir_steer_clear(uint32_t ifindex, const char *interface, char *why, size_t why_bytes);

// The VIP map of the program on the interface, alone or under libxdp's dispatcher.
// Returns a descriptor, -ENOENT (no program there has one), or negative errno.
int weir_steer_map(uint32_t ifindex);
