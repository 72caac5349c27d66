// SPDX-License-Identifier: BSD-3-Clause
#include "device.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "config_host.h"

// Returns whether the name of a device is a PCI address, such as "0000:01:00.0" or "01:00.0".
static bool is_pci(const char *device) {
	size_t length = strcspn(device, ","), colons = 0;

	for (size_t i = 0; i < length; i++) {
		if (!isxdigit((unsigned char)device[i]) && strchr(":.", device[i]) == NULL) {
			return false;
		}
		colons += device[i] == ':';
	}
	return colons == 1 || colons == 2;
}

struct weir_doctor_device weir_doctor_device_of(const struct weir_config_port *port) {
	struct weir_doctor_device device = {0};

	device.af_xdp = strncmp(port->device, "net_af_xdp", strlen("net_af_xdp")) == 0;
	device.af_packet = strncmp(port->device, "net_af_packet", strlen("net_af_packet")) == 0;
	if (!weir_config_device_interface(port->device, device.interface) && is_pci(port->device)) {
		int length = (int)strcspn(port->device, ",");

		snprintf(device.pci, sizeof(device.pci), "%s%.*s",
			strcspn(port->device, ":") == 2 ? "0000:" : "", length, port->device);
	}
	return device;
}
