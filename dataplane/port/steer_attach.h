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

// Write warnings of libbpf and libxdp, which the driver also uses, to this log. log must outlive
// the libraries.
void weir_steer_take_messages(const struct weir_log *log);

// Claims an interface. In a network namespace, only one dataplane at a time can hold the claim of
// an interface. The kernel releases the claim when the holder exits for any reason.
//
// The claim is a UDP socket that is bound to the interface and to a privileged port of 127.0.0.1.
// No packet can arrive at this socket. Only processes with CAP_NET_BIND_SERVICE can claim an
// interface, unless net.ipv4.ip_unprivileged_port_start makes the port unprivileged. Returns a
// descriptor to keep open, -EBUSY (another process holds the claim), or another negative errno; why
// then receives one line.
int weir_steer_claim(uint32_t ifindex, const char *interface, char *why, size_t why_bytes);

// Detach a stale steer program from the interface. Call after weir_steer_claim, which proves that
// the dataplane of the program has exited. Returns 1 (detached), 0 (no program), -EBUSY (the
// interface has another program, which is not detached; why describes how to detach it), or another
// negative errno.
int weir_steer_clear(uint32_t ifindex, const char *interface, char *why, size_t why_bytes);

// Gets the VIP map of the steer program on the interface. The program may run under libxdp's
// dispatcher. Returns a descriptor, -ENOENT (no program has a VIP map), or another negative errno.
int weir_steer_map(uint32_t ifindex);
