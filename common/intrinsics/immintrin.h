// SPDX-License-Identifier: BSD-3-Clause
//
// Replaces the compiler's header of this name for DPDK's rte_vect.h, which includes the intrinsics
// of every x86 extension. Without AVX (-march), only the intrinsics up to SSE4.2 can be used. The
// intrinsics of AVX-512, two megabytes, take half of the time that the compiler and clang-tidy need
// for a file.
#pragma once

#ifdef __AVX__
#include_next <immintrin.h>
#else
#include <nmmintrin.h>
#endif
