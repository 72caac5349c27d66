// SPDX-License-Identifier: BSD-3-Clause
//
// Foreign descriptors: a process that sends to a Unix socket can attach descriptors (SCM_RIGHTS)
// that the receiver does not use. The kernel closes such descriptors during the receiver's read(2)
// or close(2). Closing a TCP socket with SO_LINGER can block for a time that the sender chose. With
// the functions below, a signal interrupts such a wait within two milliseconds.
//
// Threads: any. Each thread gets its own timer at its first call. No signal interrupts the wait if
// the timer cannot be created, or in a child that a thread with a timer has forked, because
// fork(2) copies no timer. The functions use SIGVTALRM, so programs must not use this signal.
#pragma once

#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>

// Make the kernel refuse descriptors that are sent to this socket, or to sockets accepted from it:
// the sender gets EPERM. Has no effect before Linux 6.16.
void weir_foreign_refuse(int fd);

// Call weir_foreign_begin before, and weir_foreign_end after, calling a library that reads from a
// socket or closes a socket. Keep the time between the two calls short, because signals interrupt
// every blocking system call of the thread in this time.
void weir_foreign_begin(void);
void weir_foreign_end(void);

// These functions do the same as read(2), recvmsg(2) and close(2), but descriptors that the sender
// has attached can delay the call by two milliseconds at most.
ssize_t weir_foreign_read(int fd, void *to, size_t bytes);
ssize_t weir_foreign_recvmsg(int fd, struct msghdr *message, int flags);
void weir_foreign_close(int fd);
