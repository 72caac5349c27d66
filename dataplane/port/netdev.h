// SPDX-License-Identifier: BSD-3-Clause
//
// Netdev: what the kernel reports about its network interfaces.
//
// Threads: any; system calls of microseconds.
#pragma once

#include <stdbool.h>
#include <stdint.h>

// Pairs of queues that the interface uses now (ethtool -l), 1 if it does not report them. AF_XDP
// uses pairs only: an interface that counts receive queues separately, such as veth, must have one.
// Returns the number or negative errno: -ENODEV no such interface, -EMLINK several receive queues
// that are not in pairs.
int weir_netdev_queues(const char *interface);
// True if the hardware spreads flows over these queues (ethtool -x): then a flow stays on one
// queue.
bool weir_netdev_spreads(const char *interface);
// Have the NIC leave VLAN tags in the frames: AF_XDP does not pass on a tag that was stripped.
// Returns 1 (stripping was on), 0 (it was off), or negative errno.
int weir_netdev_keep_tags(const char *interface);
int weir_netdev_mac(const char *interface, uint8_t ret[6]); // 0 or negative errno
// MTU, or negative errno.
int weir_netdev_mtu(const char *interface);
int weir_netdev_set_mtu(const char *interface, uint16_t mtu); // 0 or negative errno
// True if the interface exists and is up.
bool weir_netdev_is_up(const char *interface);
// True if it is up and has a carrier, too.
bool weir_netdev_has_carrier(const char *interface);
