// SPDX-License-Identifier: BSD-3-Clause
//
// Rows of backends. A row has two copies, and a version that selects the copy in use. tests/stress
// tests readers that copy a row while it changes, and a writer that is killed at any store.
#include "segment_lab.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define BACKEND 7
#define PAGE_BYTES 4096
#define STRADDLER_AT (PAGE_BYTES - 64) // offset of a row pair whose copy 0 is on two pages
#define FLIPS 300000u

struct lab {
	struct weir_segment *segment; // mapping of the dataplane
	struct weir_segment *control; // control's mapping of the same memory
	struct weir_writer *writer;
	bool stop;
	uint64_t copies;
	bool torn;
};

static int setup(void **state) {
	struct lab *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	f->segment = fixture_segment(4096);
	f->control = fixture_control(f->segment);
	assert_int_equal(weir_writer_open(f->control, &f->writer), 0);
	assert_int_equal(weir_writer_reserve(f->writer, 1, FIXTURE_BACKENDS), 0);
	*state = f;
	return 0;
}

static int teardown(void **state) {
	struct lab *f = *state;

	weir_writer_free(f->writer);
	weir_segment_free(f->control);
	weir_segment_free(f->segment);
	free(f);
	return 0;
}

// Returns a row in which all bytes except the flags depend on n.
static struct weir_backend_row filled(uint32_t n) {
	struct weir_backend_row row;

	memset(&row, (int)(1 + n % 255), sizeof(row));
	row.flags = WEIR_BACKEND_PRESENT;
	return row;
}

static bool is_whole(const struct weir_backend_row *row) {
	struct weir_backend_row whole = filled(row->port - 1u);

	return memcmp(row, &whole, sizeof(whole)) == 0;
}

static struct weir_backend_row current(const struct lab *f) {
	struct weir_backend_row row;

	assert_true(weir_reader_row(f->segment, BACKEND, &row));
	return row;
}

TEST_EACH(setup, teardown);

// Version n is in copy n % 2; the previous version is unchanged in the other copy.
TEST(version_selects_the_copy_in_use) {
	struct lab *f = *state;
	const struct weir_row_pair *pair = &f->segment->rows[BACKEND];
	uint64_t updates = f->segment->news->updates;

	for (uint32_t n = 1; n < 600; n++) {
		struct weir_backend_row row = filled(n), before = pair->row[(n - 1) % 2], found;

		assert_true(weir_writer_publish_row(f->writer, BACKEND, &row));
		assert_int_equal(pair->version, n);
		assert_memory_equal(&pair->row[n % 2], &row, sizeof(row));
		assert_memory_equal(&pair->row[(n - 1) % 2], &before, sizeof(before));
		found = current(f);
		assert_memory_equal(&found, &row, sizeof(row));
		assert_int_equal(f->segment->news->updates, updates + n);
		assert_int_equal(f->segment->updates->update[(updates + n - 1) % WEIR_UPDATES],
			weir_update(WEIR_UPDATE_ROW, BACKEND));
	}
	assert_int_equal(f->segment->rows[BACKEND - 1].version, 0);
	assert_int_equal(f->segment->rows[BACKEND + 1].version, 0);
}

TEST(same_row_is_not_published_again) {
	struct lab *f = *state;
	struct weir_backend_row row = filled(3), zero = {0};
	uint64_t updates;

	assert_false(weir_writer_publish_row(f->writer, BACKEND, &zero));
	assert_true(weir_writer_publish_row(f->writer, BACKEND, &row));
	updates = f->segment->news->updates;
	assert_false(weir_writer_publish_row(f->writer, BACKEND, &row));
	assert_int_equal(f->segment->rows[BACKEND].version, 1);
	assert_int_equal(f->segment->news->updates, updates);
	// A change of one byte at any offset publishes the row.
	for (size_t i = 0; i < sizeof(row); i++) {
		((uint8_t *)&row)[i] ^= 0x80;
		assert_true(weir_writer_publish_row(f->writer, BACKEND, &row));
	}
	// The comparison ignores the copy that is not in use, which contains the previous row.
	((uint8_t *)&row)[sizeof(row) - 1] ^= 0x80;
	assert_true(weir_writer_publish_row(f->writer, BACKEND, &row));
}

// A control process may exit while it writes a row. Any number of bytes of the unused copy are then
// new.
TEST(partial_row_has_no_effect) {
	struct lab *f = *state;
	struct weir_row_pair *pair = &f->control->rows[BACKEND];
	struct weir_backend_row row = filled(1), next = filled(2), found;

	weir_writer_publish_row(f->writer, BACKEND, &row);
	for (size_t bytes = 0; bytes <= sizeof(row); bytes += 8) {
		memcpy(&pair->row[(pair->version + 1) % 2], &next, bytes);
		weir_writer_free(f->writer);
		assert_int_equal(weir_writer_open(f->control, &f->writer), 0);
		found = current(f);
		assert_memory_equal(&found, &row, sizeof(row));
		// The next process overwrites the unused copy, even with the same contents.
		assert_true(weir_writer_publish_row(f->writer, BACKEND, &next));
		found = current(f);
		assert_memory_equal(&found, &next, sizeof(next));
		assert_true(weir_writer_publish_row(f->writer, BACKEND, &row));
	}
}

