-- SPDX-License-Identifier: BSD-3-Clause
--
-- Measures the rate of returned packets at the link's full rate, with more and more flows. Flows beyond
-- flow_table.flows_per_worker are not tracked (weirctl worker show: flow_untracked).

local folder = string.match(debug.getinfo(1, "S").source, "^@(.*/)") or "./"
local settings = dofile(folder .. "settings.lua")
local weir = dofile(folder .. "weir.lua")

weir.title(settings, "flows")
weir.head(settings)
for _, wanted in ipairs(settings.many_flows) do
	local flows = weir.setup(settings, wanted, settings.flows_size)

	weir.warm_up(settings, flows, settings.flows_size)
	weir.show(settings, settings.flows_size, flows, weir.trial(settings, 100, settings.seconds))
end
