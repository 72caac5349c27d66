// SPDX-License-Identifier: BSD-3-Clause
//
// Static stride schedule: scales the weights of weighted round robin to strides of 1..65535.
// Source: grpc-core's static stride scheduler, gRFC A58.
//
// Called by weir-control and by the simulator, on any thread.
#pragma once

#include "policy.h"

// Sets the stride of each candidate from its weight. reported: the weights come from load
// reports. A reported weight below 1 % of the mean is raised to 1 %, and a weight above 10 times
// the mean is lowered to 10 times the mean; 0 (unknown) becomes the mean. The ratios of configured
// weights are kept as far as 16 bits allow; a backend with weight 0 gets no flows.
void weir_stride_scale(struct weir_candidate *candidates, uint32_t n, bool reported);
