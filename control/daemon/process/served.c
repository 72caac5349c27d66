// SPDX-License-Identifier: BSD-3-Clause
#include "served.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "text_file.h"

#define TEXT_BYTES 64

// Reads the file. Returns 0 or negative errno. An invalid file is that of an unknown dataplane.
static int read_file(const char *path, uint64_t *ret_epoch, uint64_t *ret_since_ms) {
	size_t bytes;
	char *text;
	int r = weir_text_file_read_own(path, TEXT_BYTES, &text, &bytes);

	if (r < 0) {
		return r;
	}
	if (sscanf(text, "%" SCNx64 " %" SCNu64, ret_epoch, ret_since_ms) != 2) {
		*ret_epoch = 0;
	}
	free(text);
	return 0;
}

int weir_served_note(const char *run_dir, uint64_t epoch, uint64_t now_ms, uint64_t *ret_since_ms) {
	char path[PATH_MAX], text[TEXT_BYTES];
	uint64_t served, since_ms;
	int r;

	*ret_since_ms = now_ms;
	if (snprintf(path, sizeof(path), "%s/" WEIR_SERVED_FILE, run_dir) >= (int)sizeof(path)) {
		return -ENAMETOOLONG;
	}
	r = read_file(path, &served, &since_ms);
	if (r == 0 && served == epoch) {
		*ret_since_ms = since_ms < now_ms ? since_ms : now_ms;
		return 0;
	}
	*ret_since_ms = r == -ENOENT ? 0 : now_ms;
	snprintf(text, sizeof(text), "%016" PRIx64 " %" PRIu64 "\n", epoch, *ret_since_ms);
	return weir_text_file_replace(path, text);
}
