// SPDX-License-Identifier: BSD-3-Clause
//
// Glance: the data that `weirctl status` reads from a running dataplane without attaching to it.
// This process simulates the dataplane.
#include "handover_lab.h"

#include <fcntl.h>
#include <sys/sysmacros.h>

#include "glance.h"
#include "heartbeat.h"

#define NOW 5000000000000ull

static void beat(const struct lab *f, uint32_t worker, uint64_t ago_ns) {
	f->segment->worker_counters[worker].heartbeat_ns = NOW - ago_ns;
}

TEST(glance_finds_the_process_of_a_run_directory) {
	struct lab *f = *state;

	assert_int_equal(weir_glance_find(f->dir), getpid());
	assert_int_equal(weir_glance_find("/nonexistent"), -ENOENT);
}

// After a SIGKILL the lock file still exists, but no process holds its lock.
TEST(glance_ignores_a_lock_file_that_is_left) {
	char dir[] = "/tmp/weir-glance-XXXXXX", path[64];
	int fd;

	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/" WEIR_HANDOVER_LOCK, dir);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(weir_glance_find(dir), -ENOENT);
	unlink(path);
	rmdir(dir);
}

// A lock on a file with the same inode number in another file system must be ignored, because every
// user can hold such a lock.
TEST(glance_compares_the_file_system_of_a_lock) {
	const struct stat lock = {.st_dev = makedev(0, 0x19), .st_ino = 1234};
	static const struct {
		const char *line;
		pid_t same, any;
	} cases[] = {
		{"1: FLOCK  ADVISORY  WRITE 4711 00:19:1234 0 EOF\n", 4711, 4711},
		{"1: FLOCK  ADVISORY  WRITE 4711 00:1a:1234 0 EOF\n", 0, 4711},
		{"1: FLOCK  ADVISORY  WRITE 4711 00:19:1235 0 EOF\n", 0, 0},
		{"1: POSIX  ADVISORY  WRITE 4711 00:19:1234 0 EOF\n", 0, 0},
		{"1: FLOCK  ADVISORY  WRITE -1 00:19:1234 0 EOF\n", 0, 0},
		// A process that waits for the lock.
		{"1: -> FLOCK  ADVISORY  WRITE 4711 00:19:1234 0 EOF\n", 0, 0},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(weir_glance_holder(cases[i].line, &lock, true), cases[i].same);
		assert_int_equal(weir_glance_holder(cases[i].line, &lock, false), cases[i].any);
	}
}

TEST(glance_sees_stalled_workers) {
	struct lab *f = *state;
	struct weir_glance glance;
	char why[200] = "";

	beat(f, 0, 1000000);
	beat(f, 1, WEIR_WORKER_ALIVE_NS + 1);
	beat(f, 2, 1000000);
	assert_int_equal(weir_glance_at(getpid(), NOW, &glance, why, sizeof(why)), 0);
	assert_int_equal(glance.pid, getpid());
	assert_int_equal(glance.workers, FIXTURE_WORKERS);
	assert_int_equal(glance.stalled, 1);
	assert_int_equal(glance.stalled_worker[0], 1);
	beat(f, 1, 0);
	assert_int_equal(weir_glance_at(getpid(), NOW, &glance, why, sizeof(why)), 0);
	assert_int_equal(glance.stalled, 0);
}

TEST(glance_sees_whether_there_are_tables) {
	struct lab *f = *state;
	struct weir_segment *control = fixture_control(f->segment);
	struct weir_glance glance;
	char why[200] = "";

	assert_int_equal(weir_glance_at(getpid(), NOW, &glance, why, sizeof(why)), 0);
	assert_false(glance.has_tables);
	control->roots->services = 1;
	assert_int_equal(weir_glance_at(getpid(), NOW, &glance, why, sizeof(why)), 0);
	assert_true(glance.has_tables);
	weir_segment_free(control);
}

TEST(glance_refuses_other_processes) {
	struct weir_glance glance;
	char why[200] = "";
	pid_t other = fork();
	int fd = memfd_create("other", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	(void)state;
	assert_true(other >= 0);
	if (other == 0) {
		closefrom(3); // the child has inherited the segment
		pause();
	}
	while (weir_glance_at(other, NOW, &glance, why, sizeof(why)) == 0) {
		usleep(1000);
	}
	assert_int_equal(weir_glance_at(other, NOW, &glance, why, sizeof(why)), -ENOENT);
	assert_false(weir_glance_is_stopped(other));
	assert_int_equal(kill(other, SIGSTOP), 0);
	assert_int_equal(waitpid(other, NULL, WUNTRACED), other);
	assert_true(weir_glance_is_stopped(other));
	stop(other);
	assert_int_equal(weir_glance_memories(fd, fd, NOW, &glance, why, sizeof(why)), -EPROTO);
	assert_non_null(strstr(why, "not the shared memory of weir-dataplane"));
	close(fd);
}
