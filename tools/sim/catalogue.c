// SPDX-License-Identifier: BSD-3-Clause
#include "catalogue.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "scenario.h"

#define SUFFIX ".json"
#define PATH_BYTES 4096

static const char fallback[] = "tools/sim/scenarios";

static bool is_directory(const char *path) {
	struct stat status;

	return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

const char *weir_sim_catalogue_directory(const char *wanted, const char *installed) {
	if (wanted != NULL) {
		return wanted;
	}
	return !is_directory(installed) && is_directory(fallback) ? fallback : installed;
}

static bool has_suffix(const char *name) {
	size_t bytes = strlen(name);

	return bytes > strlen(SUFFIX) && strcmp(name + bytes - strlen(SUFFIX), SUFFIX) == 0;
}

void weir_sim_catalogue_path(
	const char *directory, const char *operand, char *ret_path, size_t bytes) {
	if (strchr(operand, '/') != NULL || has_suffix(operand)) {
		snprintf(ret_path, bytes, "%s", operand);
	} else {
		snprintf(ret_path, bytes, "%s/%s" SUFFIX, directory, operand);
	}
}

static int is_scenario(const struct dirent *entry) {
	return entry->d_name[0] != '.' && has_suffix(entry->d_name);
}

static int print_one(const char *path, FILE *stream, FILE *errors) {
	struct weir_config_errors wrong = {0};
	struct weir_sim_file *file;
	int r = weir_sim_file_read(path, &file, &wrong);

	if (r < 0) {
		fprintf(errors, "%s is not a valid scenario; run: weir-sim check %s\n", path, path);
	} else {
		fprintf(stream, "%-26s %s\n", file->name, file->title);
		weir_sim_file_free(file);
	}
	weir_config_errors_fini(&wrong);
	return r < 0 ? -EINVAL : 0;
}

int weir_sim_catalogue_print(const char *directory, FILE *stream, FILE *errors) {
	struct dirent **entry;
	int count = scandir(directory, &entry, is_scenario, alphasort);
	int r = 0;

	if (count < 0) {
		r = -errno;
		fprintf(errors, "%s: %s\n", directory, strerror(-r));
		return r;
	}
	for (int i = 0; i < count; i++) {
		char path[PATH_BYTES];

		snprintf(path, sizeof(path), "%s/%s", directory, entry[i]->d_name);
		if (print_one(path, stream, errors) < 0) {
			r = -EINVAL;
		}
		free(entry[i]);
	}
	free(entry);
	return r;
}
