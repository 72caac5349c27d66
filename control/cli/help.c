// SPDX-License-Identifier: BSD-3-Clause
#include "help.h"

#include <string.h>

#include "help_text.h"

static void write_command(const struct weir_cli_command *command, char *text, size_t bytes) {
	snprintf(text, bytes, "%s%s%s%s%s", command->object, command->verb != NULL ? " " : "",
		command->verb != NULL ? command->verb : "", command->arguments[0] ? " " : "",
		command->arguments);
}

static int print_commands(FILE *out, const char *object) {
	char text[128];
	int width = 0, printed = 0;

	for (int i = 0; i < weir_cli_command_count; i++) {
		write_command(&weir_cli_commands[i], text, sizeof(text));
		if (object == NULL || strcmp(object, weir_cli_commands[i].object) == 0) {
			width = (int)strlen(text) > width ? (int)strlen(text) : width;
		}
	}
	for (int i = 0; i < weir_cli_command_count; i++) {
		const struct weir_cli_command *command = &weir_cli_commands[i];

		if (object == NULL || strcmp(object, command->object) == 0) {
			write_command(command, text, sizeof(text));
			fprintf(out, "  %-*s  %s\n", width, text, command->summary);
			printed++;
		}
	}
	return printed;
}

static void print_options(FILE *out, unsigned groups) {
	char text[WEIR_HELP_BYTES];

	fputs(weir_cli_options_help(groups, text, sizeof(text)), out);
}

void weir_cli_help_all(FILE *out) {
	fprintf(out, "Usage: weirctl [OPTION]... OBJECT VERB [ARGUMENT]...\n\nShows and changes "
		     "the state of weir-control on this machine.\n\nCommands:\n");
	print_commands(out, NULL);
	print_options(out, 0);
	fprintf(out, "\n\"weirctl OBJECT VERB --help\" shows the options of a command, and the "
		     "rights it needs.\nExit status: 0 done, 1 refused, 2 usage, 3 cannot reach "
		     "the daemon,\n4 a drain ended with open flows.\n\nExample: weirctl backend "
		     "drain web/web-1\n");
}

bool weir_cli_help_object(FILE *out, const char *object) {
	const struct weir_cli_command *first = NULL;

	for (int i = 0; i < weir_cli_command_count; i++) {
		if (strcmp(weir_cli_commands[i].object, object) == 0) {
			first = first != NULL ? first : &weir_cli_commands[i];
		}
	}
	if (first == NULL) {
		return false;
	}
	if (first->verb == NULL) {
		weir_cli_help_command(out, first);
		return true;
	}
	fprintf(out, "Usage: weirctl [OPTION]... %s VERB [ARGUMENT]...\n\nCommands:\n", object);
	print_commands(out, object);
	print_options(out, 0);
	fprintf(out, "\nExample: %s\n", first->example);
	return true;
}

void weir_cli_help_usage(FILE *out, const struct weir_cli_command *command) {
	char text[128];

	write_command(command, text, sizeof(text));
	fprintf(out, "Usage: weirctl [OPTION]... %s\n", text);
}

void weir_cli_help_command(FILE *out, const struct weir_cli_command *command) {
	weir_cli_help_usage(out, command);
	fprintf(out, "\n%s\n", command->summary);
	if (command->text != NULL) {
		fprintf(out, "\n%s", command->text);
	}
	if (command->change) {
		fprintf(out,
			"%sRequires root, the user of weir-control, or membership in the "
			"--admin-group "
			"of weir-control.\n",
			command->text != NULL ? "" : "\n");
	}
	print_options(out, command->options);
	fprintf(out, "\nExample: %s\n", command->example);
}
