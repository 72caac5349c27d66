// SPDX-License-Identifier: BSD-3-Clause
//
// Runs a fuzz target on the files of the corpus as an ordinary test, without libFuzzer.
//
// Arguments: files and folders; subfolders are not searched. Fails if there is no file at all.
#include <dirent.h>
#include <sys/stat.h>

#include "fuzz.h"

#pragma weak LLVMFuzzerInitialize

static int replay_file(const char *path) {
	FILE *file = fopen(path, "rb");
	uint8_t *data;
	long bytes;

	if (file == NULL || fseek(file, 0, SEEK_END) || (bytes = ftell(file)) < 0) {
		perror(path);
		exit(1);
	}
	rewind(file);
	data = malloc(bytes ? (size_t)bytes : 1);
	if (data == NULL || fread(data, 1, (size_t)bytes, file) != (size_t)bytes) {
		perror(path);
		exit(1);
	}
	fclose(file);
	fprintf(stderr, "%s\n", path);
	LLVMFuzzerTestOneInput(data, (size_t)bytes);
	free(data);
	return 1;
}

static int replay(const char *path) {
	struct dirent *entry;
	int files = 0;
	struct stat info;
	DIR *folder;

	if (stat(path, &info)) {
		perror(path);
		exit(1);
	}
	if (!S_ISDIR(info.st_mode)) {
		return replay_file(path);
	}
	folder = opendir(path);
	while (folder != NULL && (entry = readdir(folder))) {
		char inner[4096];

		snprintf(inner, sizeof(inner), "%s/%s", path, entry->d_name);
		if (stat(inner, &info) == 0 && S_ISREG(info.st_mode)) {
			files += replay_file(inner);
		}
	}
	closedir(folder);
	return files;
}

int main(int argc, char **argv) {
	int files = 0;

	if (LLVMFuzzerInitialize) {
		LLVMFuzzerInitialize(&argc, &argv);
	}
	for (int i = 1; i < argc; i++) {
		files += replay(argv[i]);
	}
	printf("%d inputs replayed\n", files);
	return files > 0 ? 0 : 1;
}
