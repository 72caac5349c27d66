// SPDX-License-Identifier: BSD-3-Clause
//
// replay-vectors [-v] FILE...: replays files of recorded traces (replay.h).
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "replay.h"

struct format {
	const char *name;
	bool (*recognise)(const json_t *root);
	void (*replay)(struct replay *replay, const json_t *root);
};

static const struct format formats[] = {
#define X(name) {#name, replay_##name##_recognise, replay_##name},
	REPLAY_FORMATS(X)
#undef X
};

enum { FORMATS = sizeof(formats) / sizeof(formats[0]) };

static void usage(FILE *to) {
	fprintf(to,
		"usage: replay-vectors [-v] FILE...\n"
		"Replays recorded traces of selection, statistics, schedules and Maglev tables, "
		"case by case.\n"
		"  -v  name the cases that pass, too\n"
		"Exit status: 0 all passed, 1 some failed, 2 usage.\n"
		"Formats:");
	for (unsigned int i = 0; i < FORMATS; i++) {
		fprintf(to, " %s", formats[i].name);
	}
	fprintf(to, "\nExample: replay-vectors -v tests/vectors/schedules.json\n");
}

static const struct format *recognise(const json_t *root) {
	for (unsigned int i = 0; i < FORMATS; i++) {
		if (formats[i].recognise(root)) {
			return &formats[i];
		}
	}
	return NULL;
}

// A file that cannot be replayed is one failed case.
static void fail_file(struct replay *replay, const char *reason) {
	replay_begin(replay, "file");
	replay_fail(replay, "%s", reason);
	replay_end(replay);
}

static void replay_file(struct replay *replay) {
	const struct format *format;
	json_error_t error;
	json_t *root = json_load_file(replay->file, JSON_REJECT_DUPLICATES, &error);
	char reason[400];

	if (root == NULL) {
		snprintf(reason, sizeof(reason), "line %d: %s", error.line, error.text);
		fail_file(replay, reason);
		return;
	}
	format = json_is_object(root) ? recognise(root) : NULL;
	if (format == NULL) {
		fail_file(replay, "unknown format");
	} else {
		format->replay(replay, root);
		if (replay->passed + replay->failed == 0) {
			fail_file(replay, "no case in it");
		}
		printf("%s: %s: %lu passed, %lu failed\n", replay->file, format->name,
			replay->passed, replay->failed);
	}
	json_decref(root);
}

int main(int argc, char **argv) {
	unsigned long passed = 0, failed = 0;
	bool verbose = false;
	int option;

	while ((option = getopt(argc, argv, "vh")) != -1) {
		if (option == 'h') {
			usage(stdout);
			return 0;
		}
		if (option != 'v') {
			usage(stderr);
			return 2;
		}
		verbose = true;
	}
	if (optind == argc) {
		usage(stderr);
		return 2;
	}
	for (int i = optind; i < argc; i++) {
		struct replay replay = {.file = argv[i], .verbose = verbose};

		replay_file(&replay);
		passed += replay.passed;
		failed += replay.failed;
	}
	printf("%lu passed, %lu failed\n", passed, failed);
	return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
