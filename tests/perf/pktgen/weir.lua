-- SPDX-License-Identifier: BSD-3-Clause
--
-- Functions shared by the scripts: flows, trials, lines of results. For the Lua of Pktgen 23.06.1.

package.path = package.path .. ";?.lua;/usr/local/share/lua/5.3/?.lua"
require "Pktgen"

local weir = {}

local SETTLE_MS = 1500 -- Pktgen reads the ports' counters once a second
local SETTLES_MAX = 8
local TRIES = 3 -- of a trial in which Pktgen counted nothing at all
-- Range mode fills each send queue's buffers once, in turn: there are no more flows than buffers.
local BUFFERS_PER_QUEUE = 24576
local SOURCE_FIRST = 198 * 2 ^ 24 + 18 * 2 ^ 16 -- 198.18.0.0/15, RFC 2544
local SOURCES_MAX = 2 ^ 17
local PORT_FIRST = 1024
local PORTS_MAX = 60000

local function address(number)
	number = math.floor(number)
	return string.format("%d.%d.%d.%d", number >> 24 & 255, number >> 16 & 255, number >> 8 & 255,
		number & 255)
end

local function gcd(a, b)
	while b ~= 0 do
		a, b = b, a % b
	end
	return a
end

-- Returns numbers of addresses and ports for at least `flows` flows, and as few more as possible. Pktgen
-- changes address and port with each packet. So a addresses and p ports give a*p pairs only if a and p have
-- no common divisor.
function weir.split(flows)
	if flows == 1 then
		return 1, 1
	end
	local ports = math.max(1, math.min(PORTS_MAX, math.floor(math.sqrt(flows))))
	local addresses = math.ceil(flows / ports)
	while gcd(addresses, ports) ~= 1 do
		addresses = addresses + 1
	end
	assert(addresses <= SOURCES_MAX, "too many flows")
	return addresses, ports
end

local function range(set, port, first, last, step, text)
	set(port, "start", text(first))
	set(port, "min", text(first))
	set(port, "max", text(last))
	set(port, "inc", text(last > first and step or 0))
end

-- Sets up frames of `size` bytes in about `flows` flows. Returns the actual number of flows.
function weir.setup(settings, flows, size)
	local port = tostring(settings.send_port)
	local addresses, ports = weir.split(flows)
	local limit = BUFFERS_PER_QUEUE * settings.send_queues
	local function number(value)
		return math.floor(value)
	end

	if addresses * ports > limit then
		error(string.format("%d flows: %d send queues make at most %d (see README.md)",
			addresses * ports, settings.send_queues, limit))
	end
	pktgen.stop(port)
	pktgen.set_range(port, "off")
	pktgen.set_mac(port, "dst", settings.mac)
	pktgen.set_ipaddr(port, "dst", settings.vip)
	pktgen.set_ipaddr(port, "src", address(SOURCE_FIRST) .. "/15")
	pktgen.range.set_type(port, "ipv4")
	pktgen.range.ip_proto(port, settings.protocol)
	pktgen.range.dst_mac(port, "start", settings.mac)
	range(pktgen.range.src_ip, port, SOURCE_FIRST, SOURCE_FIRST + addresses - 1, 1, address)
	range(pktgen.range.src_port, port, PORT_FIRST, PORT_FIRST + ports - 1, 1, number)
	pktgen.range.dst_ip(port, "start", settings.vip)
	pktgen.range.dst_ip(port, "min", settings.vip)
	pktgen.range.dst_ip(port, "max", settings.vip)
	pktgen.range.dst_ip(port, "inc", "0.0.0.0")
	range(pktgen.range.dst_port, port, settings.vip_port, settings.vip_port, 0, number)
	range(pktgen.range.pkt_size, port, size, size, 0, number)
	pktgen.set(port, "size", size) -- the rate is reckoned with this one
	pktgen.set(port, "count", 0)
	pktgen.set_range(port, "on")
	return addresses * ports
