// SPDX-License-Identifier: BSD-3-Clause
//
// Sizes of the buffers of sockets. A size is a limit: the kernel allocates memory only for packets
// that are in the buffer.
#pragma once

#include <sys/socket.h>

// For a socket that sends to many hosts. A packet uses space in the buffer until the network device
// has sent it. If the link-layer address of a host is unknown, because the host is down, the kernel
// keeps packets to it for up to 3 s (ARP, ND). If such packets fill the buffer, packets to other
// hosts cannot be sent: the kernel's default size has room for about 280 small packets; this size
// has room for 40,000.
#define WEIR_SEND_BUFFER_BYTES (16 << 20)

// Sets the size of the receive or the send buffer; without CAP_NET_ADMIN, at most net.core.rmem_max
// or net.core.wmem_max.
static inline void weir_socket_receive_buffer(int fd, int bytes) {
	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes)) < 0) {
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
	}
}

static inline void weir_socket_send_buffer(int fd, int bytes) {
	if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof(bytes)) < 0) {
		setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
	}
}
