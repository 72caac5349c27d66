// SPDX-License-Identifier: BSD-3-Clause
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli.h"

// If a standard descriptor is closed, a file or the control socket would get its number, and the
// output. Open descriptors that fail on writes instead.
static void fill_closed(void) {
	int fd;

	do { // the lowest free number
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
