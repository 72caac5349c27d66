// SPDX-License-Identifier: BSD-3-Clause
#include "driver_names.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "nearest.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

// Names of the drivers that weir_driver_guess can suggest, without the prefix "net_".
static const char *const usual[] = {
	"af_xdp", "af_packet", "memif", "null", "pcap", "ring", "tap", "vhost", "virtio_user"};

// Names that weir_driver_is_known accepts, but weir_driver_guess never suggests: aliases, and the
// names of rarely used drivers.
static const char *const others[] = {"eth_af_packet", "eth_bond", "eth_null", "eth_octeontx",
	"eth_pcap", "eth_ring", "eth_tap", "eth_vdev_netvsc", "eth_vhost", "net_bonding",
	"net_enetfec", "net_failsafe", "net_kni", "net_mvneta", "net_mvpp2", "net_octeontx",
	"net_pfe", "net_softnic", "net_tun", "net_vdev_netvsc", "virtio_user"};

static bool begins_with(const char *text, const char *word) {
	return strncmp(text, word, strlen(word)) == 0;
}

static const char *without(const char *text, const char *word) {
	return begins_with(text, word) ? text + strlen(word) : text;
}

// Returns whether a device name is the address of a hardware device on its bus: PCI
// ("0000:01:00.0"), auxiliary, fslmc ("dpni.1") or vmbus (a UUID).
static bool is_address(const char *device) {
	const size_t length = strcspn(device, ",");

	return strcspn(device, ":.") < length ||
	       (length == 36 && strspn(device, "0123456789abcdefABCDEF-") == length);
}

bool weir_driver_is_known(const char *device) {
	const char *name = without(device, "vdev:"), *bare = without(name, "net_");

	if (is_address(name)) {
		return true;
	}
	for (size_t i = 0; i < COUNT(others); i++) {
		if (begins_with(name, others[i])) {
			return true;
		}
	}
	// DPDK accepts every name that begins with the name of a driver, such as "net_tap_a".
	for (size_t i = 0; bare != name && i < COUNT(usual); i++) {
		if (begins_with(bare, usual[i])) {
			return true;
		}
	}
	return false;
}

const char *weir_driver_guess(const char *device, char ret[WEIR_DRIVER_GUESS_BYTES]) {
	const char *name = without(without(without(device, "vdev:"), "net_"), "eth_");
	size_t length = strcspn(name, ","), digits = 0;
	const char *driver = NULL;
	char bare[32];

	while (digits < length && strchr("0123456789", name[length - digits - 1]) != NULL) {
		digits++;
	}
	length -= digits;
	ret[0] = '\0';
	if (length == 0 || length >= sizeof(bare)) {
		return ret;
	}
	snprintf(bare, sizeof(bare), "%.*s", (int)length, name);
	for (size_t i = 0; driver == NULL && i < COUNT(usual);
		i++) { // also finds "af_xdp" for "xdp"
		const size_t bytes = strlen(usual[i]);

		if (length >= 3 && bytes > length && strcmp(usual[i] + bytes - length, bare) == 0) {
			driver = usual[i];
		}
	}
	driver = driver != NULL ? driver : weir_nearest(bare, usual, (uint32_t)COUNT(usual));
	if (driver != NULL) {
		snprintf(ret, WEIR_DRIVER_GUESS_BYTES, "net_%s%.*s", driver,
			digits > 0 && digits <= 4 ? (int)digits : 1,
			digits > 0 && digits <= 4 ? name + length : "0");
	}
	return ret;
}
