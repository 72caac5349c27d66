// SPDX-License-Identifier: BSD-3-Clause
//
// Poison: marks memory that must not be used, so that AddressSanitizer reports any access to it.
// Does nothing in builds without AddressSanitizer. Private to this folder and its tests.
#pragma once

#include <stddef.h>

#if defined(__SANITIZE_ADDRESS__)
#define WEIR_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WEIR_ASAN 1
#endif
#endif
#ifdef WEIR_ASAN
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, bytes) ((void)(address), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(address, bytes) ((void)(address), (void)(bytes))
#define __asan_region_is_poisoned(begin, size) ((void)(begin), (void)(size), NULL)
#endif
