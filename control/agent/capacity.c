// SPDX-License-Identifier: BSD-3-Clause
#include "capacity.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "capacity_loop.h"
#include "clocks.h"

#define SLICE_ROUNDS 4 // rounds per slice; a slice takes 0.6 ms on the reference CPU
#define SLICES_MOST 250
#define SLICES_LEAST 20 // minimum, for slow CPUs such as emulated CPUs
#define TIME_MOST_NS 100000000
#define FASTEST 10 // percentile of the slice times that determines the speed
#define TEXT_BYTES 8192

// --- CPU model ----------------------------------------------------------------------------

// Returns the value of the first line of /proc/cpuinfo with this name, or NULL if there is no such
// line. The value ends at a line feed, not at a NUL.
static const char *value_of(const char *text, const char *name) {
	size_t length = strlen(name);

	while (text != NULL) {
		if (strncmp(text, name, length) == 0) {
			const char *colon = text + length + strspn(text + length, " \t");

			if (*colon == ':') {
				return colon + 1;
			}
		}
		text = strchr(text, '\n');
		text = text != NULL ? text + 1 : NULL;
	}
	return NULL;
}

static const char *word_of(const char *text, const char *name, char *ret, size_t bytes) {
	const char *value = value_of(text, name);

	value = value != NULL ? value + strspn(value, " \t") : "?";
	snprintf(ret, bytes, "%.*s", (int)strcspn(value, " \t\n"), value);
	return ret;
}

void weir_capacity_cpu_read(const char *proc_root, struct weir_capacity_cpu *ret) {
	char path[PATH_MAX], text[TEXT_BYTES] = "", a[8], b[8], c[8];
	const char *name;
	FILE *file;

	*ret = (struct weir_capacity_cpu){.model = ""};
	snprintf(path, sizeof(path), "%s/cpuinfo", proc_root);
	file = fopen(path, "re");
	if (file != NULL) {
		text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
		fclose(file);
	}
	name = value_of(text, "model name");
	if (name != NULL) {
		weir_cpu_model_set(ret->model, name);
	} else if (value_of(text, "CPU part") != NULL) {
		snprintf(path, sizeof(path), "CPU %s %s",
			word_of(text, "CPU implementer", a, sizeof(a)),
			word_of(text, "CPU part", b, sizeof(b)));
		weir_cpu_model_set(ret->model, path);
	}
	snprintf(ret->stepping, sizeof(ret->stepping), "%s/%s/%s",
		word_of(text, "cpu family", a, sizeof(a)), word_of(text, "model", b, sizeof(b)),
		word_of(text, name != NULL ? "stepping" : "CPU revision", c, sizeof(c)));
}

// --- measuring the speed ------------------------------------------------------------------

static int compare(const void *x, const void *y) {
	const uint64_t a = *(const uint64_t *)x, b = *(const uint64_t *)y;

	return a < b ? -1 : a > b;
}

double weir_capacity_of_slices(uint64_t *slice_ns, size_t count, uint32_t rounds) {
	uint64_t ns;

	qsort(slice_ns, count, sizeof(*slice_ns), compare);
	ns = slice_ns[count * FASTEST / 100];
	return ns > 0 ? (double)WEIR_CAPACITY_REFERENCE_NS * rounds / (double)ns : 0;
}

int weir_capacity_measure(double *ret_gcu) {
	uint64_t slice_ns[SLICES_MOST], start = weir_thread_cpu_ns(), before = 0;
	struct weir_capacity_loop loop;
	volatile uint64_t number = 0; // volatile, so that the compiler keeps the computation
	size_t count = 0;
	double gcu;
	int r = weir_capacity_loop_init(&loop);

	if (r) {
		return r;
	}
	(void)setpriority(PRIO_PROCESS, (id_t)gettid(), 19);
	while (count < SLICES_MOST &&
		(count < SLICES_LEAST || weir_thread_cpu_ns() - start < TIME_MOST_NS)) {
		before = weir_thread_cpu_ns();
		for (int i = 0; i < SLICE_ROUNDS; i++) {
			number = number ^ weir_capacity_loop_round(&loop);
		}
		slice_ns[count++] = weir_thread_cpu_ns() - before;
	}
	weir_capacity_loop_fini(&loop);
	gcu = weir_capacity_of_slices(slice_ns, count, SLICE_ROUNDS);
	if (!(gcu >= WEIR_CAPACITY_LEAST_GCU && gcu <= WEIR_CAPACITY_MOST_GCU)) {
		return -ERANGE;
	}
	*ret_gcu = gcu;
	return 0;
}
