-- SPDX-License-Identifier: BSD-3-Clause
--
-- Measures how many packets come back at the link's full rate, for each size. Packets beyond the
-- balancer's capacity are lost. The result is this capacity; rfc2544.lua finds the highest rate without loss.

local folder = string.match(debug.getinfo(1, "S").source, "^@(.*/)") or "./"
local settings = dofile(folder .. "settings.lua")
local weir = dofile(folder .. "weir.lua")

weir.title(settings, "throughput")
weir.head(settings)
for _, size in ipairs(settings.sizes) do
	local flows = weir.setup(settings, settings.flows, size)

	weir.warm_up(settings, flows, size)
	weir.show(settings, size, flows, weir.trial(settings, 100, settings.seconds))
end
