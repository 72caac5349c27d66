// SPDX-License-Identifier: BSD-3-Clause
//
// Former addresses of a backend, while weirctl waits for the end of its drain. A reload may change
// the address of a backend while connections to the old address are open. backend.show then lists a
// removed backend with the same name and the old address. Used by drain.c, in its thread.
#pragma once

#include <jansson.h>
#include <stddef.h>

// Add the values of removed backends to the row of the configured backend with the same name. rows:
// result of backend.show. Changes these keys of the row:
//   open_flows         becomes the sum over all rows
//   drain              if present, becomes the drain with the least progress, with the sums of the
//                      kept and dropped flows
//   former_open_flows  is added: open flows of the removed backends
//   former_addresses   is added: addresses of the removed backends that have open flows
void weir_drain_add_former(json_t *row, const json_t *rows);

// Writes the flows of former addresses as text, such as "3 open flows of its previous address
// 10.0.0.11"; "" if there are no such flows. row: changed by weir_drain_add_former. Returns text.
const char *weir_drain_former_text(const json_t *row, char *text, size_t bytes);
