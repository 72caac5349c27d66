// SPDX-License-Identifier: BSD-3-Clause
//
// A file of its own: <linux/tcp.h> and <netinet/tcp.h>, which uv.h includes, do not agree.
#include "received.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

uint64_t weir_received(int fd) {
	struct tcp_info info = {0};
	socklen_t bytes = sizeof(info);

	return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) == 0 ? info.tcpi_bytes_received
									 : 0;
}
