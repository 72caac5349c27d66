// SPDX-License-Identifier: BSD-3-Clause
//
// Fuzz target: arbitrary bytes as a keepalived.conf. The bytes after the first NUL of the input
// are the content of each included file, at any depth. The config ID is "fuzz", so lines that
// begin with "@fuzz" apply.
#include <errno.h>

#include "import_rig.h"
#include "keepalived.h"

struct included {
	const uint8_t *data;
	size_t bytes;
	unsigned int opened;
};

// Provides two files for each pattern. Provides at most 16 files in total, because files can
// include themselves.
static int open_file(void *context, const char *from, const char *pattern, unsigned int n,
	char **ret_name, char **ret_text, size_t *ret_bytes) {
	struct included *included = context;

	REQUIRE(from != NULL && pattern != NULL);
	if (n == 2 || included->opened == 16) {
		return -ENOENT;
	}
	included->opened++;
	*ret_name = strdup("included");
	*ret_text = malloc(included->bytes + 1);
	REQUIRE(*ret_name != NULL && *ret_text != NULL);
	if (included->bytes > 0) {
		memcpy(*ret_text, included->data, included->bytes);
	}
	*ret_bytes = included->bytes;
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
	const uint8_t *nul = bytes > 0 ? memchr(data, '\0', bytes) : NULL;
	size_t own = nul != NULL ? (size_t)(nul - data) : bytes;
	struct included included = {0};
	const struct weir_keepalived_files files = {
		.open = open_file, .context = &included, .id = "fuzz"};
	struct weir_import import;

	if (nul != NULL) {
		included.data = nul + 1;
		included.bytes = bytes - own - 1;
	}
	REQUIRE(weir_import_init(&import) == 0);
	weir_import_keepalived(&import, &files, SOURCE, (const char *)data, own);
	check_import(&import);
	return 0;
}
