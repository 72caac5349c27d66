-- SPDX-License-Identifier: BSD-3-Clause
--
-- RFC 2544, section 26.1: finds the highest rate without loss (settings.loss_percent) for each size, by
-- bisection. A trial of one minute confirms the rate. If it fails, the search continues with lower rates.

local folder = string.match(debug.getinfo(1, "S").source, "^@(.*/)") or "./"
local settings = dofile(folder .. "settings.lua")
local weir = dofile(folder .. "weir.lua")

local function passes(trial)
	return trial.sent > 0 and trial.loss_percent <= settings.loss_percent
end

local function search(size, flows, high)
	local low, rate = 0, high

	while high - low > settings.resolution_percent or rate == high do
		local trial = weir.trial(settings, rate, settings.seconds)

		weir.show(settings, size, flows, trial)
		if passes(trial) then
			low = rate
		else
			high = rate
		end
		if low == high then
			break
		end
		rate = (low + high) / 2
	end
	return low
end

local function measure(size)
	local flows = weir.setup(settings, settings.flows, size)
	local high = 100

	weir.warm_up(settings, flows, size)
	while high > settings.resolution_percent do
		local rate = search(size, flows, high)
		local trial

		if rate == 0 then
			break
		end
		trial = weir.trial(settings, rate, settings.confirm_seconds)
		weir.show(settings, size, flows, trial)
		if passes(trial) then
			weir.say(settings, "# size %d: %.3f %% of the link, %.3f Mpps, confirmed for %d s",
				size, rate, trial.sent_mpps, settings.confirm_seconds)
			return
		end
		high = rate - settings.resolution_percent
	end
	weir.say(settings, "# size %d: no rate without loss", size)
end

weir.title(settings, "RFC 2544 throughput")
weir.head(settings)
for _, size in ipairs(settings.sizes) do
	measure(size)
end
