-- SPDX-License-Identifier: BSD-3-Clause
--
-- Packets and addresses used by the other scripts. Change them to yours.

return {
	-- Pktgen's port numbers. They may be equal if one cable is used in both directions.
	send_port = 0,
	receive_port = 1,
	send_queues = 1, -- as in Pktgen's -m; each makes at most 24,576 flows

	-- The balancer: MAC address of its port (weirctl port show), a VIP, and its port.
	mac = "02:00:00:00:00:b0",
	vip = "198.51.100.10",
	vip_port = 80,
	protocol = "tcp", -- tcp or udp

	sizes = {64, 128, 256, 512, 1024, 1280, 1518}, -- bytes of a frame, FCS included
	flows = 10000,
	many_flows = {1, 100, 1000, 10000, 24000}, -- flows.lua
	flows_size = 64,

	seconds = 10, -- of a trial; RFC 2544 asks for 60 in the end
	confirm_seconds = 60,
	loss_percent = 0.0, -- rfc2544.lua: more is a failure; RFC 2544 says 0
	resolution_percent = 0.5, -- of the link's rate: when the search ends
	latency_full_percent = 50, -- latency.lua: the maximum that rfc2544.lua found

	results = "/tmp/weir-pktgen.txt", -- also printed
}
