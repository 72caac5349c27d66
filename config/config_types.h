// SPDX-License-Identifier: BSD-3-Clause
//
// Types of values that only the configuration uses. Internal to config/.
#pragma once

#include "json_reader.h"

extern const struct weir_json_type weir_config_type_name; // [A-Za-z0-9][A-Za-z0-9._-]*
// Integer; for a range such as "80-90", the error message names port_first and port_last.
extern const struct weir_json_type weir_config_type_port;
extern const struct weir_json_type weir_config_type_address; // struct weir_address
// IPv4 "address" or "address/length", as struct weir_address; offset2: a uint8_t, 32 - length.
extern const struct weir_json_type weir_config_type_prefix4;
extern const struct weir_json_type weir_config_type_ipv6; // struct weir_address, IPv6 only
extern const struct weir_json_type weir_config_type_mac; // 6 bytes; offset2: a bool, true if set
extern const struct weir_json_type weir_config_type_seed; // "0x" and up to 16 hexadecimal digits
// uint32_t; offset2: a bool, true for "auto"
extern const struct weir_json_type weir_config_type_weight;
extern const struct weir_json_type weir_config_type_number; // a double, min..max
// Array of min..max words; the first word is an absolute path. Stored in the text of struct
// weir_config_command; offset2: its `words`.
extern const struct weir_json_type weir_config_type_command;
extern const struct weir_json_type weir_config_type_cores; // uint16_t[]; offset2: a uint32_t count
// Text of min..max bytes to send or to expect: printable ASCII, tab, carriage return and line feed;
// char[]
extern const struct weir_json_type weir_config_type_payload;
extern const struct weir_json_type weir_config_type_hex_bytes; // struct weir_config_bytes
