// SPDX-License-Identifier: BSD-3-Clause
#include "port_link.h"

#include <net/if.h>
#include <string.h>

#include "config_host.h"

enum weir_link_state weir_port_link(
	const struct weir_segment *segment, const struct weir_config *config, uint32_t port) {
	const struct weir_port_info *info = &segment->header->port[port];
	char interface[IF_NAMESIZE];

	for (uint32_t i = 0; i < config->port_count && info->kernel_ifindex != 0; i++) {
		if (strncmp(config->ports[i].name, info->name, sizeof(info->name)) == 0 &&
			weir_config_device_interface(config->ports[i].device, interface)) {
			return weir_link_state_read(info->kernel_ifindex);
		}
	}
	// The port has no kernel interface, or has only a tap interface in addition to its device.
	// Use the link state that the device reports.
	switch (weir_counter_read(&segment->port_counters[port].link)) {
	case WEIR_DEVICE_LINK_UP:
		return WEIR_LINK_UP;
	case WEIR_DEVICE_LINK_DOWN:
		return WEIR_LINK_NO_CARRIER;
	default:
		return WEIR_LINK_UNKNOWN;
	}
}

enum weir_link_state weir_port_link_without_dataplane(const struct weir_port_info *info) {
	char interface[sizeof(info->kernel_interface) + 1] = "";
	enum weir_link_state link;
	uint32_t ifindex;

	if (info->kernel_ifindex == 0) {
		return WEIR_LINK_UNKNOWN;
	}
	link = weir_link_state_read(info->kernel_ifindex);
	if (link == WEIR_LINK_GONE) {
		memcpy(interface, info->kernel_interface, sizeof(info->kernel_interface));
		ifindex = if_nametoindex(interface);
		link = ifindex != 0 ? weir_link_state_read(ifindex) : link;
	}
	return link;
}
