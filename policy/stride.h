// SPDX-License-Identifier: BSD-3-Clause
//
// Static stride schedule: the weights of weighted round robin, scaled to 1..65535. Source:
// grpc-core's static stride scheduler, gRFC A58.
//
// Threads: any; control and simulator.
#pragma once

#include "policy.h"

// Set stride of each candidate from its weight. reported: the weights come from load reports, so
// the largest is capped at 10 times the mean, the smallest raised to 1 % of it, and 0 (unknown)
// becomes the mean. Otherwise ratios are kept as far as 16 bits allow, and 0 means never.
void weir_stride_scale(struct weir_candidate *candidates, uint32_t n, bool reported);
