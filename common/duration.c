// SPDX-License-Identifier: BSD-3-Clause
#include "duration.h"

#include <stdio.h>

const char *weir_duration_text(uint64_t ms, char buffer[WEIR_DURATION_BYTES]) {
	static const struct {
		unsigned long long seconds,
			part; // length of the larger and of the smaller unit, in seconds
		char unit, part_unit;
	} units[] = {{86400, 3600, 'd', 'h'}, {3600, 60, 'h', 'm'}, {60, 1, 'm', 's'}};
	const unsigned long long tenths = (ms / 10 + 5) / 10, s = tenths / 10; // rounded to 0.1 s

	for (int i = 0; i < 3; i++) {
		if (s >= units[i].seconds) {
			snprintf(buffer, WEIR_DURATION_BYTES, "%llu%c%02llu%c",
				s / units[i].seconds, units[i].unit,
				s % units[i].seconds / units[i].part, units[i].part_unit);
			return buffer;
		}
	}
	snprintf(buffer, WEIR_DURATION_BYTES, "%llu.%llus", s, tenths % 10);
	return buffer;
}
