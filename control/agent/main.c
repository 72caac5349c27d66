// SPDX-License-Identifier: BSD-3-Clause
//
// weir-agent: runs on a backend. Today it decapsulates; see --help.
#include <stdio.h>

#include "run.h"
#include "weir_version.h"

int main(int argc, char **argv) {
	struct weir_agent_arguments arguments;
	char why[256] = "";

	if (weir_agent_arguments_parse(argc, argv, &arguments, why, sizeof(why))) {
		fprintf(stderr, "weir-agent: %s\ntry: weir-agent --help\n", why);
		return WEIR_AGENT_USAGE;
	}
	if (arguments.help || arguments.version) {
		fputs(arguments.help ? weir_agent_arguments_usage()
				     : "weir-agent " WEIR_VERSION "\n",
			stdout);
		return WEIR_AGENT_DONE;
	}
	return weir_agent_run(&arguments);
}
