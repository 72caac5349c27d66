// SPDX-License-Identifier: BSD-3-Clause
//
// Device watch: detects changes of a device's link, interface, MAC address and MTU while workers
// run. Each change is logged once.
//
// Threads: main.
#pragma once

#include "device.h"
#include "log.h"

struct weir_device_watch {
	bool link; // link state at the last check; initialized when the device was opened
	bool removed; // the kernel's interface was removed
	bool mac_changed; // the MAC address of the interface was changed
	bool mtu_lowered; // the MTU of the interface is below the port's MTU
};

// Log changes since the last call. port: the name of the port that the device belongs to. Returns
// 0, or -ENODEV if the interface was removed and a new interface has the same name. Opening the new
// interface needs capabilities that this process has dropped: the process must be restarted.
int weir_device_watch(struct weir_device_watch *watch, const struct weir_device *device,
	const char *port, const struct weir_log *log);
