// SPDX-License-Identifier: BSD-3-Clause
//
// The former addresses of a backend whose drain weirctl waits for. A reload may change the address
// of a backend while connections to the old address are open. backend.show then has a removed
// backend with the same name and the old address. Used by drain.c, in its thread.
#pragma once

#include <jansson.h>
#include <stddef.h>

// Add removed backends to the row of the configured backend of the same name. rows: result of
// backend.show. Changes these keys of the row:
//   open_flows         becomes the sum over all rows
//   drain              if present, becomes the drain with the least progress, with the sums of the
//                      kept and dropped flows
//   former_open_flows  is added: open flows of the removed backends
//   former_addresses   is added: addresses of the removed backends that have open flows
void weir_drain_add_former(json_t *row, const json_t *rows);

// Writes the text for a row of weir_drain_add_former: "3 open flows of its former address
// 10.0.0.11"; "" if there are no such flows. Returns text.
const char *weir_drain_former_text(const json_t *row, char *text, size_t bytes);
