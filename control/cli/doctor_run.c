// SPDX-License-Identifier: BSD-3-Clause
#include "doctor_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config.h"
#include "config_difference.h"
#include "config_running.h"
#include "doctor.h"
#include "running.h"
#include "status.h"
#include "tree.h"
#include "weir_version.h"

#define CONFIG_DEFAULT "/etc/weir/weir.json"

// Send a request without arguments. Returns the result, owned by the caller. On an error, returns
// NULL with the negative errno in *ret_error and one line in why. If weir-control refuses the
// request, returns NULL with *ret_error 0, and the reason in why.
static json_t *ask(struct weir_client *client, const char *command, char *why, size_t why_bytes,
	int *ret_error) {
	json_t *request = json_pack("{s:s}", "command", command), *answer = NULL, *result = NULL;
	const char *refusal;

	*ret_error = weir_client_call(client, request, &answer, why, why_bytes);
	if (*ret_error == 0) {
		result = json_incref(json_object_get(answer, "result"));
		refusal = json_string_value(json_object_get(answer, "error"));
		snprintf(why, why_bytes, "%s", refusal != NULL ? refusal : "");
		json_decref(answer);
	}
	json_decref(request);
	return result;
}

// Get the state of weir-control: sets version, backends, waiting, services, audit and error of
// *doctor.
static void ask_control(
	const struct weir_cli *cli, struct weir_doctor *doctor, char *why, size_t why_bytes) {
	char ignored[512];
	int error;
	struct weir_client *client;

	doctor->error = weir_client_connect(
		cli->options->run_dir, cli->options->timeout_ms, &client, why, why_bytes);
	if (doctor->error == 0) {
		doctor->version = ask(client, "version", why, why_bytes, &doctor->error);
		if (doctor->error == 0) {
			doctor->backends =
				ask(client, "backend.show", ignored, sizeof(ignored), &error);
			doctor->waiting =
				ask(client, "config.waiting", ignored, sizeof(ignored), &error);
			doctor->services =
				ask(client, "service.show", ignored, sizeof(ignored), &error);
			doctor->audit = ask(client, "audit.show", ignored, sizeof(ignored), &error);
		}
		weir_client_free(client);
	}
}

// Read the configuration, without services, that weir-dataplane wrote into its run directory.
// Returns the configuration, owned by the caller, or NULL if the configuration is unknown.
static struct weir_config *read_running(
	const struct weir_cli *cli, const char *root, const json_t *version) {
	const char *epoch =
		json_string_value(json_object_get(json_object_get(version, "dataplane"), "epoch"));
	struct weir_config *runs = NULL;
	char path[WEIR_TREE_PATH_BYTES];

	(void)weir_config_running_read(weir_tree_path(root, cli->options->run_dir, path),
		epoch != NULL ? strtoull(epoch, NULL, 16) : 0, &runs);
	return runs;
}

// Add services to the running configuration, from the configuration file or, if the file is not
// valid or not in use, from the reply of weir-control, if there is one. Returns the completed
// configuration. If out of memory, releases the configuration and returns NULL.
static struct weir_config *complete(
	struct weir_config *runs, const char *file, struct weir_doctor *doctor) {
	struct weir_config *merged = NULL;
	struct weir_config_errors errors = {0};
	const bool unused = json_is_string(json_object_get(doctor->version, "config_unused"));
	int r;

	if (!unused && weir_config_read(file, &merged, &errors) == 0) {
		r = weir_config_keep_running(merged, runs);
		weir_config_free(runs);
		runs = merged;
		doctor->runs_services = true;
	} else if (doctor->services != NULL && doctor->backends != NULL) {
		r = weir_doctor_running_services(runs, doctor->services, doctor->backends);
		doctor->runs_services = true;
	} else {
		r = 0;
	}
	weir_config_errors_fini(&errors);
	if (r < 0) {
		weir_config_free(runs);
		runs = NULL;
	}
	return runs;
}

static int show(const struct weir_cli *cli, struct weir_doctor *doctor) {
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
	struct weir_config *config = NULL, *runs;
	struct weir_config_errors errors;
	struct weir_doctor doctor = {0};
	char why[512] = "", default_path[WEIR_TREE_PATH_BYTES];
	int r;

	(void)command;
	if (root[0] == '\0') {
		ask_control(cli, &doctor, why, sizeof(why));
		doctor.status = weir_status_get(cli->options);
	}
	used = json_string_value(json_object_get(doctor.version, "config"));
	if (file == NULL) {
		file = used != NULL ? used : weir_tree_path(root, CONFIG_DEFAULT, default_path);
	}
	doctor.path_unknown = cli->options->config == NULL && used == NULL && root[0] == '\0' &&
			      access(file, F_OK) < 0;
	(void)weir_config_read(file, &config, &errors);
	runs = read_running(cli, root, doctor.version);
	runs = runs != NULL ? complete(runs, file, &doctor) : NULL;
	doctor.root = root;
	doctor.config_path = file;
	doctor.file = config;
	doctor.runs = runs;
	doctor.candidate = cli->options->config != NULL;
	doctor.errors = &errors;
	doctor.run_dir = cli->options->run_dir;
	doctor.usual_run_dir = cli->options->usual_run_dir;
	doctor.unreachable = why;
	doctor.own_version = WEIR_VERSION;
	weir_doctor_run(&doctor);
	r = show(cli, &doctor);
	weir_findings_fini(&doctor.findings);
	weir_config_errors_fini(&errors);
	weir_config_free(config);
	json_decref((json_t *)doctor.version);
	json_decref((json_t *)doctor.status);
	json_decref((json_t *)doctor.backends);
	json_decref((json_t *)doctor.waiting);
	json_decref((json_t *)doctor.services);
	json_decref((json_t *)doctor.audit);
	weir_config_free(runs);
	return r;
}
