// SPDX-License-Identifier: BSD-3-Clause
#include "import_run.h"

#include <errno.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>

#include "import.h"
#include "import_report.h"
#include "ipvs.h"
#include "keepalived.h"
#include "terminal.h"
#include "text_file.h"

#define FILE_MOST (64u << 20) // maximum size of a file, in bytes
#define PATH_BYTES 4096
// Maximum number of branches in a pattern: pairs of braces, and path components with wildcards.
#define BRANCHES_MOST 3
#define ALTERNATIVES_MOST 64 // maximum number of commas, which separate alternatives in braces

// --- report -------------------------------------------------------------------------------

static void print_json(FILE *out, const struct weir_import *import) {
	json_t *report =
		json_pack("{s:b, s:O, s:O}", "ok", (int)(json_array_size(import->errors) == 0),
			"notes", import->notes, "errors", import->errors);

	weir_cli_print_json(out, report);
	json_decref(report);
}

// Write the notes and errors to the file of --report, or to standard error. Returns 0 or negative
// errno (printed).
static int write_report(const struct weir_cli *cli, const struct weir_import *import) {
	const bool all = cli->options->report != NULL || cli->options->all;
	const bool is_file = cli->options->report != NULL && strcmp(cli->options->report, "-") != 0;
	const char *file = is_file ? cli->options->report : NULL;
	FILE *out = file != NULL ? fopen(file, "w") : cli->err;
	char shown[PATH_BYTES];
	int r = 0;

	if (out == NULL) {
		r = -errno;
	} else {
		if (cli->options->json) {
			print_json(out, import);
		} else {
			weir_import_report_print(out, import, all);
		}
		if (file != NULL && (fflush(out) != 0 || ferror(out))) {
			r = -EIO;
		}
		if (file != NULL && fclose(out) != 0) {
			r = -EIO;
		}
	}
	if (r < 0) {
		fprintf(cli->err, "weirctl: cannot write %s: %s\n",
			weir_terminal_text(file, shown, sizeof(shown)), strerror(-r));
	}
	return r;
}

static int finish(struct weir_cli *cli, struct weir_import *import, const char *file) {
	const struct weir_import_place source = {.file = file};
	char *text = import->failed ? NULL : weir_import_finish(import, &source);
	int status = WEIR_CLI_REFUSED;

	if (import->failed) {
		fprintf(cli->err, "weirctl: out of memory\n");
	} else if (write_report(cli, import) == 0 && text != NULL) {
		fprintf(cli->out, "%s\n", text);
		status = WEIR_CLI_DONE;
	}
	free(text);
	weir_import_fini(import);
	return status;
}

// --- files --------------------------------------------------------------------------------

// Read the file of the command line, or standard input. *ret_name: the name of the file, for
// messages. Returns 0, or -1 after printing the error.
static int read_source(
	const struct weir_cli *cli, const char **ret_name, char **ret_text, size_t *ret_bytes) {
	const char *file = cli->count > 0 ? cli->words[0] : "-";
	bool standard_input = strcmp(file, "-") == 0;
	char shown[PATH_BYTES];
	int r = weir_text_file_read(
		standard_input ? "/dev/stdin" : file, FILE_MOST, ret_text, ret_bytes);

	*ret_name = standard_input ? "standard input" : file;
	if (r < 0) {
		fprintf(cli->err, "weirctl: cannot read %s: %s\n",
			weir_terminal_text(*ret_name, shown, sizeof(shown)), strerror(-r));
		return -1;
	}
	return 0;
}

// Result of the last include pattern. The files that match it are read one by one.
struct included {
	char pattern[PATH_BYTES]; // "" = none
	glob_t found; // files that match the pattern
};

