// SPDX-License-Identifier: BSD-3-Clause
//
// Options of weir-pcap's command line. Called by main.c.
//
// Threads: one.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WEIR_PCAP_CHANGES_MAX 256
#define WEIR_PCAP_NAME_BYTES 64

enum weir_pcap_change_kind {
	WEIR_PCAP_DRAIN, // set the administrative state to drain
	WEIR_PCAP_MAINTENANCE, // set the administrative state to maintenance
	WEIR_PCAP_DOWN, // set the health state to refusing
	WEIR_PCAP_WEIGHT, // override the weight
	WEIR_PCAP_RELOAD, // switch to another configuration
};

struct weir_pcap_change { // change of one backend, or of the configuration
	enum weir_pcap_change_kind kind;
	const char *file; // RELOAD: text of file_bytes bytes, without a final NUL
	size_t file_bytes;
	char service[WEIR_PCAP_NAME_BYTES]; // other kinds: the service
	char backend[WEIR_PCAP_NAME_BYTES];
	uint32_t weight;
	uint32_t packet; // the change is made before this packet, counted from 1
};

struct weir_pcap_options {
	const char *config;
	const char *input;
	const char *output;
	const char *in_port; // NULL = the first port
	const char *out_port; // NULL = the first port
	bool has_mac;
	// MAC address of the ingress port; used if has_mac is set. Otherwise the port accepts
	// frames to every unicast address.
	uint8_t mac[6];
	uint32_t worker; // worker that gets all packets
	bool json;
	bool help;
	bool version;
	struct weir_pcap_change change[WEIR_PCAP_CHANGES_MAX];
	uint32_t changes;
};

// Read the command line; strings point into argv.
// Returns 0, or -EINVAL with one line in why.
int weir_pcap_options_parse(
	int argc, char **argv, struct weir_pcap_options *ret, char *why, size_t why_bytes);

// Writes the text of --help. Returns buffer, of WEIR_HELP_BYTES.
const char *weir_pcap_help(char *buffer, size_t bytes);
