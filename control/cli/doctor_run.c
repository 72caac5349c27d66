// SPDX-License-Identifier: BSD-3-Clause
#include "doctor_run.h"

#include <string.h>

#include "config.h"
#include "doctor.h"
#include "tree.h"
#include "weir_version.h"

#define CONFIG_DEFAULT "/etc/weir/weir.json"

// weir-control's answer to "version", owned by the caller. NULL: no answer; why has one line, and
// *ret_error a negative errno.
static json_t *request_version(struct weir_cli *cli, char *why, size_t why_bytes, int *ret_error) {
	json_t *request = json_pack("{s:s}", "command", "version"), *answer = NULL, *result = NULL;
	struct weir_client *client;
	int r = weir_client_connect(
		cli->options->run_dir, cli->options->timeout_ms, &client, why, why_bytes);

	if (r == 0) {
		r = weir_client_call(client, request, &answer, why, why_bytes);
		if (r == 0) {
			result = json_incref(json_object_get(answer, "result"));
			json_decref(answer);
		}
		weir_client_free(client);
	}
	json_decref(request);
	*ret_error = r;
	return result;
}

static int show(const struct weir_cli *cli, const struct weir_doctor *doctor) {
	json_t *json;

	if (!cli->options->json) {
		weir_findings_print(&doctor->findings, cli->out);
	} else {
		json = weir_findings_json(&doctor->findings);
		weir_cli_print_json(cli->out, json);
		json_decref(json);
	}
	if (doctor->findings.out_of_memory) {
		fprintf(cli->err, "weirctl: out of memory\n");
	}
	return weir_findings_exit(&doctor->findings);
}

int weir_doctor_command_run(struct weir_cli *cli, const struct weir_cli_command *command) {
	const char *root = cli->options->root != NULL ? cli->options->root : "";
	const char *used, *file = cli->options->config;
	struct weir_config *config = NULL;
	struct weir_config_errors errors;
	struct weir_doctor doctor = {0};
	json_t *version = NULL;
	char why[512] = "", default_path[WEIR_TREE_PATH_BYTES];
	int r, error = 0;

	(void)command;
	if (root[0] == '\0') {
		version = request_version(cli, why, sizeof(why), &error);
	}
	used = json_string_value(json_object_get(version, "config"));
	if (file == NULL) {
		file = used != NULL ? used : weir_tree_path(root, CONFIG_DEFAULT, default_path);
	}
	(void)weir_config_read(file, &config, &errors);
	doctor = (struct weir_doctor){.root = root,
		.config_path = file,
		.config = config,
		.errors = &errors,
		.run_dir = cli->options->run_dir,
		.version = version,
		.unreachable = why,
		.error = error,
		.own_version = WEIR_VERSION};
	weir_doctor_run(&doctor);
	r = show(cli, &doctor);
	weir_findings_fini(&doctor.findings);
	weir_config_errors_fini(&errors);
	weir_config_free(config);
	json_decref(version);
	return r;
}
