// SPDX-License-Identifier: BSD-3-Clause
#include "checksum.h"

const struct weir_checksum_division weir_checksum_division = {
	.inverse = 0xfffefffefffeffffull, .quotient_max = UINT64_MAX / 0xffff};
