// SPDX-License-Identifier: BSD-3-Clause
#include "agent_keys.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_BYTES_MOST 8192u // maximum size of a key file with its comments
#define SECRET_DIGITS (2 * (size_t)WEIR_AGENT_KEY_BYTES)
#define MODE_MOST 0640u

struct reader {
	const char *file;
	uint32_t line;
	uint32_t lines[WEIR_AGENT_KEYS_MOST]; // line number of each key
	struct weir_agent_keys keys;
	char *why;
	size_t why_bytes;
};

int weir_agent_crypto_start(void) {
	return sodium_init() < 0 ? -ENOSYS : 0;
}

// Write the error of the current line into why. Returns -EINVAL.
__attribute__((format(printf, 2, 3))) static int complain(
	const struct reader *reader, const char *format, ...) {
	char text[160];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	snprintf(reader->why, reader->why_bytes, "%s:%u: %s", reader->file, reader->line, text);
	return -EINVAL;
}

// Returns the id at the start of a line, or 0 if there is no valid id. *rest is set to the text
// after the id.
static uint32_t read_id(const char *line, const char **rest) {
	uint32_t id = 0;

	while (*line >= '0' && *line <= '9' && id <= UINT16_MAX) {
		id = id * 10 + (uint32_t)(*line++ - '0');
	}
	*rest = line + strspn(line, " \t");
	return *rest == line || id > UINT16_MAX ? 0 : id;
}

static int read_secret(struct reader *reader, const char *digits, uint8_t *secret) {
	size_t length = strcspn(digits, " \t\r#"), bytes = 0;
	const char *end = NULL, *rest = digits + length;

	rest += strspn(rest, " \t\r");
	if (length != SECRET_DIGITS ||
		sodium_hex2bin(secret, WEIR_AGENT_KEY_BYTES, digits, length, NULL, &bytes, &end) !=
			0 ||
		bytes != WEIR_AGENT_KEY_BYTES || end != digits + length ||
		(*rest != '\0' && *rest != '#')) {
		return complain(
			reader, "expected %zu hexadecimal digits after the key id", SECRET_DIGITS);
	}
	if (sodium_is_zero(secret, WEIR_AGENT_KEY_BYTES)) {
		return complain(reader, "the key is all zeros");
	}
	return 0;
}

static int read_line(struct reader *reader, const char *line) {
	struct weir_agent_keys *keys = &reader->keys;
	const char *rest = NULL;
	uint32_t id;
	int r;

	line += strspn(line, " \t\r");
	if (*line == '\0' || *line == '#') {
		return 0;
	}
	id = read_id(line, &rest);
	if (id == 0) {
		return complain(reader, "expected a key id from 1 to 65535 and its key");
	}
	for (uint32_t i = 0; i < keys->count; i++) {
		if (keys->key[i].id == id) {
			return complain(reader, "key id %u is already used on line %u", id,
				reader->lines[i]);
		}
	}
	if (keys->count == WEIR_AGENT_KEYS_MOST) {
		return complain(reader, "more than %d keys", WEIR_AGENT_KEYS_MOST);
	}
	r = read_secret(reader, rest, keys->key[keys->count].secret);
	if (r == 0) {
		keys->key[keys->count].id = (uint16_t)id;
		reader->lines[keys->count++] = reader->line;
	}
	return r;
}

static int read_lines(struct reader *reader, char *text, size_t bytes) {
	char *end = text + bytes;
	int r = 0;

	while (r == 0 && text < end) {
		char *newline = memchr(text, '\n', (size_t)(end - text));
		char *next = newline != NULL ? newline : end;

		reader->line++;
		*next = '\0';
		r = strlen(text) == (size_t)(next - text)
			    ? read_line(reader, text)
			    : complain(reader, "contains a NUL character");
		text = next + 1;
	}
	if (r == 0 && reader->keys.count == 0) {
		snprintf(reader->why, reader->why_bytes, "%s: contains no key", reader->file);
		r = -EINVAL;
	}
	return r;
}

