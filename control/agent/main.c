// SPDX-License-Identifier: BSD-3-Clause
//
// weir-agent: a process on a backend that decapsulates packets, and reports state and load of the
// backend to the balancers. See --help.
#include <stdio.h>

#include "help_text.h"
#include "run.h"
#include "standard_output.h"
#include "weir_version.h"

static enum weir_agent_exit run(const struct weir_agent_options *options) {
	char help[WEIR_HELP_BYTES];

	if (options->help || options->version) {
		fputs(options->help ? weir_agent_help(options->help_of, help, sizeof(help))
				    : "weir-agent " WEIR_VERSION "\n",
			stdout);
		return WEIR_AGENT_DONE;
	}
	return weir_agent_run(options);
}

int main(int argc, char **argv) {
	struct weir_agent_options options;
	char why[256] = "", help[64];
	enum weir_agent_exit status;

	weir_standard_output_claim();
	if (weir_agent_options_parse(argc, argv, &options, why, sizeof(why))) {
		fprintf(stderr, "weir-agent: %s\nTry: %s\n", why,
			weir_agent_help_words(options.help_of, help, sizeof(help)));
		return WEIR_AGENT_USAGE;
	}
	status = run(&options);
	return !weir_standard_output_finish("weir-agent", stdout, stderr) &&
			       status == WEIR_AGENT_DONE
		       ? WEIR_AGENT_REFUSED
		       : status;
}
