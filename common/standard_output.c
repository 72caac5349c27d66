// SPDX-License-Identifier: BSD-3-Clause
#include "standard_output.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

void weir_standard_output_claim(void) {
	int fd;

	do { // open() returns the lowest free descriptor
		fd = open("/dev/null", O_RDONLY);
	} while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0) {
		close(fd);
	}
}

bool weir_standard_output_finish(const char *program, FILE *out, FILE *err) {
	if (fflush(out) != 0) {
		fprintf(err, "%s: cannot write to standard output: %s\n", program, strerror(errno));
		return false;
	}
	if (ferror(out)) { // an earlier write has failed; its errno is no longer known
		fprintf(err, "%s: could not write all output to standard output\n", program);
		return false;
	}
	return true;
}
