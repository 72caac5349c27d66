// SPDX-License-Identifier: BSD-3-Clause
//
// Netdev: queries and sets properties of the kernel's network interfaces.
//
// Threads: any; each function makes system calls that take microseconds.
#pragma once

#include <stdbool.h>
#include <stdint.h>

// Returns the number of combined queues that the interface uses now (ethtool -l), or 1 if the
// interface does not report combined queues. AF_XDP can only use combined queues: an interface with
// separate receive queues, such as veth, must have only one receive queue. Returns -ENODEV if there
// is no such interface, -EMLINK if it has several separate receive queues, or another negative
// errno.
int weir_netdev_queues(const char *interface);
// Returns true if the hardware spreads flows over its queues (ethtool -x), so that a flow stays on
// one queue.
bool weir_netdev_spreads(const char *interface);
// Disable VLAN stripping in the NIC, because AF_XDP does not pass on a stripped tag. Returns 1
// (stripping was on), 0 (stripping was off or cannot be queried), -EOPNOTSUPP (stripping cannot be
// disabled), or another negative errno.
int weir_netdev_keep_tags(const char *interface);
int weir_netdev_mac(const char *interface, uint8_t ret[6]); // 0 or negative errno
// Returns the MTU of the interface, or negative errno.
int weir_netdev_mtu(const char *interface);
int weir_netdev_set_mtu(const char *interface, uint16_t mtu); // 0 or negative errno
// Returns true if the interface exists and is up.
bool weir_netdev_is_up(const char *interface);
// Returns true if the interface is up and has a carrier.
bool weir_netdev_has_carrier(const char *interface);
// Attaches a filter to the packet sockets (AF_PACKET) of this process that are bound to an
// interface, so that they do not receive the frames that the kernel sends on the interface. This
// also works for sockets in a fanout group, unlike PACKET_IGNORE_OUTGOING. Returns the number of
// these sockets, or negative errno.
int weir_netdev_ignore_outgoing(unsigned int ifindex);
