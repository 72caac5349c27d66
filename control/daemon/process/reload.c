// SPDX-License-Identifier: BSD-3-Clause
#include "reload.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config_host.h"
#include "config_running.h"
#include "text_file.h"
#include "trusted_file.h"

// enough for the words of a command, each with its length and a colon
#define COMMAND_KEY_BYTES \
	(sizeof(((struct weir_config_command *)NULL)->text) + 8 * WEIR_CONFIG_COMMAND_WORDS_MAX)

struct weir_reload {
	char *file;
	char *file_in_use; // NULL: the same as file
	bool data_path_checks; // health checks via the data path are possible
	struct weir_config *config; // configuration in use
	char *text; // text of the configuration in use; NULL = it is stored
	// Dataplane settings of the file that was read last; NULL = these settings are in use.
	struct weir_config *as_read;
};

static int one_error(struct weir_config_errors *errors, int error, const char *reason) {
	errors->error = calloc(1, sizeof(errors->error[0]));
	if (errors->error == NULL) {
		return -ENOMEM;
	}
	errors->count = 1;
	snprintf(errors->error[0].reason, sizeof(errors->error[0].reason), "%s", reason);
	return error;
}

static uint32_t count_data_path(const struct weir_config *config) {
	uint32_t count = 0;

	for (uint32_t i = 0; i < config->service_count; i++) {
		struct weir_config_checks at = {.service = &config->services[i]};

		while (weir_config_next_check(&at)) {
			count += at.check->via == WEIR_VIA_DATA_PATH;
		}
	}
	return count;
}

// Adds an error for each check of a service that uses the data path.
static void refuse_data_path(const struct weir_config *config,
	const struct weir_config_service *service, struct weir_config_errors *errors) {
	struct weir_config_checks at = {.service = service};

	while (weir_config_next_check(&at)) {
		struct weir_config_error *error = &errors->error[errors->count];

		if (at.check->via == WEIR_VIA_DATA_PATH) {
			errors->count++;
			error->line = weir_config_check_path(
				config, &at, ".via", error->path, sizeof(error->path));
			snprintf(error->reason, sizeof(error->reason),
				"\"data-path\" needs weir-control to be started with "
				"--data-path-checks; if it was started with this option, see its "
				"log for why such checks are not possible; to check without the "
				"data path, use \"direct\"");
		}
	}
}

// If health checks via the data path are not possible, adds an error for each check that uses the
// data path. Returns 0 or negative errno.
static int check_abilities(const struct weir_reload *reload, const struct weir_config *config,
	struct weir_config_errors *errors) {
	uint32_t count = reload->data_path_checks ? 0 : count_data_path(config);

	if (count == 0) {
		return 0;
	}
	weir_config_errors_fini(errors); // the list contains only warnings: remove them
	errors->error = calloc(count, sizeof(errors->error[0]));
	if (errors->error == NULL) {
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < config->service_count; i++) {
		refuse_data_path(config, &config->services[i], errors);
	}
	return -EOPNOTSUPP;
}

// Joins a relative path with the working directory, because clients have other working directories.
// Symbolic links are kept, so that a reload follows a link that has changed. Returns 0 with *ret
// owned by the caller, or negative errno.
static int make_absolute(const char *file, char **ret) {
	char directory[PATH_MAX] = "";

	if (file[0] != '/' && getcwd(directory, sizeof(directory)) == NULL) {
		return -errno;
	}
	while (strncmp(file, "./", 2) == 0) {
		file += 2 + strspn(file + 2, "/");
	}
	return asprintf(ret, "%s%s%s", directory,
		       file[0] == '/' || strcmp(directory, "/") == 0 ? "" : "/", file) < 0
		       ? -ENOMEM
		       : 0;
}

int weir_reload_create(const char *file, bool data_path_checks, struct weir_reload **ret,
	struct weir_config_errors *errors) {
	struct weir_reload *reload;
	int r;

	*errors = (struct weir_config_errors){0};
	reload = calloc(1, sizeof(*reload));
	if (reload == NULL) {
		return -ENOMEM;
	}
	r = make_absolute(file, &reload->file);
	if (r < 0) {
		reload->file = NULL;
		goto free_reload;
	}
	reload->data_path_checks = data_path_checks;
	r = weir_config_read_text(file, &reload->config, &reload->text, errors);
	if (r == 0) {
		r = check_abilities(reload, reload->config, errors);
	}
	if (r < 0) {
		goto free_reload;
	}
	*ret = reload;
	return 0;
free_reload:
	weir_reload_free(reload);
	return r;
}

int weir_reload_without_data_path(struct weir_reload *reload) {
	reload->data_path_checks = false;
	return count_data_path(reload->config) > 0 ? -EOPNOTSUPP : 0;
}

