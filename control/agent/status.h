// SPDX-License-Identifier: BSD-3-Clause
//
// Status of `weir-agent run`: made by it as JSON, shown by `weir-agent status`.
//
// Threads: one.
#pragma once

#include <jansson.h>
#include <stdio.h>

struct weir_service;

// The caller's. NULL = out of memory.
json_t *weir_status_make(struct weir_service *service);
// Its part about the drain.
json_t *weir_status_drain(const struct weir_service *service);

// How many connections a drain waits for, in words: the kernel may not tell. Returns text.
#define WEIR_STATUS_COUNT_BYTES 32
const char *weir_status_connections(const json_t *drain, char text[WEIR_STATUS_COUNT_BYTES]);

// In words.
void weir_status_write(const json_t *status, FILE *out);