static int check_file(const struct reader *reader, int fd, uid_t user) {
	struct stat status;
	const char *file = reader->file;

	if (fstat(fd, &status) != 0) {
		int r = -errno;

		snprintf(reader->why, reader->why_bytes, "%s: %s", file, strerror(-r));
		return r;
	}
	if (!S_ISREG(status.st_mode)) {
		snprintf(reader->why, reader->why_bytes, "%s: not a regular file", file);
		return -EINVAL;
	}
	if (status.st_uid != 0 && status.st_uid != user) {
		snprintf(reader->why, reader->why_bytes,
			"%s: owned by user %u; the owner must be root or user %u", file,
			status.st_uid, user);
		return -EPERM;
	}
	if ((status.st_mode & 07777 & ~MODE_MOST) != 0) {
		snprintf(reader->why, reader->why_bytes,
			"%s: mode %04o is too permissive: chmod %04o %s", file,
			status.st_mode & 07777, MODE_MOST, file);
		return -EPERM;
	}
	return 0;
}

// Reads the whole key file into text. Returns the number of bytes, or negative errno with one line
// in reader->why.
static ssize_t read_bytes(const struct reader *reader, int fd, char *text) {
	size_t bytes = 0;
	ssize_t n = 1;

	while (n > 0 && bytes <= FILE_BYTES_MOST) {
		n = read(fd, text + bytes, FILE_BYTES_MOST + 1 - bytes);
		if (n < 0 && errno == EINTR) {
			n = 1;
		} else if (n > 0) {
			bytes += (size_t)n;
		}
	}
	if (n < 0) {
		int r = -errno;

		snprintf(reader->why, reader->why_bytes, "%s: %s", reader->file, strerror(-r));
		return r;
	}
	if (bytes > FILE_BYTES_MOST) {
		snprintf(reader->why, reader->why_bytes, "%s: longer than %u bytes", reader->file,
			FILE_BYTES_MOST);
		return -EINVAL;
	}
	return (ssize_t)bytes;
}

int weir_agent_keys_read(
	const char *file, uid_t user, struct weir_agent_keys *ret, char *why, size_t why_bytes) {
	struct reader reader = {.file = file, .why = why, .why_bytes = why_bytes};
	int fd = open(
		file, O_RDONLY | O_CLOEXEC | O_NONBLOCK); // opening a named pipe must not block
	char text[FILE_BYTES_MOST + 1];
	ssize_t bytes;
	int r;

	if (fd < 0) {
		r = -errno;
		snprintf(why, why_bytes, "%s: %s", file, strerror(-r));
		return r;
	}
	r = check_file(&reader, fd, user);
	if (r == 0) {
		bytes = read_bytes(&reader, fd, text);
		r = bytes < 0 ? (int)bytes : read_lines(&reader, text, (size_t)bytes);
	}
	close(fd);
	if (r == 0) {
		*ret = reader.keys;
	}
	sodium_memzero(text, sizeof(text));
	weir_agent_keys_wipe(&reader.keys);
	return r;
}

const struct weir_agent_key *weir_agent_keys_find(const struct weir_agent_keys *keys, uint16_t id) {
	for (uint32_t i = 0; i < keys->count; i++) {
		if (keys->key[i].id == id) {
			return &keys->key[i];
		}
	}
	return NULL;
}

void weir_agent_key_generate(uint16_t id, char line[WEIR_AGENT_KEY_LINE_BYTES]) {
	uint8_t secret[WEIR_AGENT_KEY_BYTES];
	char digits[SECRET_DIGITS + 1];

	randombytes_buf(secret, sizeof(secret));
	sodium_bin2hex(digits, sizeof(digits), secret, sizeof(secret));
	snprintf(line, WEIR_AGENT_KEY_LINE_BYTES, "%u %s\n", id, digits);
	sodium_memzero(secret, sizeof(secret));
	sodium_memzero(digits, sizeof(digits));
}

void weir_agent_keys_wipe(struct weir_agent_keys *keys) {
	sodium_memzero(keys, sizeof(*keys));
}
