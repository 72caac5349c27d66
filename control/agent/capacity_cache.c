// SPDX-License-Identifier: BSD-3-Clause
#include "capacity_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "capacity_loop.h"
#include "text_file.h"

int weir_capacity_cache_open(const char *run_dir, int how) {
	int flags = how == WEIR_CAPACITY_CACHE_CREATE ? O_RDWR | O_CREAT : O_RDONLY;
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", run_dir, WEIR_CAPACITY_CACHE);
	return weir_text_file_open_own(path, flags, 0644);
}

static bool has_text(const json_t *object, const char *key, const char *wanted) {
	const char *text = json_string_value(json_object_get(object, key));

	return text != NULL && strcmp(text, wanted) == 0;
}

int weir_capacity_cache_parse(
	const char *text, size_t bytes, const struct weir_capacity_cpu *cpu, double *ret_gcu) {
	json_t *object = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, NULL);
	const json_t *loop = json_object_get(object, "loop");
	double gcu = json_number_value(json_object_get(object, "gcu"));
	bool good = json_is_integer(loop) &&
		    json_integer_value(loop) == WEIR_CAPACITY_LOOP_VERSION &&
		    has_text(object, "cpu", cpu->model) &&
		    has_text(object, "stepping", cpu->stepping) && gcu >= WEIR_CAPACITY_LEAST_GCU &&
		    gcu <= WEIR_CAPACITY_MOST_GCU;

	json_decref(object);
	if (!good) {
		return -ENOENT;
	}
	*ret_gcu = gcu;
	return 0;
}

int weir_capacity_cache_read(int fd, const struct weir_capacity_cpu *cpu, double *ret_gcu) {
	char text[WEIR_CAPACITY_CACHE_BYTES + 1];
	ssize_t n = pread(fd, text, sizeof(text), 0);

	if (n < 0) {
		return -errno;
	}
	return n != WEIR_CAPACITY_CACHE_BYTES
		       ? -ENOENT
		       : weir_capacity_cache_parse(text, (size_t)n, cpu, ret_gcu);
}

int weir_capacity_cache_write(int fd, const struct weir_capacity_cpu *cpu, double gcu) {
	char text[WEIR_CAPACITY_CACHE_BYTES];
	json_t *object = json_pack("{s:i, s:s, s:s, s:f}", "loop", WEIR_CAPACITY_LOOP_VERSION,
		"cpu", cpu->model, "stepping", cpu->stepping, "gcu", gcu);
	size_t n = object == NULL ? sizeof(text)
				  : json_dumpb(object, text, sizeof(text),
					    JSON_REAL_PRECISION(6) | JSON_PRESERVE_ORDER);
	ssize_t written;

	json_decref(object);
	if (n == 0 || n >= sizeof(text)) {
		return -ENOSPC;
	}
	memset(text + n, ' ', sizeof(text) - n);
	text[sizeof(text) - 1] = '\n';
	written = pwrite(fd, text, sizeof(text), 0);
	return written == sizeof(text) ? 0 : written < 0 ? -errno : -ENOSPC;
}
