// SPDX-License-Identifier: BSD-3-Clause
//
// Preloaded: of DPDK's folder of drivers only those of the folder WEIR_DRIVERS are seen. DPDK loads
// all of them when it starts, 190, which takes longer than a capture of a few packets.
#include <dirent.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

DIR *opendir(const char *name) {
	DIR *(*next)(const char *) = (DIR * (*)(const char *)) dlsym(RTLD_NEXT, "opendir");
	const char *drivers = getenv("WEIR_DRIVERS");

	return next(drivers != NULL && strstr(name, "/dpdk/pmds-") != NULL ? drivers : name);
}