void weir_reload_free(struct weir_reload *reload) {
	if (reload == NULL) {
		return;
	}
	weir_config_free(reload->config);
	weir_config_free(reload->as_read);
	free(reload->text);
	free(reload->file_in_use);
	free(reload->file);
	free(reload);
}

const struct weir_config *weir_reload_config(const struct weir_reload *reload) {
	return reload->config;
}

const char *weir_reload_file_in_use(const struct weir_reload *reload) {
	return reload->file_in_use != NULL ? reload->file_in_use : reload->file;
}

const char *weir_reload_file(const struct weir_reload *reload) {
	return reload->file;
}

static bool needs_restart(const struct weir_difference *difference) {
	for (uint32_t i = 0; i < difference->count; i++) {
		if (difference->change[i].needs_restart) {
			return true;
		}
	}
	return false;
}

// Callback that writes why weir-control cannot read a CA file. Returns false if weir-control can
// read the file.
static bool ca_fault(const char *file, char *reason, size_t bytes) {
	char why[WEIR_CONFIG_CA_WHY_BYTES];

	if (weir_config_try_ca_file(file, why) == 0) {
		return false;
	}
	snprintf(reason, bytes, "%s; health checks with this file have no result", why);
	return true;
}

// Writes a key for a command: each word, after its length.
static void key_of(const struct weir_config_command *command, char key[COMMAND_KEY_BYTES]) {
	const char *words[WEIR_CONFIG_COMMAND_WORDS_MAX + 1];
	const uint32_t count = weir_config_command_words(command, words);
	size_t used = 0;

	key[0] = '\0';
	for (uint32_t i = 0; i < count; i++) {
		used += (size_t)snprintf(
			key + used, COMMAND_KEY_BYTES - used, "%zu:%s", strlen(words[i]), words[i]);
	}
}

static void add_command(json_t *commands, const struct weir_config_command *command) {
	char key[COMMAND_KEY_BYTES];

	if (command->words > 0) {
		key_of(command, key);
		(void)json_object_set_new_nocheck(commands, key, json_true());
	}
}

// Returns the set of the programs in a configuration. If out of memory, programs are missing, or
// the result is NULL.
static json_t *commands_of(const struct weir_config *config) {
	json_t *commands = json_object();

	add_command(commands, &config->notify.command);
	for (uint32_t i = 0; i < config->service_count; i++) {
		struct weir_config_checks at = {.service = &config->services[i]};

		while (weir_config_next_check(&at)) {
			add_command(commands, &at.check->command);
		}
	}
	return commands;
}

// Returns whether a command runs no program, or is in the set.
static bool is_allowed(const json_t *commands, const struct weir_config_command *command) {
	char key[COMMAND_KEY_BYTES];

	key_of(command, key);
	return command->words == 0 || json_object_get(commands, key) != NULL;
}

// line: 0 = unknown; path is then written into the reason.
static int refuse_program(
	const char *file, const char *path, int line, struct weir_config_errors *errors) {
	const int r = one_error(errors, -EPERM, "");
	struct weir_config_error *error = errors->error;

	if (r == -EPERM) {
		error->line = line;
		snprintf(error->path, sizeof(error->path), "%s", line > 0 ? path : "");
		snprintf(error->reason, sizeof(error->reason),
			"%s%sa new program, which only root may choose: other users can change "
			"%.80s; "
			"run \"chown root:root FILE; chmod go-w FILE\", or reload without FILE",
			line > 0 ? "" : path, line > 0 ? "" : ": ", file);
	}
	return r;
}

// Refuses programs that are not in use yet: the right to reload does not include choosing programs.
static int check_programs(const struct weir_reload *reload, struct weir_reload_plan *plan) {
	const struct weir_config *config = plan->config;
	json_t *in_use = commands_of(reload->config);
	int r = 0;

	if (!is_allowed(in_use, &config->notify.command)) {
		r = refuse_program(plan->file, "notify.command", 0, &plan->errors);
	}
	for (uint32_t i = 0; i < config->service_count; i++) {
		struct weir_config_checks at = {.service = &config->services[i]};

		while (r == 0 && weir_config_next_check(&at)) {
			if (!is_allowed(in_use, &at.check->command)) {
				char path[80];
				const int line = weir_config_check_path(
					config, &at, ".command", path, sizeof(path));

				r = refuse_program(plan->file, path, line, &plan->errors);
			}
		}
	}
	json_decref(in_use);
	return r;
}

