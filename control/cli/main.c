// SPDX-License-Identifier: BSD-3-Clause
#include <stdlib.h>

#include "cli.h"

int main(int argc, char **argv) {
	return weir_cli_main(argc, argv, getenv("WEIR_RUN_DIR"), stdout, stderr);
}
