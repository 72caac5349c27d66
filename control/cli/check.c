// SPDX-License-Identifier: BSD-3-Clause
#include "check.h"

#include <string.h>

#include "config.h"
#include "terminal.h"

static json_t *json_errors(const struct weir_config_errors *errors) {
	json_t *list = json_array();

	for (uint32_t i = 0; i < errors->count; i++) {
		const struct weir_config_error *error = &errors->error[i];

		json_array_append_new(
			list, json_pack("{s:i, s:i, s:s, s:s}", "line", error->line, "column",
				      error->column, "path", error->path, "reason", error->reason));
	}
	return list;
}

static void print_good(
	const struct weir_cli *cli, const char *file, const struct weir_config *config) {
	uint32_t backends = 0;
	char shown[1024];

	for (uint32_t i = 0; i < config->service_count; i++) {
		backends += config->services[i].backend_count;
	}
	fprintf(cli->out, "%s: ok (ports: %u, workers: %u, services: %u, backends: %u)\n",
		weir_terminal_text(file, shown, sizeof(shown)), config->port_count,
		config->workers.count, config->service_count, backends);
}

int weir_check_run(struct weir_cli *cli, const struct weir_cli_command *command) {
	const bool standard_input = strcmp(cli->words[0], "-") == 0;
	struct weir_config *config = NULL;
	struct weir_config_errors errors;
	json_t *list;
	int rc;

	(void)command;
	rc = weir_config_read(standard_input ? "/dev/stdin" : cli->words[0], &config, &errors);
	list = json_errors(&errors);
	if (cli->options->json) {
		json_t *result = json_pack("{s:b, s:O}", "ok", rc == 0, "errors", list);

		weir_cli_print_json(cli->out, result);
		json_decref(result);
	} else if (rc == 0) {
		print_good(cli, cli->words[0], config);
	} else if (errors.count == 0) {
		fprintf(cli->err, "weirctl: %s\n", strerror(-rc));
	} else {
		weir_cli_print_errors(cli->out, cli->words[0], list);
	}
	json_decref(list);
	weir_config_errors_fini(&errors);
	weir_config_free(config);
	return rc ? WEIR_CLI_REFUSED : WEIR_CLI_DONE;
}
