// SPDX-License-Identifier: BSD-3-Clause
//
// Describes the first bytes of an Ethernet frame as text.
//
// Threads: any. Never reads beyond data_bytes.
#pragma once

#include <stddef.h>
#include <stdint.h>

// Write a description such as "TCP SYN seq 77, no data", "UDP, 28 bytes of data", "ICMP type 8 code
// 0" or "IPv6, truncated". Lengths are from the headers, even if the frame is truncated. Returns
// buffer.
const char *weir_frame_text(const uint8_t *data, size_t data_bytes, char *buffer, size_t bytes);

// Returns the IP version of a frame, 4 or 6, from its EtherType. VLAN tags are skipped. Returns 0
// if the frame has another EtherType or an incomplete Ethernet header.
int weir_frame_ip_version(const uint8_t *data, size_t data_bytes);
