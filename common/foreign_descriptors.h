// SPDX-License-Identifier: BSD-3-Clause
//
// Foreign descriptors: who can send to a Unix socket can attach descriptors (SCM_RIGHTS), also
// unasked. The kernel closes those that the receiver does not take, in the middle of its read(2) or
// close(2), and the close of a TCP socket with SO_LINGER lasts as long as the sender has chosen.
// These calls do not: a signal interrupts such a wait within two milliseconds.
//
// Threads: any. Each thread that calls these has a timer of its own, from its first call on; not
// in a child after fork(2). They take SIGVTALRM for themselves.
#pragma once

#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>

// Let the kernel refuse descriptors at this socket, and at those accepted from it: the sender gets
// EPERM. Without effect before Linux 6.16.
void weir_foreign_refuse(int fd);

// Around a call of a library that reads from a socket or closes it. Short: other calls that wait in
// between are interrupted as well.
void weir_foreign_begin(void);
void weir_foreign_end(void);

// Like read(2), recvmsg(2) and close(2).
ssize_t weir_foreign_read(int fd, void *to, size_t bytes);
ssize_t weir_foreign_recvmsg(int fd, struct msghdr *message, int flags);
void weir_foreign_close(int fd);
