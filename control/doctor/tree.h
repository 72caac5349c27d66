// SPDX-License-Identifier: BSD-3-Clause
//
// Tree: reads files of /proc, /sys and /run below a root. The root is "" for this machine, or a
// directory with a copy of another machine's files. Also parses CPU lists in these files.
//
// Threads: any. No logging.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WEIR_TREE_PATH_BYTES 512
#define WEIR_CPUS_MOST 1024
#define WEIR_CPUS_TEXT_BYTES 256

// Reads the beginning of a file into text, without final newlines. Returns the length. On an error,
// sets text to "" and returns negative errno.
int weir_tree_text(const char *root, char *text, size_t bytes, const char *format, ...)
	__attribute__((format(printf, 4, 5)));
// Read a file that contains a number. Returns 0, or negative errno with *ret unchanged.
int weir_tree_number(const char *root, int64_t *ret, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
bool weir_tree_has(const char *root, const char *format, ...) __attribute__((format(printf, 2, 3)));
// Join root and path. buffer: has WEIR_TREE_PATH_BYTES bytes. Returns buffer.
const char *weir_tree_path(const char *root, const char *path, char *buffer);

#define WEIR_SYSCTL_NAME_BYTES 64
// Writes the name of an interface in the form that sysctl(8) needs in a key. Dots separate the
// parts of a key, so eth0.20 becomes eth0/20. buffer: has WEIR_SYSCTL_NAME_BYTES bytes. Returns
// buffer.
const char *weir_sysctl_name(const char *interface, char *buffer);

// Returns the number after "Key:" in a text with the format of /proc/meminfo, or -1 if the key is
// missing.
int64_t weir_tree_field(const char *text, const char *key);

struct weir_cpus {
	uint64_t bits[WEIR_CPUS_MOST / 64];
};

// Parse a CPU list like "0-3,8"; "" = no CPU. Returns 0, or -EINVAL with *ret unchanged.
int weir_cpus_parse(const char *text, struct weir_cpus *ret);
bool weir_cpus_has(const struct weir_cpus *cpus, uint32_t cpu);
void weir_cpus_add(struct weir_cpus *cpus, uint32_t cpu);
uint32_t weir_cpus_count(const struct weir_cpus *cpus);
// Returns the CPUs in `a` that are not in `b`.
struct weir_cpus weir_cpus_without(const struct weir_cpus *a, const struct weir_cpus *b);
// Writes the CPUs as a list that weir_cpus_parse can read, truncated to WEIR_CPUS_TEXT_BYTES.
// Returns buffer.
const char *weir_cpus_format(const struct weir_cpus *cpus, char *buffer);
