// SPDX-License-Identifier: BSD-3-Clause
#include "tree.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int make_path(char *path, const char *root, const char *format, va_list args)
	__attribute__((format(printf, 3, 0)));

static int make_path(char *path, const char *root, const char *format, va_list args) {
	int used = snprintf(path, WEIR_TREE_PATH_BYTES, "%s", root);

	if (used < WEIR_TREE_PATH_BYTES) {
		used += vsnprintf(path + used, (size_t)(WEIR_TREE_PATH_BYTES - used), format, args);
	}
	return used < WEIR_TREE_PATH_BYTES ? 0 : -ENAMETOOLONG;
}

static int read_file(const char *path, char *text, size_t bytes) {
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	size_t used = 0;
	ssize_t got = 1;

	text[0] = '\0';
	if (fd < 0) {
		return -errno;
	}
	while (used + 1 < bytes && got > 0) {
		got = read(fd, text + used, bytes - 1 - used);
		used += got > 0 ? (size_t)got : 0;
	}
	got = got < 0 ? -errno : 0;
	close(fd);
	if (got < 0) {
		text[0] = '\0';
		return (int)got;
	}
	while (used > 0 && text[used - 1] == '\n') {
		used--;
	}
	text[used] = '\0';
	return (int)used;
}

int weir_tree_text(const char *root, char *text, size_t bytes, const char *format, ...) {
	char path[WEIR_TREE_PATH_BYTES];
	va_list args;
	int r;

	text[0] = '\0';
	va_start(args, format);
	r = make_path(path, root, format, args);
	va_end(args);
	return r ? r : read_file(path, text, bytes);
}

int weir_tree_number(const char *root, int64_t *ret, const char *format, ...) {
	char path[WEIR_TREE_PATH_BYTES], text[64], *end;
	int64_t value;
	va_list args;
	int r;

	va_start(args, format);
	r = make_path(path, root, format, args);
	va_end(args);
	r = r ? r : read_file(path, text, sizeof(text));
	if (r < 0) {
		return r;
	}
	value = strtoll(text, &end, 10);
	if (end == text) {
		return -EINVAL;
	}
	*ret = value;
	return 0;
}

bool weir_tree_has(const char *root, const char *format, ...) {
	char path[WEIR_TREE_PATH_BYTES];
	va_list args;
	int r;

	va_start(args, format);
	r = make_path(path, root, format, args);
	va_end(args);
	return r == 0 && access(path, F_OK) == 0;
}

const char *weir_tree_path(const char *root, const char *path, char *buffer) {
	snprintf(buffer, WEIR_TREE_PATH_BYTES, "%s%s", root, path);
	return buffer;
}

const char *weir_sysctl_name(const char *interface, char *buffer) {
	snprintf(buffer, WEIR_SYSCTL_NAME_BYTES, "%s", interface);
	for (char *c = buffer; *c != '\0'; c++) {
		*c = *c == '.' ? '/' : *c;
	}
	return buffer;
}

int64_t weir_tree_field(const char *text, const char *key) {
	const size_t length = strlen(key);

	for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
		line += line[0] == '\n';
		if (strncmp(line, key, length) == 0 && line[length] == ':') {
			return strtoll(line + length + 1, NULL, 10);
		}
	}
	return -1;
}

// --- CPUs ---------------------------------------------------------------------------------

bool weir_cpus_has(const struct weir_cpus *cpus, uint32_t cpu) {
	return cpu < WEIR_CPUS_MOST && (cpus->bits[cpu / 64] >> cpu % 64 & 1) != 0;
}

void weir_cpus_add(struct weir_cpus *cpus, uint32_t cpu) {
	if (cpu < WEIR_CPUS_MOST) {
		cpus->bits[cpu / 64] |= 1ull << cpu % 64;
	}
}

uint32_t weir_cpus_count(const struct weir_cpus *cpus) {
	uint32_t count = 0;

	for (size_t i = 0; i < WEIR_CPUS_MOST / 64; i++) {
		count += (uint32_t)__builtin_popcountll(cpus->bits[i]);
	}
	return count;
}

struct weir_cpus weir_cpus_without(const struct weir_cpus *a, const struct weir_cpus *b) {
	struct weir_cpus rest = *a;

	for (size_t i = 0; i < WEIR_CPUS_MOST / 64; i++) {
		rest.bits[i] &= ~b->bits[i];
	}
	return rest;
}

int weir_cpus_parse(const char *text, struct weir_cpus *ret) {
	struct weir_cpus cpus = {0};

	while (*text != '\0' && *text != '\n') {
		char *end;
		unsigned long first = strtoul(text, &end, 10), last = first;

		if (text[0] < '0' || text[0] > '9') {
			return -EINVAL;
		}
		if (*end == '-') {
			text = end + 1;
			last = strtoul(text, &end, 10);
		}
		if (end == text || last < first || last >= WEIR_CPUS_MOST ||
			(*end != ',' && *end != '\0' && *end != '\n')) {
			return -EINVAL;
		}
		for (; first <= last; first++) {
			weir_cpus_add(&cpus, (uint32_t)first);
		}
		text = end + (*end == ',');
	}
	*ret = cpus;
	return 0;
}

const char *weir_cpus_format(const struct weir_cpus *cpus, char *buffer) {
	size_t used = 0;

	buffer[0] = '\0';
	for (uint32_t cpu = 0; cpu < WEIR_CPUS_MOST && used + 16 < WEIR_CPUS_TEXT_BYTES; cpu++) {
		uint32_t last = cpu;

		if (!weir_cpus_has(cpus, cpu)) {
			continue;
		}
		while (weir_cpus_has(cpus, last + 1)) {
			last++;
		}
		used += (size_t)snprintf(buffer + used, WEIR_CPUS_TEXT_BYTES - used,
			last > cpu ? "%s%u-%u" : "%s%u", used > 0 ? "," : "", cpu, last);
		cpu = last;
	}
	return buffer;
}
