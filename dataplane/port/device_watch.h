// SPDX-License-Identifier: BSD-3-Clause
//
// Device watch: changes of a device's link, interface, MAC address and MTU while workers run.
// Each change is logged once.
//
// Threads: main.
#pragma once

#include "device.h"
#include "log.h"

struct weir_device_watch {
	bool link; // at the last check; set it when the device was opened
	bool removed; // the kernel's interface
	bool mac_changed; // of that interface
	bool mtu_lowered; // of that interface, below the port's
};

// Log what has changed since the last call. port: the name of the port that the device belongs to.
// Returns 0, or -ENODEV: the interface was removed and another one has its name now. Opening that
// one needs capabilities that this process has dropped: it must be restarted.
int weir_device_watch(struct weir_device_watch *watch, const struct weir_device *device,
	const char *port, const struct weir_log *log);
