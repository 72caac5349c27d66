// SPDX-License-Identifier: BSD-3-Clause
//
// Closed port: a packet to a port that belongs to no service. Called by new_flow.c and slow_path.c.
//
// Threads: part of a pipeline; its worker only.
#pragma once

#include "burst.h"

// Give TCP or UDP packet i, whose service is not known, its verdict: for the kernel, or what
// closed_ports of its VIP asks for. A packet that is answered counts as dropped. [worker]
void weir_closed_port(struct weir_burst *b, unsigned int i);
