// SPDX-License-Identifier: BSD-3-Clause
//
// The helper process that runs programs: it receives requests (programs_message.h), starts a
// process group for each program, kills the group after the timeout of the program, and answers
// with the program's result. When weir-control has closed the connection, the helper waits for its
// programs and exits.
//
// Threads: one process, one thread.
#pragma once

#include "privileges.h"

// Serve requests until the other end of fd is closed and all programs have ended. context: a
// const struct weir_run_as, the user to switch to.
void weir_programs_serve(int fd, const void *context);
