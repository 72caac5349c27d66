// SPDX-License-Identifier: BSD-3-Clause
//
// Received: how much a peer has sent, whatever was made of it.
//
// Threads: any.
#pragma once

#include <stdint.h>

// Bytes that have come on a TCP connection so far; 0 = not known.
uint64_t weir_received(int fd);
