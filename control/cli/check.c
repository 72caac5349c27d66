// SPDX-License-Identifier: BSD-3-Clause
#include "check.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <string.h>
#include <unistd.h>

#include "agent_keys.h"
#include "config_host.h"
#include "daemon_options.h"
#include "readable.h"
#include "terminal.h"

#define WHY_BYTES 256

static void print_good(const struct weir_cli *cli, const char *file,
	const struct weir_config *config, uint32_t warnings) {
	uint32_t backends = 0;
	char shown[1024];

	for (uint32_t i = 0; i < config->service_count; i++) {
		backends += config->services[i].backend_count;
	}
	fprintf(cli->out, "%s: ok (ports: %u, workers: %u, services: %u, backends: %u",
		weir_terminal_text(file, shown, sizeof(shown)), config->port_count,
		config->workers.count, config->service_count, backends);
	if (warnings > 0) {
		fprintf(cli->out, ", warnings: %u", warnings);
	}
	fprintf(cli->out, ")\n");
}

static void print_json(const struct weir_cli *cli, bool ok, json_t *errors, json_t *warnings) {
	json_t *result =
		json_pack("{s:b, s:O, s:O}", "ok", ok, "errors", errors, "warnings", warnings);

	weir_cli_print_json(cli->out, result);
	json_decref(result);
}

static bool has_agents(const struct weir_config *config) {
	for (uint32_t i = 0; i < config->service_count; i++) {
		if (config->services[i].agent.port != 0) {
			return true;
		}
	}
	return false;
}

// Check the key file of the agents, if a service has agents, and add warnings to *found. As in
// weir-control, the file may belong to root or to the user of weir-control.
static void warn_keys(const struct weir_config *config, struct weir_config_errors *found) {
	const struct passwd *weir = getpwnam(WEIR_USER_DEFAULT);
	struct weir_config_error warning = {.path = "agents.key_file"};
	struct weir_agent_keys keys = {0};
	char why[WHY_BYTES] = "";
	int r;

	if (!has_agents(config) || weir_agent_crypto_start() < 0) {
		return;
	}
	r = weir_agent_keys_read(config->agents.key_file, weir != NULL ? weir->pw_uid : geteuid(),
		&keys, why, sizeof(why));
	weir_agent_keys_wipe(&keys);
	if (r == 0) {
		return;
	}
	if (r == -EACCES && geteuid() != 0) {
		snprintf(warning.reason, sizeof(warning.reason),
			"not checked: %s; run weirctl as root", why);
	} else {
		snprintf(warning.reason, sizeof(warning.reason),
			"%s; weir-control on this host would not probe the agents", why);
	}
	(void)weir_config_add_warning(found, &warning); // out of memory: no warning
}

// Gets the user ID and the group IDs of the user of weir-control. Returns false if this host has no
// such user, or if the user is in more than WEIR_READABLE_GROUPS groups.
static bool control_ids(struct weir_reader_ids *ret) {
	const struct passwd *weir = getpwnam(WEIR_USER_DEFAULT);
	int groups = WEIR_READABLE_GROUPS;

	if (weir == NULL) {
		return false;
	}
	*ret = (struct weir_reader_ids){.uid = weir->pw_uid, .gid = weir->pw_gid};
	if (getgrouplist(WEIR_USER_DEFAULT, weir->pw_gid, ret->group, &groups) < 0) {
		return false;
	}
	ret->groups = (unsigned int)groups;
	return true;
}

// Writes why weir-control would not be able to read a CA file. Tries to read the file as the
// current user. If this user is root, also evaluates the permissions of weir-control's user.
// Returns false if no problem was found.
static bool ca_fault(const char *file, char *reason, size_t bytes) {
	char why[WEIR_CONFIG_CA_WHY_BYTES], found[WEIR_READABLE_FOUND_BYTES];
	char cure[WEIR_READABLE_CURE_BYTES];
	struct weir_reader_ids ids;
	int r = weir_config_try_ca_file(file, why);

	if (r == -EACCES && geteuid() != 0) {
		snprintf(reason, bytes, "not checked: %s; run weirctl as root", why);
		return true;
	}
	if (r == 0 && geteuid() == 0 && control_ids(&ids) &&
		weir_readable_by(&ids, file, found, cure) == WEIR_READABLE_NO) {
		snprintf(why, sizeof(why), "user %s may not read %s: %s", WEIR_USER_DEFAULT, file,
			found);
		r = -EACCES;
	}
	if (r == 0) {
		return false;
	}
	snprintf(reason, bytes,
		"%s; health checks of weir-control on this host would have no result", why);
	return true;
}

int weir_check_run(struct weir_cli *cli, const struct weir_cli_command *command) {
	const bool standard_input = strcmp(cli->words[0], "-") == 0;
	const char *file = standard_input ? "/dev/stdin" : cli->words[0];
	struct weir_config *config = NULL;
	struct weir_config_errors found;
	json_t *errors, *warnings, *of_host;
	int r = weir_config_read(file, &config, &found);
	uint32_t of_file;
	char shown[1024];
	bool ok;

	(void)command;
	of_file = found.warning_count;
	if (r == 0) {
		(void)weir_config_warn_interfaces(config, &found); // out of memory: fewer warnings
		(void)weir_config_warn_cpus(config, &found);
		warn_keys(config, &found);
		(void)weir_config_warn_ca_files(config, ca_fault, &found);
		(void)weir_config_warn_programs(config, &found);
		(void)weir_config_warn_local_backends(config, &found);
	}
	errors = weir_config_errors_json(found.error, found.count);
	warnings = weir_config_errors_json(found.warning, of_file);
	of_host = weir_config_errors_json(
		of_file < found.warning_count ? &found.warning[of_file] : NULL,
		found.warning_count - of_file);
	// With --strict, warnings about the file are errors, but warnings about this host are not.
	if (cli->options->strict) {
		json_array_extend(errors, warnings);
		json_array_clear(warnings);
	}
	json_array_extend(warnings, of_host);
	json_decref(of_host);
	ok = r == 0 && json_array_size(errors) == 0;
	if (cli->options->json) {
		print_json(cli, ok, errors, warnings);
	} else {
		weir_cli_print_errors(cli->out, cli->words[0], "", errors);
		weir_cli_print_errors(cli->out, cli->words[0], " warning:", warnings);
		if (ok) {
			print_good(cli, cli->words[0], config, found.warning_count);
		}
	}
	if (!ok && json_array_size(errors) == 0) {
		fprintf(cli->err, "weirctl: %s: %s\n",
			weir_terminal_text(cli->words[0], shown, sizeof(shown)), strerror(-r));
	}
	json_decref(errors);
	json_decref(warnings);
	weir_config_errors_fini(&found);
	weir_config_free(config);
	return ok ? WEIR_CLI_DONE : WEIR_CLI_REFUSED;
}
