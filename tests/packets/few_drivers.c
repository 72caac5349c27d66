// SPDX-License-Identifier: BSD-3-Clause
//
// Preloaded library: lets DPDK find only the drivers in the folder WEIR_DRIVERS. Without the
// library, DPDK loads all 190 drivers when it starts; this takes longer than processing a capture
// of a few packets.
#include <dirent.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

DIR *opendir(const char *name) {
	DIR *(*next)(const char *) = (DIR * (*)(const char *)) dlsym(RTLD_NEXT, "opendir");
	const char *drivers = getenv("WEIR_DRIVERS");

	return next(drivers != NULL && strstr(name, "/dpdk/pmds-") != NULL ? drivers : name);
}
