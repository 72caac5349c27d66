// SPDX-License-Identifier: BSD-3-Clause
//
// Fixture of the handover tests: a server with a real socket in its own directory, and forked
// control processes.
#pragma once

#include "segment_lab.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "handover.h"

#define DEADLINE_MS 10000

struct lab {
	char dir[64];
	char path[96];
	struct weir_segment *segment;
	struct weir_handover_server *server;
	struct weir_handover offer;
	int map_fds[2];
	unsigned int open_fds;
};

static inline unsigned int count_fds(void) {
	DIR *dir = opendir("/proc/self/fd");
	unsigned int n = 0;

	assert_non_null(dir);
	while (readdir(dir) != NULL) {
		n++;
	}
	closedir(dir);
	return n;
}

static inline int listen_for(struct lab *f, uid_t control_user, gid_t group) {
	const struct weir_handover_params params = {
		.run_dir = f->dir, .control_user = control_user, .group = group};

	return weir_handover_listen(&params, &f->server);
}

static inline int setup(void **state) {
	struct lab *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	f->open_fds = count_fds();
	snprintf(f->dir, sizeof(f->dir), "/tmp/weir-handover-XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	snprintf(f->path, sizeof(f->path), "%s/%s", f->dir, WEIR_HANDOVER_SOCKET);
	f->segment = fixture_segment(FIXTURE_HEAP_BYTES);
	f->offer.statistics_fd = f->segment->statistics_fd;
	f->offer.tables_fd = f->segment->tables_fd;
	f->offer.vip_maps = 3;
	for (unsigned int i = 0; i < 2; i++) {
		f->map_fds[i] = memfd_create("map", MFD_CLOEXEC);
		assert_int_equal(ftruncate(f->map_fds[i], 1000 + i), 0);
	}
	for (unsigned int i = 0; i < WEIR_PORTS_MAX; i++) {
		f->offer.vip_map_fd[i] = -1;
	}
	f->offer.vip_map_fd[0] = f->map_fds[0];
	f->offer.vip_map_fd[2] = f->map_fds[1];
	assert_int_equal(listen_for(f, (uid_t)-1, (gid_t)-1), 0);
	*state = f;
	return 0;
}

static inline int teardown(void **state) {
	struct lab *f = *state;
	unsigned int expected = f->open_fds;

	weir_handover_server_free(f->server);
	weir_segment_free(f->segment);
	close(f->map_fds[0]);
	close(f->map_fds[1]);
	assert_int_equal(access(f->path, F_OK), -1);
	assert_int_equal(rmdir(f->dir), 0);
	free(f);
	assert_int_equal(count_fds(), expected);
	return 0;
}

static inline uint64_t now_ms(void) {
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

// Serves connections until this process is attached (0 = until no process is attached).
static inline void serve_until(struct lab *f, pid_t wanted) {
	uint64_t end = now_ms() + DEADLINE_MS;
	int attached;

	do {
		struct pollfd poll_fds[2];
		int fds[2];
		int n = weir_handover_server_fds(f->server, fds);

		for (int i = 0; i < n; i++) {
			poll_fds[i] = (struct pollfd){.fd = fds[i], .events = POLLIN};
		}
		poll(poll_fds, (nfds_t)n, 20);
		attached = weir_handover_serve(f->server, &f->offer);
		assert_true(attached >= 0);
		assert_true(now_ms() < end);
	} while (attached != wanted);
}

static inline void stop(pid_t pid) {
	int status;

	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
}

static inline int wait_exit(pid_t pid) {
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

// Serves connections while a child runs. Returns the child's exit code.
static inline int serve_while(struct lab *f, pid_t pid) {
	uint64_t end = now_ms() + DEADLINE_MS;
	int status;

	while (waitpid(pid, &status, WNOHANG) == 0) {
		assert_true(weir_handover_serve(f->server, &f->offer) >= 0);
		assert_true(now_ms() < end);
		poll(NULL, 0, 5);
	}
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

// Starts a control process. It attaches, publishes a selection, sets control_pid, and runs until it
// is killed.
static inline pid_t start_control(struct lab *f) {
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		struct weir_segment *segment = NULL;
		struct weir_writer *writer = NULL;
		struct weir_handover handover;
		char why[200];
		int connection;

		if (weir_handover_connect(f->dir, &handover, &connection, why, sizeof(why)) != 0 ||
			weir_segment_attach(handover.statistics_fd, handover.tables_fd, &segment,
				why, sizeof(why)) != 0 ||
			weir_writer_open(segment, &writer) != 0) {
			fprintf(stderr, "child: %s\n", why);
			_exit(1);
		}
		if (weir_writer_publish(writer, fixture_selection_root(1),
			    fixture_selection(writer, 1, 4, 251)) != 0) {
			_exit(2);
		}
		for (;;) {
			pause();
		}
	}
	return pid;
}

static inline void wait_for_publication(struct lab *f, uint64_t publications) {
	uint64_t end = now_ms() + DEADLINE_MS;

	while (__atomic_load_n(&f->segment->notes->publications, __ATOMIC_ACQUIRE) < publications) {
		assert_true(now_ms() < end);
		poll(NULL, 0, 2);
	}
}

static inline void stop_server(struct lab *f) {
	weir_handover_server_free(f->server);
	f->server = NULL;
}

TEST_EACH(setup, teardown);
