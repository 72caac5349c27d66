# SPDX-License-Identifier: BSD-3-Clause
#
# Refused connections of each trial of scenarios_server_ends.py:
#   gnuplot -e "trials='FILE'" -e "plot_to='docs/plots/server_ends.svg'" tests/e2e/server_ends.gp
set terminal svg size 900,420 font "sans-serif,13" background "white"
set output plot_to
ways = "crash stop terminate restart reload loop freeze"
place(way) = sum [i=1:7] (word(ways, i) eq way ? i : 0)
set title "Connections refused when nginx ends: each trial"
set ylabel "refused connections, of about 800 a second"
set yrange [-0.3:2000]
set nonlinear y via asinh(2 * y) inverse sinh(y) / 2
set ytics (0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000)
set grid ytics lc "#dddddd"
set xrange [0.5:7.5]
set xtics ("kill -9" 1, "systemctl stop" 2, "SIGTERM" 3, "restart" 4, "reload" 5, "crash loop" 6, "SIGSTOP" 7)
set key outside bottom center horizontal
spread(shift) = shift + (rand(0) - 0.5) * 0.24
plot trials using (strcol(1) eq "checks" ? place(strcol(2)) + spread(-0.18) : NaN):4 \
	with points pt 7 ps 0.35 lc "#c0504d" title "HTTP checks each second", \
	trials using (strcol(1) eq "agent" ? place(strcol(2)) + spread(0.18) : NaN):4 \
	with points pt 7 ps 0.35 lc "#1f5fb4" title "weir-agent watches the port, too"
