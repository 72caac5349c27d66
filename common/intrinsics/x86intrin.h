// SPDX-License-Identifier: BSD-3-Clause
//
// In place of the compiler's header of this name: see immintrin.h here.
#pragma once

#ifdef __AVX__
#include_next <x86intrin.h>
#else
#include <nmmintrin.h>
#endif
