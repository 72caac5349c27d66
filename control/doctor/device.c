// SPDX-License-Identifier: BSD-3-Clause
#include "device.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "config_host.h"
#include "tree.h"

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

// Gets the value of iface= in the arguments of a device.
static bool get_iface(const char *device, char ret[IF_NAMESIZE]) {
	const char *at = strstr(device, ",iface=");
	const size_t length = at != NULL ? strcspn(at + strlen(",iface="), ",") : 0;

	if (length == 0 || length >= IF_NAMESIZE) {
		ret[0] = '\0';
		return false;
	}
	memcpy(ret, at + strlen(",iface="), length);
	ret[length] = '\0';
	return true;
}

bool weir_doctor_kernel_interface(const struct weir_config_port *port, char ret[IF_NAMESIZE]) {
	return get_iface(port->exception[0] != '\0' ? port->exception : port->device, ret);
}

int weir_doctor_vlan_of(const char *root, const char *interface) {
	char text[512];
	unsigned int vlan = 0;
	const char *at;

	if (weir_tree_text(root, text, sizeof(text), "/proc/net/vlan/%s", interface) <= 0) {
		return weir_tree_has(root, "/proc/net/vlan/%s", interface) ? -1 : 0;
	}
	at = strstr(text, "VID: ");
	return at != NULL && sscanf(at, "VID: %u", &vlan) == 1 ? (uint16_t)vlan : 0;
}

// Returns whether an interface is on top of another one, or of the bridge or bond of that one.
static bool is_upper(const char *root, const char *lower, const char *interface) {
	return weir_tree_has(root, "/sys/class/net/%s/upper_%s", lower, interface) ||
	       weir_tree_has(root, "/sys/class/net/%s/master/upper_%s", lower, interface);
}

const struct weir_config_port *weir_doctor_find_port(
	const char *root, const struct weir_config *config, const char *interface) {
	const int vlan = weir_doctor_vlan_of(root, interface);

	for (uint32_t i = 0; i < config->port_count; i++) {
		const struct weir_config_port *port = &config->ports[i];
		char own[IF_NAMESIZE];

		if (!weir_doctor_kernel_interface(port, own)) {
			continue;
		}
		if (port->vlan == 0 && strcmp(own, interface) == 0) {
			return port; // also if the port is the VLAN interface itself
		}
		if ((port->vlan == vlan || (vlan < 0 && port->vlan != 0)) &&
			is_upper(root, own, interface)) {
			return port;
		}
	}
	return NULL;
}

const struct weir_config_port *weir_doctor_find_other_vlan(
	const char *root, const struct weir_config *config, const char *interface) {
	for (uint32_t i = 0; i < config->port_count; i++) {
		char own[IF_NAMESIZE];

		if (weir_doctor_kernel_interface(&config->ports[i], own) &&
			(strcmp(own, interface) == 0 || is_upper(root, own, interface))) {
			return &config->ports[i];
		}
	}
	return NULL;
}
