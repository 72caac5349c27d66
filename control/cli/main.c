// SPDX-License-Identifier: BSD-3-Clause
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli.h"

// A file or the control socket would take the place of a standard descriptor that is closed, and
// get what is printed. What is written to these fails instead.
static void fill_closed(void) {
	int fd;

	do { // the lowest that is free
		fd = open("/dev/null", O_RDONLY);
	} while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0) {
		close(fd);
	}
}

int main(int argc, char **argv) {
	fill_closed();
	return weir_cli_main(argc, argv, getenv("WEIR_RUN_DIR"), stdout, stderr);
}
