// SPDX-License-Identifier: BSD-3-Clause
//
// A configuration and frames for the unit tests of weir-pcap.
#pragma once

#include "offline.h"
#include "test.h"

// Service "web" (198.51.100.10 tcp 80) with backends b-1 and b-2, and service "gone" (tcp 81)
// without backends; ports "wan" and "lan".
struct weir_config *lab_config_of(const char *json);
struct weir_config *lab_config(void);

// Start the EAL, for cmocka's group set-up.
int lab_start(void **unused);

// Returns a TCP segment from 203.0.113.1:source_port to 198.51.100.10:port; `payload` more bytes.
struct weir_capture_frame lab_tcp(
	uint16_t source_port, uint16_t port, uint8_t flags, uint32_t payload);
