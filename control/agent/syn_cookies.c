// SPDX-License-Identifier: BSD-3-Clause
#include "syn_cookies.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_BYTES 8192
#define PATH_BYTES 256
#define SYSCTL_ALWAYS 2

// Returns the index of a word in a line, counted from 0, or -1 if the line lacks the word.
static int find_column(char *line, const char *word) {
	char *rest;
	int column = 0;

	for (const char *at = strtok_r(line, " \n", &rest); at != NULL;
		at = strtok_r(NULL, " \n", &rest), column++) {
		if (strcmp(at, word) == 0) {
			return column;
		}
	}
	return -1;
}

static int take_column(char *line, int column, uint64_t *ret) {
	char *rest, *end, *at = strtok_r(line, " \n", &rest);
	uint64_t value;

	while (at != NULL && column-- > 0) {
		at = strtok_r(NULL, " \n", &rest);
	}
	if (at == NULL) {
		return -EINVAL;
	}
	errno = 0;
	value = strtoull(at, &end, 10);
	if (errno != 0 || end == at || *end != '\0') {
		return -EINVAL;
	}
	*ret = value;
	return 0;
}

// Read the counter SyncookiesSent from two lines, "TcpExt: NAME NAME ..." and "TcpExt: NUMBER
// NUMBER ...". Returns 0 or negative errno.
static int read_sent(const char *proc_root, uint64_t *ret) {
	char path[PATH_BYTES], line[LINE_BYTES];
	int column = -1, r = -EINVAL;
	FILE *file;

	snprintf(path, sizeof(path), "%s/net/netstat", proc_root);
	file = fopen(path, "re");
	if (file == NULL) {
		return -errno;
	}
	while (fgets(line, sizeof(line), file) != NULL) {
		if (strncmp(line, "TcpExt: ", 8) != 0) {
			continue;
		}
		if (column >= 0) {
			r = take_column(line, column, ret);
			break;
		}
		column = find_column(line, "SyncookiesSent");
		if (column < 0) {
			break;
		}
	}
	fclose(file);
	return r;
}

// Returns the value of the sysctl tcp_syncookies, or negative errno; -ENOENT: the kernel does not
// support SYN cookies, or hides the sysctl in this network namespace.
static int read_setting(const char *proc_root) {
	char path[PATH_BYTES];
	int setting, fields;
	FILE *file;

	snprintf(path, sizeof(path), "%s/sys/net/ipv4/tcp_syncookies", proc_root);
	file = fopen(path, "re");
	if (file == NULL) {
		return -errno;
	}
	fields = fscanf(file, "%d", &setting);
	fclose(file);
	return fields == 1 && setting >= 0 ? setting : -EINVAL;
}

static void look(struct weir_syn_cookies *cookies, uint64_t now_ms) {
	uint64_t sent = 0;

	if (read_sent(cookies->proc_root, &sent) < 0) {
		cookies->known = false;
		return;
	}
	if (!cookies->known || sent != cookies->sent) {
		cookies->since_ms = now_ms;
	}
	cookies->known = true;
	cookies->sent = sent;
}

void weir_syn_cookies_init(
	struct weir_syn_cookies *cookies, const char *proc_root, uint64_t now_ms) {
	*cookies = (struct weir_syn_cookies){.proc_root = proc_root};
	look(cookies, now_ms);
}

bool weir_syn_cookies_possible(struct weir_syn_cookies *cookies, uint64_t now_ms) {
	int setting = read_setting(cookies->proc_root);

	look(cookies, now_ms);
	if (setting == 0) {
		return false;
	}
	if (!cookies->known || setting >= SYSCTL_ALWAYS || (setting < 0 && setting != -ENOENT)) {
		return true;
	}
	return cookies->sent != 0 && now_ms - cookies->since_ms < WEIR_SYN_COOKIES_GOOD_MS;
}