static void *copy(void *arg) {
	struct lab *f = arg;

	while (!__atomic_load_n(&f->stop, __ATOMIC_RELAXED)) {
		struct weir_backend_row row;

		if (weir_reader_row(f->segment, BACKEND, &row)) {
			f->torn = f->torn || !is_whole(&row);
			__atomic_store_n(&f->copies, f->copies + 1, __ATOMIC_RELAXED);
		}
	}
	return NULL;
}

// --- an interrupted copy ---

// A row pair in shared memory, mapped twice: for the writer, and for a reader whose second page can
// be protected.
static struct straddler {
	struct weir_writer *writer;
	uint8_t *second_page; // second page of the reader's mapping
	uint32_t interruptions;
} straddler;

static uint8_t *map_two_pages(int fd) {
	uint8_t *at = mmap(NULL, 2 * PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	assert_ptr_not_equal(at, MAP_FAILED);
	return at;
}

// Handles SIGSEGV: the reader's copy has reached its second page, which is protected. Publishes two
// rows, and removes the protection, so that the copy continues.
static void publish_two(int signal, siginfo_t *info, void *context) {
	struct weir_backend_row row;

	(void)signal;
	(void)info;
	(void)context;
	for (uint32_t n = 50; n < 52; n++) {
		row = filled(n + straddler.interruptions * 2);
		weir_writer_publish_row(straddler.writer, 0, &row);
	}
	straddler.interruptions++;
	if (mprotect(straddler.second_page, PAGE_BYTES, PROT_READ) < 0) {
		abort();
	}
}

// One half of the copy is old, and the other half is new. The reader detects this, however long the
// copy has taken.
TEST(copy_overtaken_twice_is_detected) {
	struct lab *f = *state;
	const struct sigaction action = {.sa_sigaction = publish_two, .sa_flags = SA_SIGINFO};
	struct weir_backend_row row = filled(1), copied = filled(9), before = copied;
	struct weir_segment reader = *f->segment;
	struct weir_row_pair *rows = f->control->rows;
	int fd = memfd_create("rows", MFD_CLOEXEC);
	uint8_t *written, *read;
	struct sigaction former;

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, 2 * PAGE_BYTES), 0);
	written = map_two_pages(fd);
	read = map_two_pages(fd);
	close(fd);
	f->control->rows = (struct weir_row_pair *)(void *)(written + STRADDLER_AT);
	reader.rows = (struct weir_row_pair *)(void *)(read + STRADDLER_AT);
	straddler = (struct straddler){.writer = f->writer, .second_page = read + PAGE_BYTES};
	assert_true((uint8_t *)&reader.rows->row[0] < straddler.second_page &&
		    (uint8_t *)&reader.rows->row[1] > straddler.second_page);
	for (uint32_t n = 1; n <= 2; n++) {
		row = filled(n);
		weir_writer_publish_row(f->writer, 0, &row);
	}
	assert_int_equal(reader.rows->version % 2, 0);
	assert_int_equal(sigaction(SIGSEGV, &action, &former), 0);
	assert_int_equal(mprotect(straddler.second_page, PAGE_BYTES, PROT_NONE), 0);
	assert_false(weir_reader_row(&reader, 0, &copied));
	assert_int_equal(sigaction(SIGSEGV, &former, NULL), 0);
	assert_int_equal(straddler.interruptions, 1);
	assert_memory_equal(&copied, &before, sizeof(copied));
	assert_true(weir_reader_row(&reader, 0, &copied));
	assert_true(is_whole(&copied));
	f->control->rows = rows;
	munmap(written, 2 * PAGE_BYTES);
	munmap(read, 2 * PAGE_BYTES);
}

// Even if versions change as fast as possible, no copy contains parts of two rows.
TEST(copies_are_never_torn) {
	struct lab *f = *state;
	struct weir_backend_row row = filled(0);
	pthread_t thread;

	assert_true(weir_writer_publish_row(f->writer, BACKEND, &row));
	assert_int_equal(pthread_create(&thread, NULL, copy, f), 0);
	for (uint32_t n = 1; n < FLIPS || __atomic_load_n(&f->copies, __ATOMIC_RELAXED) < FLIPS;
		n++) {
		row = filled(n);
		weir_writer_publish_row(f->writer, BACKEND, &row);
	}
	__atomic_store_n(&f->stop, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	print_message("%llu copies\n", (unsigned long long)f->copies);
	assert_false(f->torn);
}
