// SPDX-License-Identifier: BSD-3-Clause
//
// Replaces the compiler's header of this name, which defines the intrinsics of every x86 extension.
// DPDK's rte_vect.h includes it. The intrinsics of AVX-512 are two megabytes of text. The compiler
// and clang-tidy would spend half of their time on this text. If the target has no AVX (-march),
// these intrinsics cannot be used, so this header includes only the intrinsics up to SSE4.2.
#pragma once

#ifdef __AVX__
#include_next <immintrin.h>
#else
#include <nmmintrin.h>
#endif
