// SPDX-License-Identifier: BSD-3-Clause
//
// Netdev: what the kernel reports about its network interfaces.
//
// Threads: any; system calls of microseconds.
#pragma once

#include <stdbool.h>
#include <stdint.h>

// Pairs of queues that the interface uses now (ethtool -l), 1 where it cannot tell. AF_XDP takes
// pairs only: one that counts its receive queues apart, such as veth, must have one.
// Returns the number or negative errno: -ENODEV no such interface, -EMLINK several receive queues
// that are no pairs.
int weir_netdev_queues(const char *interface);
// True if the hardware spreads flows over these queues (ethtool -x): then a flow stays on one
// queue.
bool weir_netdev_spreads(const char *interface);
// Let the NIC leave VLAN tags in the frames: AF_XDP gets nothing of a tag that was taken off.
// Returns 1 (it took them off until now), 0 (it did not), or negative errno.
int weir_netdev_keep_tags(const char *interface);
int weir_netdev_mac(const char *interface, uint8_t ret[6]); // 0 or negative errno
// MTU, or negative errno.
int weir_netdev_mtu(const char *interface);
int weir_netdev_set_mtu(const char *interface, uint16_t mtu); // 0 or negative errno
// True if the interface exists and is up.
bool weir_netdev_is_up(const char *interface);
// True if it is up and has a carrier, too.
bool weir_netdev_has_carrier(const char *interface);
