// SPDX-License-Identifier: BSD-3-Clause
//
// Devargs: parses DPDK device strings: "net_af_xdp0,iface=lb0", "0000:01:00.0,key=value".
//
// Threads: pure functions.
#pragma once

#include <stdbool.h>
#include <stddef.h>

// Maximum size of a device string, with appended arguments. Half of it is for the parsed string.
#define WEIR_DEVARGS_BYTES 1024
#define WEIR_DEVICE_NAME_BYTES 64

struct weir_devargs {
	char name[WEIR_DEVICE_NAME_BYTES]; // DPDK's name of the device: net_af_xdp0, 0000:01:00.0
	// driver of a virtual device, such as net_af_xdp; "" for PCI
	char driver[WEIR_DEVICE_NAME_BYTES];
	char text[WEIR_DEVARGS_BYTES]; // name and arguments, without "pci:" or "vdev:"
	bool pci;
};

// Parse a device string. Returns 0, -EINVAL (no name, or a name without a driver), -ENAMETOOLONG.
int weir_devargs_parse(const char *device, struct weir_devargs *ret);
// Get the value of an argument. Returns false if the argument is missing or does not fit.
bool weir_devargs_get(const struct weir_devargs *devargs, const char *key, char *ret, size_t bytes);
// Append key=value. Returns 0 or -ENAMETOOLONG (unchanged).
int weir_devargs_append(struct weir_devargs *devargs, const char *key, const char *value);
// Returns whether the device has this driver.
bool weir_devargs_is(const struct weir_devargs *devargs, const char *driver);
