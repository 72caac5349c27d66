// SPDX-License-Identifier: BSD-3-Clause
//
// Driver names: a list of DPDK's drivers of virtual devices, to find typing errors in device names.
// The list may be incomplete, because each version of DPDK has different drivers.
//
// Threads: any.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define WEIR_DRIVER_GUESS_BYTES 48

// Returns whether a device name begins with the name of a known driver, such as
// "net_tap0,iface=weir0", or is the address of a hardware device on its bus, such as the PCI
// address "0000:01:00.0".
bool weir_driver_is_known(const char *device);
// Gets the device name that the user probably meant, such as "net_af_xdp0" for
// "net_afxdp0,iface=lb0". Returns ret, which is "" if no name is similar.
const char *weir_driver_guess(const char *device, char ret[WEIR_DRIVER_GUESS_BYTES]);
