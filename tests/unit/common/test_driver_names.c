// SPDX-License-Identifier: BSD-3-Clause
#include "driver_names.h"

#include "test.h"

TEST(names_of_drivers_and_addresses_are_known) {
	static const char *const devices[] = {"net_af_xdp0,iface=lb0", "vdev:net_tap1",
		"net_af_packet", "net_memif12,role=server", "net_null0", "net_null01", "net_pcap0",
		"net_ring_a", "net_vhost0", "virtio_user0,path=/dev/vhost-net", "net_virtio_user0",
		"eth_bond0,mode=1", "net_bonding0", "eth_null0", "net_failsafe0", "net_softnic0",
		"net_tun0", "net_vdev_netvsc0", "0000:01:00.0", "01:00.0", "pci:0000:01:00.0",
		"0000:01:00.0,class=rxq_cqe_comp_en=1", "auxiliary:mlx5_core.sf.3", "dpni.1",
		"fslmc:dpni.1", "12345678-9abc-def0-1234-56789abcdef0"};

	for (size_t i = 0; i < sizeof(devices) / sizeof(devices[0]); i++) {
		if (!weir_driver_is_known(devices[i])) {
			fail_msg("%s", devices[i]);
		}
	}
}

TEST(unknown_names_get_a_guess_if_they_are_similar) {
	static const struct {
		const char *device, *guess;
	} cases[] = {{"net_afxdp0,iface=eth0", "net_af_xdp0"},
		{"net_af_xpd2,iface=eth0", "net_af_xdp2"}, {"af_xdp0,iface=eth0", "net_af_xdp0"},
		{"net_xdp", "net_af_xdp0"}, {"net_packet1", "net_af_packet1"},
		{"net_afpacket10,iface=a.b:c", "net_af_packet10"}, {"eth_memif0", "net_memif0"},
		{"vdev:net_tab0", "net_tap0"}, {"net_virtio0", "net_virtio_user0"},
		{"net_ixgbe0", ""}, {"net_mlx5", ""}, {"net_nonsense0", ""}, {"net_", ""},
		{"net_0", ""}, {"nonsense,iface=eth0", ""}, {"net_tpa12345", "net_tap0"}};
	char guess[WEIR_DRIVER_GUESS_BYTES];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_false(weir_driver_is_known(cases[i].device));
		assert_string_equal(weir_driver_guess(cases[i].device, guess), cases[i].guess);
	}
}
