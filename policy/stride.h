// SPDX-License-Identifier: BSD-3-Clause
//
// Static stride schedule: the weights of weighted round robin, scaled to 1..65535. Source:
// grpc-core's static stride scheduler, gRFC A58.
//
// Threads: any; control and simulator.
#pragma once

#include "policy.h"

// Set the stride of each candidate from its weight. reported: the weights come from load reports.
// Reported weights are limited to between 1 % and 10 times the mean, and 0 (unknown) becomes the
// mean. Configured weights keep their ratios as far as 16 bits allow, and 0 means no flows.
void weir_stride_scale(struct weir_candidate *candidates, uint32_t n, bool reported);
