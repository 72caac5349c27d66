// SPDX-License-Identifier: BSD-3-Clause
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "service.h"

void weir_service_saved_open(struct weir_service *service) {
	char path[128];
	struct stat file;
	int fd;

	snprintf(path, sizeof(path), "%s/%s", service->options->run_dir, WEIR_SERVICE_NOTE);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
	if (fd >= 0 && (fstat(fd, &file) || !S_ISREG(file.st_mode))) {
		close(fd);
		errno = EINVAL;
		fd = -1;
	}
	if (fd < 0) {
		weir_log_write(service->log, WEIR_LOG_WARN,
			"%s: %s; lame-duck state will not survive an agent restart", path,
			strerror(errno));
	}
	service->note = fd;
}

enum weir_health_word weir_service_saved_state(const struct weir_service *service) {
	char word = 0;

	if (service->note < 0 || pread(service->note, &word, 1, 0) != 1) {
		return WEIR_HEALTH_WORD_NONE;
	}
	return word == '0' + WEIR_HEALTH_WORD_LAME_DUCK ? WEIR_HEALTH_WORD_LAME_DUCK
							: WEIR_HEALTH_WORD_NONE;
}

void weir_service_save_state(const struct weir_service *service, enum weir_health_word word) {
	const char text[] = {(char)('0' + word), '\n'};

	if (service->note >= 0) {
		// A file in memory (/run): there is no remedy if writing fails.
		(void)!pwrite(service->note, text, sizeof(text), 0);
	}
}
