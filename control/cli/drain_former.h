// SPDX-License-Identifier: BSD-3-Clause
//
// The former addresses of a backend whose drain weirctl waits for. A reload gave it another
// address, and connections to the old one are still open: backend.show has a removed backend of the
// same name for each. Used by drain.c, in its thread.
#pragma once

#include <jansson.h>
#include <stddef.h>

// Add the removed backends among the rows of backend.show, all of one name, to the row of the live
// one. "open_flows" are those of all then, "drain" (if the live one has one) is that of the backend
// that is least far, with the flows kept and dropped of all; "former_open_flows" and
// "former_addresses" are those of the removed ones with open flows.
void weir_drain_add_former(json_t *row, const json_t *rows);

// "3 open flows of its former address 10.0.0.11", of such a row; "" if there are none. Returns
// text.
const char *weir_drain_former_text(const json_t *row, char *text, size_t bytes);
