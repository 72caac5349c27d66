// SPDX-License-Identifier: BSD-3-Clause
//
// MISC_CHECK of keepalived: its script, which Weir runs as a health check of type exec.
#include <ctype.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "config.h"
#include "keepalived_private.h"

#define WORD_BYTES 256 // bytes of a word of a command, with its NUL
#define SECONDS_MOST 3600 // maximum timeout of a health check
#define ADDRESS "{address}"
#define TOO_LONG "a command of Weir has at most 32 words of 255 bytes, 1024 bytes in all"

struct command {
	char text[sizeof(((struct weir_config_command *)0)->text)]; // words, each with its NUL
	uint32_t words;
	size_t used;
};

// --- the words of a command ---------------------------------------------------------------

// Reads a word as keepalived does: quotes can begin and end anywhere, and "\" escapes a character.
// Returns the text after the word, or NULL with the reason in *ret_why.
static const char *read_word(const char *text, char word[WORD_BYTES], const char **ret_why) {
	size_t bytes = 0;
	char quote = '\0';

	for (; *text != '\0' && (quote != '\0' || !isspace((unsigned char)*text)); text++) {
		if (quote != '\0' ? *text == quote : *text == '"' || *text == '\'') {
			quote = quote != '\0' ? '\0' : *text;
			continue;
		}
		if (*text == '\\' && (text[1] == '\0' || isalnum((unsigned char)text[1]))) {
			*ret_why = "write the escaped characters of the command without \"\\\"";
			return NULL;
		}
		text += *text == '\\';
		if (iscntrl((unsigned char)*text)) {
			*ret_why = "the command contains a control character";
			return NULL;
		}
		if (bytes + 1 == WORD_BYTES) {
			*ret_why = TOO_LONG;
			return NULL;
		}
		word[bytes++] = *text;
	}
	word[bytes] = '\0';
	if (quote != '\0') {
		*ret_why = "keepalived skips the check, too: a quote is not closed";
		return NULL;
	}
	return text;
}

// Returns whether a character can be a part of an address.
static bool is_of_address(char c, uint8_t family) {
	return c == '.' ||
	       (family == 4 ? isdigit((unsigned char)c) : isxdigit((unsigned char)c) || c == ':');
}

// Appends a word. Replaces the address of the server with the placeholder, because the service has
// one check for all servers. Returns whether there is room.
static bool append(struct command *command, const char *word, const struct weir_address *server) {
	char text[WORD_BYTES * sizeof(ADDRESS)]; // a placeholder for each character, at most
	char address[INET6_ADDRSTRLEN];
	struct weir_address own;
	const size_t bytes = strlen(weir_address_format(server, address, sizeof(address)));
	const char *begin = word;
	size_t used = 0;

	if (weir_address_parse(word, &own) == 0 && weir_address_equal(&own, server)) {
		begin = word = address; // in another notation
	}
	while (*word != '\0') {
		if (strncmp(word, address, bytes) == 0 &&
			!is_of_address(word[bytes], server->family) &&
			(word == begin || !is_of_address(word[-1], server->family))) {
			memcpy(text + used, ADDRESS, strlen(ADDRESS));
			used += strlen(ADDRESS);
			word += bytes;
		} else {
			text[used++] = *word++;
		}
	}
	text[used++] = '\0';
	if (used > WORD_BYTES || used > sizeof(command->text) - command->used ||
		command->words == WEIR_CONFIG_COMMAND_WORDS_MAX) {
		return false;
	}
	memcpy(command->text + command->used, text, used);
	command->used += used;
	command->words++;
	return true;
}

static bool read_command(const char *text, const struct weir_address *server,
	struct command *command, const char **ret_why) {
	*command = (struct command){.words = 0};
	while (*text != '\0') {
		char word[WORD_BYTES];

		text += strspn(text, " \t\r\n");
		if (*text == '\0') {
			break;
		}
		text = read_word(text, word, ret_why);
		if (text == NULL) {
			return false;
		}
		if (command->words == 0 && word[0] != '/') {
			*ret_why = "give the absolute path of the script";
			return false;
		}
		if (!append(command, word, server)) {
			*ret_why = TOO_LONG;
			return false;
		}
	}
	if (command->words == 0) {
		*ret_why = "keepalived skips the check, too: the check has no script";
	}
	return command->words > 0;
}

json_t *weir_keepalived_command(const struct weir_keepalived_statement *checker,
	const struct weir_address *server, const char **ret_why) {
	const struct weir_keepalived_statement *path = checker->children;
	struct command command;
	const char *word = command.text;
	json_t *words;

	while (path != NULL && strcmp(path->word[0], "misc_path") != 0) {
		path = path->next;
	}
	// Like keepalived, read the command from one word, which is usually quoted.
	if (!read_command(
		    path != NULL ? weir_keepalived_word(path, 1) : "", server, &command, ret_why)) {
		return NULL;
	}
	words = json_array();
	for (uint32_t i = 0; i < command.words; i++) {
		if (json_array_append_new(words, json_string(word)) < 0) {
			*ret_why = "the text of the command is not valid UTF-8";
			json_decref(words);
			return NULL;
		}
		word += strlen(word) + 1;
	}
	return words;
}

// --- keys ---------------------------------------------------------------------------------

static void read_timeout(struct weir_import *import,
	const struct weir_keepalived_statement *statement, json_t *check) {
	uint64_t seconds;

	if (!weir_keepalived_number(import, statement, 0, UINT32_MAX / 1000, &seconds) ||
		seconds == 0) {
		return; // the interval
	}
	if (seconds > SECONDS_MOST) {
		weir_import_note(import, &statement->place, WEIR_IMPORT_DIFFERS, "misc_timeout",
			"above the maximum of Weir; using %d s", SECONDS_MOST);
		seconds = SECONDS_MOST;
	}
	json_object_set_new(check, "timeout_ms", json_integer((json_int_t)seconds * 1000));
}

bool weir_keepalived_misc_key(struct weir_import *import,
	const struct weir_keepalived_statement *statement, json_t *check) {
	const char *keyword = statement->word[0];
	char what[WEIR_IMPORT_TEXT_BYTES];

	if (strcmp(keyword, "misc_path") == 0) {
		if (statement->count > 2) {
			weir_import_note(import, &statement->place, WEIR_IMPORT_ADJUST,
				weir_keepalived_text(statement, what, sizeof(what)),
				"keepalived and the import ignore the words after the script: "
				"quote the script with its arguments");
		}
	} else if (strcmp(keyword, "misc_timeout") == 0) {
		read_timeout(import, statement, check);
	} else if (strcmp(keyword, "misc_dynamic") == 0) {
		json_object_set_new(check, "weight_from_exit", json_true());
	} else if (strcmp(keyword, "user") == 0) {
		weir_import_note(import, &statement->place, WEIR_IMPORT_LEFT_OUT,
			weir_keepalived_text(statement, what, sizeof(what)),
			"all programs run as the user of weir-control --script-user");
	} else {
		return false;
	}
	return true;
}
