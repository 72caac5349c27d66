// SPDX-License-Identifier: BSD-3-Clause
//
// gRPC health protocol, grpc.health.v1.Health/Check: encodes the request and decodes the answer.
// libcurl transports both over HTTP/2. Each message is preceded by a flag and a length of 32 bits.
//
// Threads: any; no shared state.
#pragma once

#include <stddef.h>
#include <stdint.h>

#define WEIR_GRPC_PATH "/grpc.health.v1.Health/Check"
#define WEIR_GRPC_REQUEST_BYTES 272
#define WEIR_GRPC_ANSWER_BYTES 64 // a longer answer is not valid
#define WEIR_GRPC_SERVING 1

// Encode the request for a service, "" = the server as a whole. Returns the length in bytes.
size_t weir_grpc_request(const char *service, uint8_t ret[WEIR_GRPC_REQUEST_BYTES]);

// Returns the serving status of an answer, or -EINVAL if the answer is not valid.
int weir_grpc_answer(const uint8_t *bytes, size_t n);

// Returns e.g. "SERVING"; "an unknown serving status" if the status has no name.
const char *weir_grpc_serving_name(int status);
// Returns the name of a grpc-status, e.g. "NOT_FOUND"; "UNKNOWN" if the status has no name.
const char *weir_grpc_status_name(int status);
