// SPDX-License-Identifier: BSD-3-Clause
//
// In place of the compiler's header of this name, for DPDK's rte_vect.h, which includes the
// intrinsics of every x86 extension: without AVX (-march) only those up to SSE4.2 can be used, and
// the others, two megabytes of AVX-512, take half of the time to compile a file, and of
// clang-tidy's to check one.
#pragma once

#ifdef __AVX__
#include_next <immintrin.h>
#else
#include <nmmintrin.h>
#endif
