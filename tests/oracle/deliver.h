// SPDX-License-Identifier: BSD-3-Clause
//
// Deliver: the outcomes of a packet that goes to a backend. The backend may be removed, down or
// without a next hop, and the packet may be too big for it.
//
// Threads: one.
#pragma once

#include "trial.h"

// Sends the packet to next->backend, if this backend still exists. next->backend is not NOBODY.
void deliver(struct trial *trial, const struct next *next);
// The policy chooses again, because the flow's backend gets no new flows. The packet may also go
// to the flow's current backend. states: of the flow at another backend.
void deliver_to_another(struct trial *trial, const struct next *next, uint32_t states);
