-- SPDX-License-Identifier: BSD-3-Clause
--
-- Latency at three rates: 10, 50 and 90 % of settings.latency_full_percent of the link.
--
-- Pktgen finds its timestamps only in packets that come back unchanged. The balancer encapsulates
-- packets, so a host behind the balancer must remove the outer header and send the packet to Pktgen's
-- receive port: see README.md. The measured latency includes that host.
-- Pktgen stamps extra UDP packets to port 1028: the VIP needs a service there.

local folder = string.match(debug.getinfo(1, "S").source, "^@(.*/)") or "./"
local settings = dofile(folder .. "settings.lua")
local weir = dofile(folder .. "weir.lua")

local STAMP_EVERY_US = 100
local SAMPLES = 10000 -- at most; of a second of the trial as many as its length admits
local send, receive = tostring(settings.send_port), tostring(settings.receive_port)

local function read_samples(path)
	local samples = {}

	for line in io.lines(path) do
		local ns = tonumber(line)
		if ns then
			samples[#samples + 1] = ns
		end
	end
	table.sort(samples)
	return samples
end

local function quantile(samples, share)
	return samples[math.max(1, math.ceil(share * #samples))] / 1000
end

local function measure(size, flows, load)
	local path = settings.results .. ".samples"
	local trial, samples

	pktgen.latency(send, "enable")
	pktgen.latency(send, "rate", STAMP_EVERY_US)
	pktgen.latency(receive, "enable")
	pktgen.latsampler_params(receive, "simple", SAMPLES,
		math.floor(SAMPLES / (settings.seconds + 1)), path)
	pktgen.latsampler(receive, "on")
	trial = weir.trial(settings, settings.latency_full_percent * load / 100, settings.seconds)
	pktgen.latsampler(receive, "off")
	pktgen.latency(send, "disable")
	pktgen.latency(receive, "disable")
	weir.show(settings, size, flows, trial)
	samples = read_samples(path)
	os.remove(path)
	if #samples == 0 then
		weir.say(settings, "# %d %%: no stamped packet came back (is it encapsulated?)", load)
		return
	end
	weir.say(settings, "# %d %%: p50 %.1f us, p90 %.1f us, p99 %.1f us, p99.9 %.1f us (%d samples)",
		load, quantile(samples, 0.5), quantile(samples, 0.9), quantile(samples, 0.99),
		quantile(samples, 0.999), #samples)
end

weir.title(settings, "latency")
weir.head(settings)
for _, size in ipairs(settings.sizes) do
	local flows = weir.setup(settings, settings.flows, size)

	weir.warm_up(settings, flows, size)
	for _, load in ipairs({10, 50, 90}) do
		measure(size, flows, load)
	end
end
