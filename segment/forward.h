// SPDX-License-Identifier: BSD-3-Clause
//
// The forwarding modes, each defined in its file forward_NAME.c. Private to this folder.
#pragma once

#include "forwarding.h"

#define X(name, member, key, text) \
	extern const struct weir_forwarding_headers weir_forward_##member;
WEIR_FORWARDING_MODES(X)
#undef X

static inline uint16_t weir_forward_be16(uint16_t value) {
	return __builtin_bswap16(value);
}

static inline uint16_t weir_forward_get16(const uint8_t *at) {
	return (uint16_t)(at[0] << 8 | at[1]);
}

static inline void weir_forward_put16(uint8_t *at, uint16_t value) {
	at[0] = (uint8_t)(value >> 8);
	at[1] = (uint8_t)value;
}