// Reads a file that a client has chosen. *ret_trusted: whether the file may contain new programs.
// This applies to the file that was read, even if its path names another file by now.
static int read_chosen(struct weir_reload_plan *plan, bool *ret_trusted) {
	const int fd = open(plan->file, O_PATH | O_CLOEXEC);
	char path[32];
	struct stat status;
	int r;

	*ret_trusted = fd >= 0 && fstat(fd, &status) == 0 && weir_file_is_trusted(&status);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	r = weir_config_read_regular(
		fd >= 0 ? path : plan->file, &plan->config, &plan->text, &plan->errors);
	if (fd >= 0) {
		close(fd);
	}
	return r;
}

// Reads the file of a plan: only a regular file, because a reload runs on the loop, and reading a
// pipe would block the loop.
static int read_plan(const struct weir_reload *reload, struct weir_reload_plan *plan) {
	bool trusted;
	int r;

	if (strcmp(plan->file, reload->file) == 0) {
		return weir_config_read_regular(
			plan->file, &plan->config, &plan->text, &plan->errors);
	}
	r = read_chosen(plan, &trusted);
	return r < 0 || trusted ? r : check_programs(reload, plan);
}

int weir_reload_plan(
	const struct weir_reload *reload, const char *file, struct weir_reload_plan *plan) {
	int r;

	*plan = (struct weir_reload_plan){0};
	plan->file = strdup(file != NULL ? file : reload->file);
	if (plan->file == NULL) {
		return one_error(&plan->errors, -ENOMEM, "out of memory");
	}
	r = read_plan(reload, plan);
	if (r == 0) {
		r = check_abilities(reload, plan->config, &plan->errors);
	}
	if (r < 0) {
		return r;
	}
	// Ignore errors: if out of memory, some warnings are missing.
	(void)weir_config_warn_interfaces(plan->config, &plan->errors);
	(void)weir_config_warn_cpus(plan->config, &plan->errors);
	(void)weir_config_warn_ca_files(plan->config, ca_fault, &plan->errors);
	(void)weir_config_warn_programs(plan->config, &plan->errors);
	(void)weir_config_warn_local_backends(plan->config, &plan->errors);
	r = weir_config_compare(reload->config, plan->config, &plan->difference);
	if (r < 0 || !needs_restart(&plan->difference)) {
		return r;
	}
	// Only the settings of the dataplane are used in this copy.
	plan->as_read = calloc(1, sizeof(*plan->as_read));
	if (plan->as_read == NULL || weir_config_keep_running(plan->as_read, plan->config) < 0 ||
		weir_config_keep_running(plan->config, reload->config) < 0) {
		return one_error(&plan->errors, -ENOMEM, "out of memory");
	}
	return 0;
}

int weir_reload_plan_taken_back(const struct weir_reload *reload, struct weir_reload_plan *plan) {
	struct weir_difference waiting;
	int r = weir_reload_waiting(reload, &waiting);

	if (r == 0) {
		r = weir_difference_take_back(&plan->difference, &waiting);
	}
	weir_difference_fini(&waiting);
	return r;
}

void weir_reload_plan_fini(struct weir_reload_plan *plan) {
	free(plan->file);
	free(plan->text);
	weir_config_free(plan->config);
	weir_config_free(plan->as_read);
	weir_difference_fini(&plan->difference);
	weir_config_errors_fini(&plan->errors);
	*plan = (struct weir_reload_plan){0};
}

const char *weir_reload_explain(const struct weir_reload_plan *plan, int error, const char *user,
	char *why, size_t why_bytes) {
	const char *file = plan->file != NULL ? plan->file : "the file";
	const struct weir_config_error *first =
		plan->errors.count > 0 ? &plan->errors.error[0] : NULL;

	if (error == -EACCES) {
		snprintf(why, why_bytes,
			"user %s cannot read %s: grant the user or its group read access", user,
			file);
	} else if (error == -ENOMEM) {
		snprintf(why, why_bytes, "out of memory while reading %s; free memory and retry",
			file);
	} else if (plan->errors.count == 0) {
		snprintf(why, why_bytes, "cannot read %s: %s", file, strerror(-error));
	} else if (first->line == 0 && first->path[0] == '\0') { // concerns the whole file
		snprintf(why, why_bytes, "%s: %.128s", file, first->reason);
	} else if (plan->errors.count == 1) {
		snprintf(why, why_bytes, "%s has 1 error, in line %d", file, first->line);
	} else {
		snprintf(why, why_bytes, "%s has %u errors, the first in line %d", file,
			plan->errors.count, first->line);
	}
	return why;
}

void weir_reload_commit(struct weir_reload *reload, struct weir_reload_plan *plan) {
	weir_config_free(reload->config);
	weir_config_free(reload->as_read);
	free(reload->text);
	free(reload->file_in_use);
	reload->config = plan->config;
	reload->as_read = plan->as_read;
	reload->text = plan->text;
	reload->file_in_use = plan->file;
	plan->config = NULL;
	plan->as_read = NULL;
	plan->text = NULL;
	plan->file = NULL;
}

