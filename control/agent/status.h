// SPDX-License-Identifier: BSD-3-Clause
//
// Status of `weir-agent run`: built there as JSON, shown by `weir-agent status`.
//
// Threads: one.
#pragma once

#include <jansson.h>
#include <stdio.h>

struct weir_service;

// Owned by the caller. NULL = out of memory.
json_t *weir_status_make(struct weir_service *service);
// The drain's part of the status.
json_t *weir_status_drain(const struct weir_service *service);

// The number of connections that a drain waits for, as text: it may be unknown. Returns text.
#define WEIR_STATUS_COUNT_BYTES 32
const char *weir_status_connections(const json_t *drain, char text[WEIR_STATUS_COUNT_BYTES]);

// As text.
void weir_status_write(const json_t *status, FILE *out);
