// SPDX-License-Identifier: BSD-3-Clause
//
// Write access: only the dataplane can write statistics, and only control can write tables. Each
// forbidden access is tried in a child process, which a signal may kill. The child has the file
// descriptors and mappings that the dataplane or control has after the handover.
#include "segment_lab.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE_BYTES 4096

struct lab {
	struct weir_segment *segment; // mapping of the dataplane
	struct weir_segment *control; // control's mapping of the same memory
};

static int setup(void **state) {
	struct lab *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	f->segment = fixture_segment(FIXTURE_HEAP_BYTES);
	f->control = fixture_control(f->segment);
	*state = f;
	return 0;
}

static int teardown(void **state) {
	struct lab *f = *state;

	weir_segment_free(f->control);
	weir_segment_free(f->segment);
	free(f);
	return 0;
}

// Tries one kind of access. Returns 0 if the access succeeds, otherwise an errno value.
typedef int try_function(const struct lab *f);

// Calls try_it in a child. Returns the negative number of the signal that killed the child, or the
// result of try_it.
static int outcome(const struct lab *f, try_function *try_it) {
	const struct rlimit no_core = {0, 0};
	int status = 0;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		signal(SIGSEGV, SIG_DFL); // a sanitizer has a handler for this signal
		signal(SIGBUS, SIG_DFL);
		setrlimit(RLIMIT_CORE, &no_core);
		_exit(try_it(f));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

// --- control and statistics -----------------------------------------------------------------

static int store_heartbeat(const struct lab *f) {
	__atomic_store_n(&f->control->worker_counters[0].heartbeat_ns, 1, __ATOMIC_RELAXED);
	return 0;
}

static int store_word(const struct lab *f) {
	__atomic_store_n(&f->control->quiescence[0].token, 1, __ATOMIC_RELAXED);
	return 0;
}

static int make_writable(const struct lab *f) {
	return mprotect(f->control->statistics, PAGE_BYTES, PROT_READ | PROT_WRITE) == 0 ? 0
											 : errno;
}

static int map_to(int fd, int protection, int flags) {
	return mmap(NULL, PAGE_BYTES, protection, flags, fd, 0) != MAP_FAILED ? 0 : errno;
}

static int map_to_write(const struct lab *f) {
	return map_to(f->control->statistics_fd, PROT_READ | PROT_WRITE, MAP_SHARED);
}

// Maps memory read-only, then tries to make the mapping writable.
static int map_to_read_then_write(const struct lab *f) {
	void *map = mmap(NULL, PAGE_BYTES, PROT_READ, MAP_SHARED, f->control->statistics_fd, 0);

	if (map == MAP_FAILED) {
		return 0; // the test then fails, because read-only access is permitted
	}
	return mprotect(map, PAGE_BYTES, PROT_READ | PROT_WRITE) == 0 ? 0 : errno;
}

static int write_bytes(const struct lab *f) {
	return pwrite(f->control->statistics_fd, "x", 1, 0) == 1 ? 0 : errno;
}

static int punch_hole(const struct lab *f) {
	return fallocate(f->control->statistics_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
		       PAGE_BYTES) == 0
		       ? 0
		       : errno;
}

static int zero_range(const struct lab *f) {
	return fallocate(f->control->statistics_fd, FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE, 0,
		       PAGE_BYTES) == 0
		       ? 0
		       : errno;
}

static int remove_pages(const struct lab *f) {
	return madvise(f->control->statistics, PAGE_BYTES, MADV_REMOVE) == 0 ? 0 : errno;
}

static int shrink(const struct lab *f) {
	return ftruncate(f->control->statistics_fd, PAGE_BYTES) == 0 ? 0 : errno;
}

static int grow(const struct lab *f) {
	return ftruncate(f->control->statistics_fd,
		       (off_t)f->control->statistics_bytes + PAGE_BYTES) == 0
		       ? 0
		       : errno;
}

static int add_a_seal(const struct lab *f) {
	return fcntl(f->control->statistics_fd, F_ADD_SEALS, F_SEAL_WRITE) == 0 ? 0 : errno;
}

// Tries, as root, to open the file of the descriptor again for writing, through /proc/self/fd.
static int open_again(const struct lab *f) {
	char path[64];
	int fd, r;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", f->control->statistics_fd);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0) {
		return errno;
	}
	r = map_to(fd, PROT_READ | PROT_WRITE, MAP_SHARED);
	if (r != 0) {
		r = pwrite(fd, "x", 1, 0) == 1 ? 0 : errno;
	}
	return r;
}

