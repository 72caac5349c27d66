// SPDX-License-Identifier: BSD-3-Clause
#include <stdlib.h>

#include "cli.h"
#include "standard_output.h"

int main(int argc, char **argv) {
	weir_standard_output_claim();
	return weir_cli_main(argc, argv, getenv("WEIR_RUN_DIR"), stdout, stderr);
}
