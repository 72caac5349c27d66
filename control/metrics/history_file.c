// SPDX-License-Identifier: BSD-3-Clause
#include "history_file.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text_file.h"

static int path_of(const char *directory, char path[PATH_MAX]) {
	int n = snprintf(path, PATH_MAX, "%s/history.json", directory);

	return n < PATH_MAX ? 0 : -ENAMETOOLONG;
}

static int explain(int error, const char *what, const char *path, char *why, size_t why_bytes) {
	snprintf(why, why_bytes, "%s %.200s: %s", what, path, strerror(-error));
	return error;
}

static int parse(const char *buffer, size_t bytes, uint64_t now_ms, struct weir_history *history) {
	json_t *json = json_loadb(buffer, bytes, JSON_REJECT_DUPLICATES, NULL);
	int r = json != NULL ? weir_history_parse(json, now_ms, history) : -EINVAL;

	json_decref(json);
	return r;
}

int weir_history_read(const char *directory, uint64_t now_ms, struct weir_history *history,
	char *why, size_t why_bytes) {
	char *text = NULL, path[PATH_MAX] = "";
	int r = path_of(directory, path);
	size_t bytes;

	if (r == 0) {
		r = weir_text_file_read_own(path, WEIR_HISTORY_FILE_BYTES, &text, &bytes);
	}
	if (r == 0) {
		r = parse(text, bytes, now_ms, history);
	}
	free(text);
	if (r == -EINVAL) {
		snprintf(why, why_bytes,
			"%.200s is not a history file of this version of weir-metrics: the plots "
			"start empty",
			path);
		return r;
	}
	return r < 0 && r != -ENOENT ? explain(r, "cannot read", path, why, why_bytes) : r;
}

int weir_history_write(const char *directory, const json_t *json, char *why, size_t why_bytes) {
	char *text = json_dumps(json, JSON_COMPACT), path[PATH_MAX] = "";
	int r = text != NULL ? path_of(directory, path) : -ENOMEM;

	if (r == 0) {
		r = strlen(text) <= WEIR_HISTORY_FILE_BYTES ? weir_text_file_replace(path, text)
							    : -EFBIG;
	}
	free(text);
	return r < 0 ? explain(r, "cannot write", path, why, why_bytes) : 0;
}
