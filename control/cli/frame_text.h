// SPDX-License-Identifier: BSD-3-Clause
//
// What the first bytes of an Ethernet frame say, as text.
//
// Threads: any. Pure: reads no more than data_bytes.
#pragma once

#include <stddef.h>
#include <stdint.h>

// "TCP SYN seq 77, no data", "UDP, 28 bytes of data", "ICMP type 8 code 0", "IPv6, cut". Lengths
// are those that the headers tell, however much of the frame is there. Returns buffer.
const char *weir_frame_text(const uint8_t *data, size_t data_bytes, char *buffer, size_t bytes);

// 4 or 6, behind VLAN tags; 0: neither.
int weir_frame_ip_version(const uint8_t *data, size_t data_bytes);
