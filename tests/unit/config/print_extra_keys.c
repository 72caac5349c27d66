// SPDX-License-Identifier: BSD-3-Clause
//
// The table of extra_key.h as JSON, for check_schema.py.
#include "extra_key.h"
#include "print_keys.h"

int main(void) {
	struct extra_keys extra;

	extra_keys_init(&extra);
	return weir_config_print_keys(&extra.root, stdout) ? 1 : 0;
}