// --- the stored configuration -------------------------------------------------------------

static int stored_path(const char *run_dir, char path[PATH_MAX]) {
	return snprintf(path, PATH_MAX, "%s/" WEIR_RELOAD_STORED, run_dir) < PATH_MAX
		       ? 0
		       : -ENAMETOOLONG;
}

int weir_reload_store(struct weir_reload *reload, const char *run_dir) {
	char path[PATH_MAX];
	int r = reload->text != NULL ? stored_path(run_dir, path) : 0;

	if (r == 0 && reload->text != NULL) {
		r = weir_text_file_replace(path, reload->text);
	}
	if (r == 0) {
		free(reload->text);
		reload->text = NULL;
	}
	return r;
}

int weir_reload_plan_stored(
	const struct weir_reload *reload, const char *run_dir, struct weir_reload_plan *plan) {
	char path[PATH_MAX], *text;
	size_t bytes;
	int r = stored_path(run_dir, path);

	*plan = (struct weir_reload_plan){0};
	if (r == 0) {
		r = weir_text_file_read_own(path, WEIR_CONFIG_FILE_BYTES_MAX, &text, &bytes);
	}
	if (r < 0) {
		return r;
	}
	r = weir_config_parse(text, bytes, &plan->config, &plan->errors);
	free(text);
	if (r == 0) {
		r = check_abilities(reload, plan->config, &plan->errors);
	}
	if (r == 0) {
		r = weir_config_keep_running(plan->config, reload->config);
	}
	if (r == 0 && reload->as_read != NULL) { // settings of the file that does not fit
		plan->as_read = calloc(1, sizeof(*plan->as_read));
		r = plan->as_read == NULL
			    ? -ENOMEM
			    : weir_config_keep_running(plan->as_read, reload->as_read);
	}
	plan->file = r == 0 ? strdup(weir_reload_file_in_use(reload)) : NULL;
	return r == 0 && plan->file == NULL ? -ENOMEM : r;
}

// Replaces the settings of the dataplane in the configuration in use by the settings of the running
// dataplane, `runs`. Keeps the settings of the file in as_read. *ret_waits: whether the settings of
// the file and of the running dataplane differ.
static int keep_apart(struct weir_reload *reload, const struct weir_config *runs, bool *ret_waits) {
	struct weir_config *as_read = reload->as_read;
	struct weir_difference waiting;
	int r = 0;

	if (as_read == NULL) {
		as_read = calloc(1, sizeof(*as_read));
		r = as_read == NULL ? -ENOMEM : weir_config_keep_running(as_read, reload->config);
	}
	if (r == 0) {
		r = weir_config_keep_running(reload->config, runs);
	}
	if (r < 0) {
		if (as_read != reload->as_read) {
			weir_config_free(as_read);
		}
		return r;
	}
	reload->as_read = as_read;
	r = weir_reload_waiting(reload, &waiting);
	if (r < 0) {
		return r;
	}
	*ret_waits = waiting.count > 0;
	weir_difference_fini(&waiting);
	return 0;
}

int weir_reload_dataplane_started(struct weir_reload *reload, const struct weir_config *runs) {
	bool waits = false;
	int r;

	if (runs == NULL && reload->as_read == NULL) {
		return 0;
	}
	r = runs != NULL ? keep_apart(reload, runs, &waits)
			 : weir_config_keep_running(reload->config, reload->as_read);
	if (r == 0 && !waits) {
		weir_config_free(reload->as_read);
		reload->as_read = NULL;
	}
	return r;
}

int weir_reload_take_running(struct weir_reload *reload, const char *run_dir, uint64_t epoch,
	bool restarted, int *ret_unread) {
	struct weir_config *runs = NULL;
	int r = 0;

	*ret_unread = weir_config_running_read(run_dir, epoch, &runs);
	if (runs != NULL || restarted) {
		r = weir_reload_dataplane_started(reload, runs);
	}
	weir_config_free(runs);
	return r;
}

void weir_reload_take_waiting(struct weir_reload *reload, struct weir_reload_plan *plan) {
	weir_config_free(reload->as_read);
	reload->as_read = plan->as_read;
	plan->as_read = NULL;
}

bool weir_reload_waits(const struct weir_reload *reload) {
	return reload->as_read != NULL;
}

int weir_reload_waiting(const struct weir_reload *reload, struct weir_difference *ret) {
	int r = 0;

	*ret = (struct weir_difference){0};
	if (reload->as_read != NULL) {
		r = weir_config_compare(reload->config, reload->as_read, ret);
		// Remove all other differences, because as_read has only the settings of the
		// dataplane.
		weir_difference_keep_restarts(ret);
	}
	return r;
}
