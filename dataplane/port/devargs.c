// SPDX-License-Identifier: BSD-3-Clause
#include "devargs.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

// Parses a PCI address, [domain:]bus:device.function. ret: receives the address with its domain.
// Returns false if the text is not a PCI address.
static bool parse_pci(const char *text, char *ret, size_t bytes) {
	unsigned int domain = 0, bus, device, function;
	int end = 0;

	if (sscanf(text, "%4x:%2x:%2x.%1x%n", &domain, &bus, &device, &function, &end) != 4 ||
		text[end] != '\0') {
		domain = 0;
		end = 0;
		if (sscanf(text, "%2x:%2x.%1x%n", &bus, &device, &function, &end) != 3 ||
			text[end] != '\0') {
			return false;
		}
	}
	snprintf(ret, bytes, "%04x:%02x:%02x.%x", domain, bus, device, function);
	return true;
}

// Gets the driver of a virtual device: the name of the device without the number at the end.
static void driver_of(const char *name, char *ret, size_t bytes) {
	size_t length = strlen(name);

	while (length > 0 && isdigit((unsigned char)name[length - 1])) {
		length--;
	}
	snprintf(ret, bytes, "%.*s", (int)length, name);
	// In DPDK, devices virtio_userN have the driver net_virtio_user.
	if (strcmp(ret, "virtio_user") == 0) {
		snprintf(ret, bytes, "net_virtio_user");
	}
}

int weir_devargs_parse(const char *device, struct weir_devargs *ret) {
	struct weir_devargs devargs = {0};
	const char *rest;
	size_t length;

	if (strncmp(device, "pci:", 4) == 0) {
		device += 4;
	} else if (strncmp(device, "vdev:", 5) == 0) {
		device += 5;
	}
	length = strcspn(device, ",");
	rest = device + length;
	if (length == 0) {
		return -EINVAL;
	}
	if (length >= sizeof(devargs.name) || strlen(device) >= sizeof(devargs.text) / 2) {
		return -ENAMETOOLONG;
	}
	snprintf(devargs.name, sizeof(devargs.name), "%.*s", (int)length, device);
	devargs.pci = parse_pci(devargs.name, devargs.name, sizeof(devargs.name));
	if (!devargs.pci) {
		driver_of(devargs.name, devargs.driver, sizeof(devargs.driver));
		if (devargs.driver[0] == '\0' || !isalpha((unsigned char)devargs.driver[0])) {
			return -EINVAL;
		}
	}
	snprintf(devargs.text, sizeof(devargs.text), "%s%s", devargs.name, rest);
	*ret = devargs;
	return 0;
}

bool weir_devargs_get(
	const struct weir_devargs *devargs, const char *key, char *ret, size_t bytes) {
	size_t key_bytes = strlen(key);
	const char *at = strchr(devargs->text, ',');

	while (at != NULL) {
		at++;
		if (strncmp(at, key, key_bytes) == 0 && at[key_bytes] == '=') {
			size_t length = strcspn(at + key_bytes + 1, ",");

			if (length >= bytes) {
				return false;
			}
			memcpy(ret, at + key_bytes + 1, length);
			ret[length] = '\0';
			return true;
		}
		at = strchr(at, ',');
	}
	return false;
}

int weir_devargs_append(struct weir_devargs *devargs, const char *key, const char *value) {
	size_t length = strlen(devargs->text);

	if (length + strlen(key) + strlen(value) + 3 > sizeof(devargs->text)) {
		return -ENAMETOOLONG;
	}
	snprintf(devargs->text + length, sizeof(devargs->text) - length, ",%s=%s", key, value);
	return 0;
}

bool weir_devargs_is(const struct weir_devargs *devargs, const char *driver) {
	return strcmp(devargs->driver, driver) == 0;
}