TEST_EACH(setup, teardown);

TEST(control_cannot_change_statistics) {
	static const struct {
		const char *name;
		try_function *try_it;
		int expected;
	} tries[] = {
		{"a store to the heartbeat", store_heartbeat, -SIGSEGV},
		{"a store to a word of grace periods", store_word, -SIGSEGV},
		{"mprotect", make_writable, EACCES},
		{"mmap PROT_WRITE", map_to_write, EPERM},
		{"mmap PROT_READ, mprotect", map_to_read_then_write, EACCES},
		{"write", write_bytes, EPERM},
		{"punch hole", punch_hole, EPERM},
		{"zero range", zero_range, EOPNOTSUPP},
		{"MADV_REMOVE", remove_pages, EACCES},
		{"ftruncate to less", shrink, EPERM},
		{"ftruncate to more", grow, EPERM},
		{"another seal", add_a_seal, EPERM},
		{"open again", open_again, EPERM},
	};
	struct lab *f = *state;
	uint8_t *before = malloc(f->segment->statistics_bytes);

	assert_non_null(before);
	f->segment->worker_counters[0].heartbeat_ns = 12345;
	memcpy(before, f->segment->statistics, f->segment->statistics_bytes);
	for (size_t i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
		int r = outcome(f, tries[i].try_it);

		if (r != tries[i].expected) {
			fail_msg("%s: %d, expected %d", tries[i].name, r, tries[i].expected);
		}
	}
	assert_memory_equal(before, f->segment->statistics, f->segment->statistics_bytes);
	free(before);
	// Workers continue.
	weir_counter_add(&f->segment->worker_counters[0].heartbeat_ns, 1);
	assert_int_equal(weir_counter_read(&f->control->worker_counters[0].heartbeat_ns), 12346);
}

// --- the dataplane and tables ---------------------------------------------------------------

static int store_row(const struct lab *f) {
	f->segment->rows[0].version = 1;
	return 0;
}

static int store_news(const struct lab *f) {
	__atomic_store_n(&f->segment->news->updates, 1, __ATOMIC_RELAXED);
	return 0;
}

static int store_root(const struct lab *f) {
	__atomic_store_n(&f->segment->roots->services, 1, __ATOMIC_RELAXED);
	return 0;
}

static int store_heap(const struct lab *f) {
	f->segment->tables[f->segment->heap_off] = 1;
	return 0;
}

TEST(store_of_the_dataplane_to_tables_kills_it) {
	try_function *const tries[] = {store_row, store_news, store_root, store_heap};
	struct lab *f = *state;

	for (size_t i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
		assert_int_equal(outcome(f, tries[i]), -SIGSEGV);
	}
	assert_int_equal(f->segment->rows[0].version, 0);
	assert_int_equal(f->segment->news->updates, 0);
	assert_int_equal(f->segment->roots->services, 0);
}

// --- permitted operations of control on tables -----------------------------------------------

static int shrink_tables(const struct lab *f) {
	return ftruncate(f->control->tables_fd, PAGE_BYTES) == 0 ? 0 : errno;
}

// Tries to remove a page. A read of the removed page would kill the other process.
static int punch_and_read(const struct lab *f) {
	volatile const uint8_t *tables = f->segment->tables;
	uint64_t bytes = f->control->tables_bytes;

	if (fallocate(f->control->tables_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
		    (off_t)bytes) < 0) {
		return errno;
	}
	for (uint64_t at = 0; at < bytes; at += PAGE_BYTES) {
		if (tables[at] != 0) {
			return 200;
		}
	}
	return 0;
}

TEST(removed_pages_of_tables_do_not_kill_readers) {
	struct lab *f = *state;

	f->control->news->updates = 77;
	assert_int_equal(outcome(f, shrink_tables), EPERM);
	assert_int_equal(f->segment->news->updates, 77);
	assert_int_equal(outcome(f, punch_and_read), 0);
	assert_int_equal(f->segment->news->updates, 0);
}