// Returns whether glob(3) finishes quickly for this pattern. Each path component with wildcards,
// and each pair of braces, multiplies the number of paths that glob(3) checks ("/*/../*/../*",
// "{a,b}{a,b}{a,b}").
static bool is_bounded(const char *pattern) {
	unsigned int branches = 0, commas = 0;
	bool wild = false; // this path component has a wildcard

	for (; *pattern != '\0'; pattern++) {
		bool is_wildcard = strchr("*?[", *pattern) != NULL;

		branches += *pattern == '{' || (is_wildcard && !wild);
		commas += *pattern == ',';
		wild = *pattern != '/' && (wild || is_wildcard);
	}
	return branches <= BRANCHES_MOST && commas <= ALTERNATIVES_MOST;
}

static void forget(struct included *included) {
	if (included->pattern[0] != '\0') {
		globfree(&included->found);
		included->pattern[0] = '\0';
	}
}

// Find the files that match a pattern. Returns 0, -ENOENT (no file matches), -E2BIG (the pattern is
// too complex), or another negative errno.
static int find(struct included *included, const char *pattern) {
	int r;

	if (pattern[0] != '\0' && strcmp(included->pattern, pattern) == 0) {
		return 0;
	}
	forget(included);
	if (!is_bounded(pattern)) {
		return -E2BIG;
	}
	r = glob(pattern, GLOB_BRACE, NULL, &included->found);
	if (r != 0) {
		return r == GLOB_NOMATCH ? -ENOENT : r == GLOB_NOSPACE ? -ENOMEM : -EIO;
	}
	strcpy(included->pattern, pattern); // both buffers have the same size
	return 0;
}

// Implements weir_keepalived_files.open. A pattern that does not begin with "/" is relative to the
// directory of the file `from`.
static int open_included(void *context, const char *from, const char *pattern, unsigned int n,
	char **ret_name, char **ret_text, size_t *ret_bytes) {
	const char *slash = strrchr(from, '/');
	struct included *included = context;
	char path[PATH_BYTES];
	int r;

	r = snprintf(path, sizeof(path), "%.*s%s",
		pattern[0] == '/' || slash == NULL ? 0 : (int)(slash - from + 1), from, pattern);
	if (r < 0 || (size_t)r >= sizeof(path)) {
		return -ENAMETOOLONG;
	}
	r = find(included, path);
	if (r < 0) {
		return r;
	}
	if (n >= included->found.gl_pathc) {
		return -ENOENT;
	}
	*ret_name = strdup(included->found.gl_pathv[n]);
	r = *ret_name == NULL ? -ENOMEM
			      : weir_text_file_read_regular(included->found.gl_pathv[n], FILE_MOST,
					ret_text, ret_bytes);
	// For the caller, -ENOENT means the end of the list. This file is in the list, but cannot
	// be read.
	return r == -ENOENT ? -EIO : r;
}

// --- commands -----------------------------------------------------------------------------

// Parses the text of a file in one source format, and adds the result to an import.
typedef void (*reader)(struct weir_cli *cli, struct weir_import *import, const char *name,
	const char *text, size_t bytes);

static int run(struct weir_cli *cli, reader read) {
	struct weir_import import;
	const char *name;
	size_t bytes;
	char *text;

	if (read_source(cli, &name, &text, &bytes) < 0) {
		return WEIR_CLI_REFUSED;
	}
	import.failed = weir_import_init(&import) < 0;
	if (!import.failed) {
		read(cli, &import, name, text, bytes);
	}
	free(text);
	return finish(cli, &import, name);
}

static void read_ipvs(struct weir_cli *cli, struct weir_import *import, const char *name,
	const char *text, size_t bytes) {
	(void)cli;
	weir_import_ipvs(import, name, text, bytes);
}

static void read_keepalived(struct weir_cli *cli, struct weir_import *import, const char *name,
	const char *text, size_t bytes) {
	struct included included = {.pattern = ""};
	const struct weir_keepalived_files files = {
		.open = open_included, .context = &included, .id = cli->options->id};

	weir_import_keepalived(import, &files, name, text, bytes);
	forget(&included);
}

int weir_import_ipvs_run(struct weir_cli *cli, const struct weir_cli_command *command) {
	(void)command;
	return run(cli, read_ipvs);
}

int weir_import_keepalived_run(struct weir_cli *cli, const struct weir_cli_command *command) {
	(void)command;
	return run(cli, read_keepalived);
}
