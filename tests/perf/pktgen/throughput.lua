-- SPDX-License-Identifier: BSD-3-Clause
--
-- How many packets come back at the link's full rate, for each size. What is sent beyond the
-- balancer's rate is lost, so this shows its capacity, not its loss-free maximum (rfc2544.lua).

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
