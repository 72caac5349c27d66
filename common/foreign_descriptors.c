// SPDX-License-Identifier: BSD-3-Clause
#include "foreign_descriptors.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <time.h>
#include <unistd.h>

#define MOST_NS 1000000 // time after which a signal interrupts a blocking system call
#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83
#endif
#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

static _Thread_local timer_t timer;
static _Thread_local bool has_timer;

static void on_signal(int number) {
	(void)number; // nothing to do: the signal has interrupted the system call
}

static void create_timer(void) {
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
	struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGVTALRM};
	sigset_t signals;

	event.sigev_notify_thread_id = gettid();
	sigemptyset(&signals);
	sigaddset(&signals, SIGVTALRM);
	has_timer = sigaction(SIGVTALRM, &action, NULL) == 0 &&
		    pthread_sigmask(SIG_UNBLOCK, &signals, NULL) == 0 &&
		    timer_create(CLOCK_MONOTONIC, &event, &timer) == 0;
}

// Sends a signal to the calling thread every `ns` nanoseconds; 0 = stop sending. The signals
// repeat, because the first signal may arrive before the system call that it must interrupt.
static void interrupt_after(long ns) {
	const struct itimerspec spec = {.it_value.tv_nsec = ns, .it_interval.tv_nsec = ns};
	int before = errno;

	if (!has_timer) {
		create_timer();
	}
	if (has_timer) {
		(void)timer_settime(timer, 0, &spec, NULL);
	}
	errno = before;
}

void weir_foreign_refuse(int fd) {
	const int off = 0;

	(void)setsockopt(fd, SOL_SOCKET, SO_PASSRIGHTS, &off, sizeof(off));
}

void weir_foreign_begin(void) {
	interrupt_after(MOST_NS);
}

void weir_foreign_end(void) {
	interrupt_after(0);
}

ssize_t weir_foreign_read(int fd, void *to, size_t bytes) {
	ssize_t n;

	weir_foreign_begin();
	n = read(fd, to, bytes);
	weir_foreign_end();
	return n;
}

ssize_t weir_foreign_recvmsg(int fd, struct msghdr *message, int flags) {
	ssize_t n;

	weir_foreign_begin();
	n = recvmsg(fd, message, flags);
	weir_foreign_end();
	return n;
}

void weir_foreign_close(int fd) {
	weir_foreign_begin();
	(void)close(fd);
	weir_foreign_end();
}
