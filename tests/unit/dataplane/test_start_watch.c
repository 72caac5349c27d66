// SPDX-License-Identifier: BSD-3-Clause
#include <errno.h>
#include <semaphore.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "start_watch.h"
#include "test.h"

struct lab {
	int fd;
	sem_t called;
};

static void read_it(void *context) {
	struct lab *lab = context;
	eventfd_t value;

	assert_int_equal(eventfd_read(lab->fd, &value), 0);
	sem_post(&lab->called);
}

// A separate thread calls the function each time that the descriptor is readable.
TEST(watch_calls_whenever_the_descriptor_is_readable) {
	struct lab lab = {.fd = eventfd(0, EFD_CLOEXEC)};
	struct weir_start_watch watch;
	struct timespec until;

	(void)state;
	assert_true(lab.fd >= 0);
	sem_init(&lab.called, 0, 0);
	assert_int_equal(weir_start_watch_begin(&watch, lab.fd, read_it, &lab), 0);
	for (int i = 0; i < 3; i++) {
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_sec += 20;
		assert_int_equal(eventfd_write(lab.fd, 1), 0);
		assert_int_equal(sem_timedwait(&lab.called, &until), 0);
	}
	weir_start_watch_end(&watch);
	assert_int_equal(eventfd_write(lab.fd, 1), 0);
	assert_int_equal(sem_trywait(&lab.called), -1); // the thread has ended
	sem_destroy(&lab.called);
	close(lab.fd);
}
