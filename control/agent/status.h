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

// In words.
void weir_status_write(const json_t *status, FILE *out);
