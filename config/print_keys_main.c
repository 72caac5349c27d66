// SPDX-License-Identifier: BSD-3-Clause
#include "config_keys.h"
#include "print_keys.h"

int main(void) {
	return weir_config_print_keys(&weir_config_keys, stdout) ? 1 : 0;
}