end

local function counters(settings)
	local sent = pktgen.portStats(tostring(settings.send_port), "port")[settings.send_port]
	local back = pktgen.portStats(tostring(settings.receive_port), "port")[settings.receive_port]

	return {sent = sent.opackets, back = back.ipackets, missed = back.imissed + back.rx_nombuf}
end

-- Returns the counters when they no longer change.
local function settled(settings)
	local before, now = nil, counters(settings)

	for _ = 1, SETTLES_MAX do
		before = now
		pktgen.delay(SETTLE_MS)
		now = counters(settings)
		if now.sent == before.sent and now.back == before.back then
			break
		end
	end
	return now
end

local function try(settings, rate_percent, seconds)
	local port = tostring(settings.send_port)
	local before, after, trial

	pktgen.set(port, "rate", rate_percent)
	before = settled(settings)
	pktgen.start(port)
	pktgen.delay(math.floor(seconds * 1000))
	pktgen.stop(port)
	pktgen.delay(SETTLE_MS)
	after = settled(settings)
	trial = {rate_percent = rate_percent, seconds = seconds, sent = after.sent - before.sent,
		back = after.back - before.back, missed = after.missed - before.missed}
	trial.lost = trial.sent - trial.back
	trial.loss_percent = trial.sent > 0 and 100 * trial.lost / trial.sent or 100
	trial.sent_mpps = trial.sent / seconds / 1e6
	trial.back_mpps = trial.back / seconds / 1e6
	return trial
end

-- Sends at rate_percent of the link for some seconds. Counts the returned packets.
function weir.trial(settings, rate_percent, seconds)
	local trial

	for _ = 1, TRIES do
		trial = try(settings, rate_percent, seconds)
		if trial.sent > 0 then
			break
		end
	end
	return trial
end

-- Sends several packets of each flow at a low rate, so that all flows are established before the trial.
function weir.warm_up(settings, flows, size)
	local seconds = math.max(5, 4 * flows / 500000)

	pktgen.set(tostring(settings.send_port), "rate", weir.percent_of(settings, 500000, size))
	pktgen.start(tostring(settings.send_port))
	pktgen.delay(math.floor(seconds * 1000))
	pktgen.stop(tostring(settings.send_port))
	pktgen.delay(SETTLE_MS)
end

-- Converts packets per second to a percentage of the link's rate. Each frame has 20 bytes of gap and preamble.
function weir.percent_of(settings, pps, size)
	local state = pktgen.linkState(tostring(settings.send_port))[settings.send_port] or ""
	local mbits = tonumber(string.match(state, "(%d+)")) or 10000

	return math.max(0.01, math.min(100, pps * (size + 20) * 8 / (mbits * 1e6) * 100))
end

-- Print a line, and add it to the file of results.
function weir.say(settings, ...)
	local line = string.format(...)
	local file = io.open(settings.results, "a")

	print(line)
	if file then
		file:write(line, "\n")
		file:close()
	end
end

function weir.title(settings, text)
	pktgen.screen("off")
	pktgen.clr()
	weir.say(settings, "# %s: %s %s:%d, %s", text, settings.protocol, settings.vip,
		settings.vip_port, os.date("!%Y-%m-%dT%H:%M:%SZ"))
end

function weir.show(settings, size, flows, trial)
	weir.say(settings, "%6d %9d %9.3f %10.3f %10.3f %10.4f %12d %12d %9d", size, flows,
		trial.rate_percent, trial.sent_mpps, trial.back_mpps, trial.loss_percent, trial.sent,
		trial.lost, trial.missed)
end

function weir.head(settings)
	weir.say(settings, "%6s %9s %9s %10s %10s %10s %12s %12s %9s", "size", "flows", "rate %",
		"sent Mpps", "back Mpps", "lost %", "sent", "lost", "missed")
end

return weir
