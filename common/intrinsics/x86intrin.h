// SPDX-License-Identifier: BSD-3-Clause
//
// Replaces the compiler's header of this name: see immintrin.h in this directory.
#pragma once

#ifdef __AVX__
#include_next <x86intrin.h>
#else
#include <nmmintrin.h>
#endif
