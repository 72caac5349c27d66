// SPDX-License-Identifier: BSD-3-Clause
#include "device_watch.h"

#include <errno.h>
#include <net/if.h>
#include <string.h>

#include "netdev.h"

#define ABOUT(name) (&(struct weir_log_fields){.port = (name)})

static void watch_link(struct weir_device_watch *watch, const struct weir_device *device,
	const char *port, const struct weir_log *log) {
	bool link = weir_device_link(device);

	if (link == watch->link) {
		return;
	}
	watch->link = link;
	weir_log_event(log, link ? WEIR_LOG_INFO : WEIR_LOG_WARN, ABOUT(port),
		"port %s: %s: link %s", port, device->name, link ? "up" : "down");
}

// Logs that the MAC address of the interface was changed, which is possible at any time. Weir drops
// frames to the new address and continues to send frames from the old address.
static void watch_mac(struct weir_device_watch *watch, const struct weir_device *device,
	const char *interface, const char *port, const struct weir_log *log) {
	uint8_t mac[6];
	bool changed;

	if (device->any_mac || weir_netdev_mac(interface, mac) < 0) {
		return;
	}
	changed = memcmp(mac, device->mac, sizeof(mac)) != 0;
	if (changed && !watch->mac_changed) {
		weir_log_event(log, WEIR_LOG_ERROR, ABOUT(port),
			"port %s: the MAC address of interface %s was changed: restart "
			"weir-dataplane to use the new address",
			port, interface);
	}
	watch->mac_changed = changed;
}

// Logs when the MTU of the interface becomes lower than the MTU of the port, and when it is no
// longer lower. Packets longer than the interface's MTU are lost, and no counter of the dataplane
// shows this: the kernel drops sent packets, and received packets do not reach the interface.
static void watch_mtu(struct weir_device_watch *watch, const struct weir_device *device,
	const char *interface, const char *port, const struct weir_log *log) {
	int mtu = weir_netdev_mtu(interface);
	bool lowered = mtu < device->mtu;

	if (mtu < 0 || lowered == watch->mtu_lowered) {
		return;
	}
	if (lowered) {
		weir_log_event(log, WEIR_LOG_ERROR, ABOUT(port),
			"port %s: the MTU of interface %s was lowered to %d: longer packets are "
			"lost; run \"ip link set %s mtu %u\"",
			port, interface, mtu, interface, device->mtu);
	} else {
		weir_log_event(log, WEIR_LOG_INFO, ABOUT(port),
			"port %s: the MTU of interface %s is %d again", port, interface, mtu);
	}
	watch->mtu_lowered = lowered;
}

// Logs that the interface was removed. Returns 0 while no new interface has the same name: the
// other ports continue to work. Otherwise returns -ENODEV (logged): the process must be restarted,
// because its sockets stay bound to the removed interface.
static int watch_interface(struct weir_device_watch *watch, const struct weir_device *device,
	const char *port, const struct weir_log *log) {
	enum weir_device_interface state = weir_device_interface(device);

	if (state != WEIR_INTERFACE_PRESENT && !watch->removed) {
		watch->removed = true;
		weir_log_event(log, WEIR_LOG_ERROR, ABOUT(port),
			"port %s: interface %s was removed: waiting for a new interface of this "
			"name",
			port, device->interface);
	}
	if (state != WEIR_INTERFACE_REPLACED) {
		return 0;
	}
	weir_log_event(log, WEIR_LOG_ERROR, ABOUT(port),
		"port %s: interface %s was replaced: weir-dataplane exits, so that systemd "
		"restarts it on the new interface",
		port, device->interface);
	return -ENODEV;
}

int weir_device_watch(struct weir_device_watch *watch, const struct weir_device *device,
	const char *port, const struct weir_log *log) {
	char interface[IF_NAMESIZE];

	watch_link(watch, device, port, log);
	// The interface may have been renamed, so its name is found by its index.
	if (!device->exception && if_indextoname(device->ifindex, interface) != NULL) {
		watch_mac(watch, device, interface, port, log);
		watch_mtu(watch, device, interface, port, log);
	}
	return watch_interface(watch, device, port, log);
}
