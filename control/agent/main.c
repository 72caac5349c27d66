// SPDX-License-Identifier: BSD-3-Clause
//
// weir-agent: runs on a backend, decapsulates, and reports its state and load to the balancers; see
// --help.
#include <stdio.h>

#include "help_text.h"
#include "run.h"
#include "weir_version.h"

int main(int argc, char **argv) {
	struct weir_agent_options options;
	char why[256] = "", help[WEIR_HELP_BYTES];

	if (weir_agent_options_parse(argc, argv, &options, why, sizeof(why))) {
		fprintf(stderr, "weir-agent: %s\nTry: weir-agent --help\n", why);
		return WEIR_AGENT_USAGE;
	}
	if (options.help || options.version) {
		fputs(options.help ? weir_agent_help(help, sizeof(help))
				   : "weir-agent " WEIR_VERSION "\n",
			stdout);
		return WEIR_AGENT_DONE;
	}
	return weir_agent_run(&options);
}
