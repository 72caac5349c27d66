// SPDX-License-Identifier: BSD-3-Clause
//
// Predict: computes the possible outcomes of a packet from the possible states of its flow.
//
// Threads: one.
#pragma once

#include "trial.h"

// The outcomes of a packet whose flow is in this state, at this backend (no backend if
// FLOW_ABSENT).
void predict_flow(struct trial *trial, uint32_t state, int backend);
// The outcomes of an ICMP error about a flow in this state, at this backend.
void predict_error(struct trial *trial, uint32_t state, int backend);
// The outcomes of a fragment that follows the first fragment to this backend. choice: FLOW or
// DATAGRAM, as of the first fragment.
void predict_later(struct trial *trial, int backend, uint8_t choice);
// The outcomes of a packet that belongs to no flow.
void predict_other(struct trial *trial);
// The outcomes of a packet that is dropped for one of these reasons.
void predict_drop(struct trial *trial, uint64_t reasons);
void predict_kernel(struct trial *trial);
