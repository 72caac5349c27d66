// SPDX-License-Identifier: BSD-3-Clause
//
// Closed port: handles a packet to a port that belongs to no service, or to a bind that accepts no
// new flows. Called by new_flow.c and move_flow.c.
//
// Threads: part of a pipeline, used only by the worker of the pipeline.
#pragma once

#include "burst.h"

// Set the verdict of TCP or UDP packet i as closed_ports of the VIP specifies: kernel, drop or
// reject. A packet to no VIP goes to the kernel. For a packet to a drained bind, reject applies
// instead of kernel. A packet that gets a reply counts as dropped. [worker]
void weir_closed_port(struct weir_burst *b, unsigned int i);
