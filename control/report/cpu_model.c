// SPDX-License-Identifier: BSD-3-Clause
#include "cpu_model.h"

#include <stddef.h>

void weir_cpu_model_set(char ret[static WEIR_CPU_MODEL_BYTES], const char *name) {
	size_t n = 0;

	for (; *name != '\0' && *name != '\n' && n < WEIR_CPU_MODEL_BYTES - 1; name++) {
		if (*name != ' ' && *name != '\t') {
			ret[n++] = *name > ' ' && *name <= '~' ? *name : '?';
		} else if (n > 0 && ret[n - 1] != ' ') {
			ret[n++] = ' ';
		}
	}
	while (n > 0 && ret[n - 1] == ' ') {
		n--;
	}
	ret[n] = '\0';
}

uint32_t weir_cpu_model_number(const char *name) {
	char model[WEIR_CPU_MODEL_BYTES];
	uint32_t hash = 2166136261u;

	weir_cpu_model_set(model, name);
	if (model[0] == '\0') {
		return 0;
	}
	for (const char *at = model; *at != '\0'; at++) {
		hash = (hash ^ (uint8_t)*at) * 16777619u;
	}
	hash = (hash >> 24 ^ hash) % WEIR_CPU_MODEL_NUMBERS;
	return hash > 0 ? hash : 1;
}
