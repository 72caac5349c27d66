// SPDX-License-Identifier: BSD-3-Clause
//
// Preloaded library: lets DPDK find only the drivers in the folder WEIR_DRIVERS, and only the NUMA
// node 0. Without the library, DPDK loads all 190 drivers when it starts, and looks for 128 cores
// in each of 32 nodes; this takes longer than processing a capture of a few packets.
#include <dirent.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NODES "/sys/devices/system/node/node"

DIR *opendir(const char *name) {
	DIR *(*next)(const char *) = (DIR * (*)(const char *)) dlsym(RTLD_NEXT, "opendir");
	const char *drivers = getenv("WEIR_DRIVERS");

	return next(drivers != NULL && strstr(name, "/dpdk/pmds-") != NULL ? drivers : name);
}

int access(const char *name, int mode) {
	int (*next)(const char *, int) = (int (*)(const char *, int))dlsym(RTLD_NEXT, "access");

	return strncmp(name, NODES, sizeof(NODES) - 1) == 0 && name[sizeof(NODES) - 1] != '0'
		       ? -1
		       : next(name, mode);
}
