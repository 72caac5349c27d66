// SPDX-License-Identifier: BSD-3-Clause
#include "handover.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "fingerprint.h"
#include "foreign_descriptors.h"
#include "refuse.h"

// Length of the listen queue. If the socket's mode does not exclude other processes (H2 in
// handover.h), they can connect at any rate. A refusal takes a few microseconds: this process
// accepts connections faster than one peer can fill the queue, so that control can still
// connect.
#define BACKLOG 1024
// Maximum number of connections per call, so that the caller is not blocked for long
#define ACCEPTS_MAX 64
#define ANSWER_MS 2000
#define RETRY_NS 10000000
#define FDS_FIRST 2u // descriptors of statistics and tables; VIP maps follow
#define FDS_MAX (FDS_FIRST + WEIR_PORTS_MAX)

// The only message of the protocol, sent by the dataplane. The message carries the descriptors of
// statistics and tables, then the descriptors of the VIP maps in `steered`, in order.
struct answer {
	uint64_t magic; // WEIR_SEGMENT_MAGIC
	uint64_t fingerprint; // weir_layout_fingerprint()
	uint32_t abi; // WEIR_SEGMENT_ABI
	uint32_t error; // 0; in a message without descriptors: EBUSY or EPERM
	uint32_t pid; // for EBUSY: pid of the attached control process
	uint32_t vip_maps;
	uint32_t steered; // bit i: vip_map_fd[i] is included
	uint32_t reserved;
};
_Static_assert(sizeof(struct answer) == 40, "handover ABI");
_Static_assert(WEIR_PORTS_MAX <= 32, "one bit per port must fit in 32 bits");

union control_message {
	char bytes[CMSG_SPACE(FDS_MAX * sizeof(int))];
	struct cmsghdr align;
};

struct weir_handover_server {
	int listen_fd;
	int connection_fd; // -1 = no control process is attached
	pid_t pid; // pid of the control process
	uid_t control_user;
	struct weir_handover_refusals refusals;
	struct sockaddr_un address;
	int lock_fd;
	char lock_path[sizeof(((struct sockaddr_un *)NULL)->sun_path)];
};

static int make_address(const char *run_dir, struct sockaddr_un *ret) {
	int n;

	memset(ret, 0, sizeof(*ret));
	ret->sun_family = AF_UNIX;
	n = snprintf(ret->sun_path, sizeof(ret->sun_path), "%s/%s", run_dir, WEIR_HANDOVER_SOCKET);
	return n < 0 || (size_t)n >= sizeof(ret->sun_path) ? -ENAMETOOLONG : 0;
}

static int open_socket(void) {
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	return fd < 0 ? -errno : fd;
}

// --- dataplane's side ---------------------------------------------------------------------

// Removes the socket of a dataplane that has exited, and a file of an untrusted user with the
// socket's name. Returns 0, -EADDRINUSE (a process is listening, or connect fails with an error
// other than ECONNREFUSED), -EEXIST (the file is not a socket), or another negative errno.
static int remove_stale(const struct sockaddr_un *address, uid_t control_user) {
	struct stat st;
	bool ours;
	int r = 0;
	int fd;

	if (lstat(address->sun_path, &st) < 0) {
		return errno == ENOENT ? 0 : -errno;
	}
	ours = st.st_uid == geteuid() || st.st_uid == 0 || st.st_uid == control_user;
	// Another user created this socket while run_dir was still writable for other users, so
	// its listener is not a dataplane.
	if (!ours) {
		return unlink(address->sun_path) < 0 && errno != ENOENT ? -errno : 0;
	}
	if (!S_ISSOCK(st.st_mode)) {
		return -EEXIST;
	}
	fd = open_socket();
	if (fd < 0) {
		return fd;
	}
	if (connect(fd, (const struct sockaddr *)address, sizeof(*address)) == 0 ||
		errno != ECONNREFUSED) {
		r = -EADDRINUSE;
	} else if (unlink(address->sun_path) < 0 && errno != ENOENT) {
		r = -errno;
	}
	close(fd);
	return r;
}

// Sets the owner, group and mode of the socket. If this process runs as root, control's user
// becomes the owner of the socket, and the group stays root's group. A weir-control that runs as
// root connects as a member of this group, because it has no capability that bypasses the socket's
// mode.
static int give_socket(const char *path, const struct weir_handover_params *params) {
	bool is_root = geteuid() == 0;
	bool is_own = params->control_user == (uid_t)-1 || params->control_user == geteuid();

	if (chmod(path, is_root || !is_own ? 0660 : 0600) < 0) {
		return -errno;
	}
	if (is_root) {
		return chown(path, params->control_user, 0) < 0 ? -errno : 0;
	}
	return !is_own && chown(path, (uid_t)-1, params->group) < 0 ? -errno : 0;
}

// Creates the socket with a temporary name, and renames it to its final name when it has its owner
// and mode and is listening. Control may connect as soon as the final name exists, and the
// connection must not be refused.
static int bind_and_listen(
	int fd, const struct sockaddr_un *address, const struct weir_handover_params *params) {
	struct sockaddr_un early = {.sun_family = AF_UNIX};
	int n = snprintf(early.sun_path, sizeof(early.sun_path), "%s.new", address->sun_path);
	int r;

	if (n < 0 || (size_t)n >= sizeof(early.sun_path)) {
		return -ENAMETOOLONG;
	}
	// This process holds the lock, so an existing socket was left by a dataplane that has
	// exited.
	if (unlink(early.sun_path) < 0 && errno != ENOENT) {
		return -errno;
	}
	if (bind(fd, (const struct sockaddr *)&early, sizeof(early)) < 0) {
		return -errno;
	}
	r = give_socket(early.sun_path, params);
	if (r == 0 && (listen(fd, BACKLOG) < 0 || rename(early.sun_path, address->sun_path) < 0)) {
		r = -errno;
	}
	if (r < 0) {
		unlink(early.sun_path);
	}
	return r;
}

// Takes the lock of the run directory, so that two dataplanes that start at the same time do not
// remove each other's socket. The lock is on a private file, because any process that can open a
// file can lock it, and the group can open run_dir. The previous owner of the lock can remove the
// file between open and flock. Therefore this function checks after flock that the path still
// refers to the same file.
static int take_lock(const char *path) {
	for (;;) {
		struct stat mine, named;
		int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
		int r;

		if (fd < 0) {
			return -errno;
		}
		if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
			r = errno == EWOULDBLOCK ? -EADDRINUSE : -errno;
			close(fd);
			return r;
		}
		if (fstat(fd, &mine) == 0 && stat(path, &named) == 0 &&
			mine.st_ino == named.st_ino && mine.st_dev == named.st_dev) {
			return fd;
		}
		close(fd);
	}
}

int weir_handover_listen(
	const struct weir_handover_params *params, struct weir_handover_server **ret) {
	struct weir_handover_server *server;
	int r;

	server = calloc(1, sizeof(*server));
	if (server == NULL) {
		return -ENOMEM;
	}
	server->connection_fd = -1;
	server->control_user = params->control_user;
	r = make_address(params->run_dir, &server->address);
	if (r < 0) {
		goto free_server;
	}
	// The path fits, because it is shorter than the path of the socket, whose length was
	// checked.
	snprintf(server->lock_path, sizeof(server->lock_path), "%s/" WEIR_HANDOVER_LOCK,
		params->run_dir);
	server->listen_fd = open_socket();
	if (server->listen_fd < 0) {
		r = server->listen_fd;
		goto free_server;
	}
	server->lock_fd = take_lock(server->lock_path);
	if (server->lock_fd < 0) {
		r = server->lock_fd;
		goto close_socket;
	}
	r = remove_stale(&server->address, params->control_user);
	if (r == 0) {
		r = bind_and_listen(server->listen_fd, &server->address, params);
	}
	if (r < 0) {
		goto release_lock;
	}
	*ret = server;
	return 0;

release_lock:
	unlink(server->lock_path);
	close(server->lock_fd);
close_socket:
	close(server->listen_fd);
free_server:
	free(server);
	return r;
}

static void disconnect(struct weir_handover_server *server) {
	if (server->connection_fd >= 0) {
		weir_foreign_close(server->connection_fd);
	}
	server->connection_fd = -1;
	server->pid = 0;
}

void weir_handover_server_free(struct weir_handover_server *server) {
	if (server == NULL) {
		return;
	}
	unlink(server->address.sun_path);
	disconnect(server);
	weir_foreign_close(server->listen_fd);
	unlink(server->lock_path);
	close(server->lock_fd);
	free(server);
}

int weir_handover_server_fds(const struct weir_handover_server *server, int fds[2]) {
	fds[0] = server->listen_fd;
	fds[1] = server->connection_fd;
	return server->connection_fd >= 0 ? 2 : 1;
}

// Closes the connection if the attached process has exited. The process sends no data; after it has
// exited, a read returns end of file.
static void notice_leaving(struct weir_handover_server *server) {
	char ignored[64];

	for (int i = 0; i < ACCEPTS_MAX && server->connection_fd >= 0; i++) {
		ssize_t n = weir_foreign_read(server->connection_fd, ignored, sizeof(ignored));

		if (n < 0 && errno == EINTR) {
			continue;
		}
		if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
			return;
		}
		if (n <= 0) {
			disconnect(server);
		}
	}
}

static bool send_answer(int fd, const struct answer *answer, const int *fds, unsigned int n) {
	union control_message control;
	struct iovec iov = {.iov_base = (void *)answer, .iov_len = sizeof(*answer)};
	struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
	struct cmsghdr *header;

	if (n > 0) {
		memset(&control, 0, sizeof(control));
		message.msg_control = control.bytes;
		message.msg_controllen = CMSG_SPACE(n * sizeof(int));
		header = CMSG_FIRSTHDR(&message);
		header->cmsg_level = SOL_SOCKET;
		header->cmsg_type = SCM_RIGHTS;
		header->cmsg_len = CMSG_LEN(n * sizeof(int));
		memcpy(CMSG_DATA(header), fds, n * sizeof(int));
	}
	return sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)sizeof(*answer);
}

static bool send_offer(int fd, const struct weir_handover *offer) {
	struct answer answer = {
		.magic = WEIR_SEGMENT_MAGIC,
		.fingerprint = weir_layout_fingerprint(),
		.abi = WEIR_SEGMENT_ABI,
		.vip_maps = offer->vip_maps,
	};
	int fds[FDS_MAX] = {offer->statistics_fd, offer->tables_fd};
	unsigned int n = FDS_FIRST;

	for (uint32_t i = 0; i < offer->vip_maps && i < WEIR_PORTS_MAX; i++) {
		if (offer->vip_map_fd[i] >= 0) {
			answer.steered |= 1u << i;
			fds[n++] = offer->vip_map_fd[i];
		}
	}
	return send_answer(fd, &answer, fds, n);
}

static void refuse(int fd, int error, pid_t holder) {
	const struct answer answer = {
		.magic = WEIR_SEGMENT_MAGIC,
		.fingerprint = weir_layout_fingerprint(),
		.abi = WEIR_SEGMENT_ABI,
		.error = (uint32_t)error,
		.pid = (uint32_t)holder,
	};

	send_answer(fd, &answer, NULL, 0);
}

// Returns whether the process at the other end of a connection is allowed to attach (H1 of
// handover.h). If it is not allowed, counts a refusal. Uses the credentials that the process had
// when it connected, as reported by the kernel.
static bool may_attach(struct weir_handover_server *server, int fd, struct ucred *ret_peer) {
	struct weir_handover_refusals *refusals = &server->refusals;
	struct ucred peer = {.uid = (uid_t)-1};
	socklen_t bytes = sizeof(peer);
	bool known = getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 &&
		     peer.uid != (uid_t)-1;

	if (known && (peer.uid == 0 || peer.uid == geteuid() || peer.uid == server->control_user)) {
		*ret_peer = peer;
		return true;
	}
	refusals->count++;
	refusals->total++;
	refusals->last_pid = peer.pid;
	refusals->last_uid = peer.uid;
	return false;
}

void weir_handover_take_refusals(
	struct weir_handover_server *server, struct weir_handover_refusals *ret) {
	*ret = server->refusals;
	server->refusals.count = 0;
}

static void serve_connection(
	struct weir_handover_server *server, int fd, const struct weir_handover *offer) {
	struct ucred peer;

	if (!may_attach(server, fd, &peer)) {
		refuse(fd, EPERM, 0);
		weir_foreign_close(fd);
	} else if (server->connection_fd >= 0) {
		refuse(fd, EBUSY, server->pid);
		weir_foreign_close(fd);
	} else if (send_offer(fd, offer)) {
		server->connection_fd = fd;
		// A process of another pid namespace has pid 0. The caller would take 0 for
		// "none", so store 1 instead.
		server->pid = peer.pid > 0 ? peer.pid : 1;
	} else {
		weir_foreign_close(fd);
	}
}

int weir_handover_serve(struct weir_handover_server *server, const struct weir_handover *offer) {
	notice_leaving(server);
	for (int i = 0; i < ACCEPTS_MAX; i++) {
		int fd = accept4(server->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
			break;
		}
		if (fd < 0 && (errno == EINTR || errno == ECONNABORTED)) {
			continue;
		}
		if (fd < 0) {
			return -errno;
		}
		serve_connection(server, fd, offer);
	}
	return server->pid;
}

// --- control's side -----------------------------------------------------------------------

static int64_t now_ms(void) {
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int connect_until(int fd, const struct sockaddr_un *address, int64_t deadline) {
	const struct timespec pause = {.tv_nsec = RETRY_NS};

	while (connect(fd, (const struct sockaddr *)address, sizeof(*address)) < 0) {
		if (errno == EAGAIN) { // the listen queue is full
			if (now_ms() >= deadline) {
				return -ETIMEDOUT;
			}
			nanosleep(&pause, NULL);
		} else if (errno != EINTR) {
			return errno == ENOTDIR ? -ENOENT : -errno;
		}
	}
	return 0;
}

static int wait_readable(int fd, int64_t deadline) {
	struct pollfd poll_fd = {.fd = fd, .events = POLLIN};

	for (;;) {
		int64_t left = deadline - now_ms();
		int n = poll(&poll_fd, 1, left > 0 ? (int)left : 0);

		if (n > 0) {
			return 0;
		}
		if (n == 0) {
			return -ETIMEDOUT;
		}
		if (errno != EINTR) {
			return -errno;
		}
	}
}

static void close_all(const int *fds, unsigned int n) {
	for (unsigned int i = 0; i < n; i++) {
		close(fds[i]);
	}
}

// Copies the descriptors of a received message to fds, even if the message is invalid, so that the
// caller can close them. Closes descriptors for which fds has no room. Returns the number of
// descriptors in fds.
static unsigned int take_fds(struct msghdr *message, int fds[FDS_MAX]) {
	unsigned int n = 0;

	for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header != NULL;
		header = CMSG_NXTHDR(message, header)) {
		size_t count;

		if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) {
			continue;
		}
		count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < count; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof(fd));
			if (n < FDS_MAX) {
				fds[n++] = fd;
			} else {
				close(fd);
			}
		}
	}
	return n;
}

static int receive_answer(int fd, struct answer *ret, int fds[FDS_MAX], unsigned int *ret_n) {
	union control_message control;
	struct iovec iov = {.iov_base = ret, .iov_len = sizeof(*ret)};
	struct msghdr message = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes),
	};
	ssize_t bytes = recvmsg(fd, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);

	if (bytes < 0) {
		return -errno;
	}
	*ret_n = take_fds(&message, fds);
	if (bytes != (ssize_t)sizeof(*ret) || (message.msg_flags & (MSG_CTRUNC | MSG_TRUNC)) != 0) {
		close_all(fds, *ret_n);
		// The message has room for all descriptors. MSG_CTRUNC therefore means that this
		// process has reached its limit of open files.
		return (message.msg_flags & MSG_CTRUNC) != 0 && *ret_n < FDS_MAX ? -EMFILE
										 : -EPROTO;
	}
	return 0;
}

// Checks the answer of the dataplane, and assigns the received descriptors to *ret. Returns 0. On
// error, closes all descriptors, writes one line to why, and returns negative errno.
static int accept_answer(const struct answer *answer, const int *fds, unsigned int n,
	struct weir_handover *ret, char *why, size_t why_bytes) {
	unsigned int used = FDS_FIRST;
	int r = 0;

	if (answer->magic != WEIR_SEGMENT_MAGIC) {
		r = weir_refuse(-EPROTO, why, why_bytes,
			"invalid reply: the process at the socket is not weir-dataplane");
	} else if (!weir_layout_served(answer->abi, answer->fingerprint)) {
		r = weir_refuse(-EPROTO, why, why_bytes,
			"weir-dataplane has ABI %u, layout %016llx; this program needs ABI %u, "
			"layout %016llx; run the same version of both",
			answer->abi, (unsigned long long)answer->fingerprint, WEIR_SEGMENT_ABI,
			(unsigned long long)weir_layout_fingerprint());
	} else if (answer->error == EBUSY) {
		r = weir_refuse(-EBUSY, why, why_bytes,
			"another weir-control (pid %u) is attached; stop it first", answer->pid);
	} else if (answer->error == EPERM) {
		r = weir_refuse(-EPERM, why, why_bytes,
			"user %u is not allowed to attach to weir-dataplane: start weir-dataplane "
			"with --control-user %u, or start weir-control as the --control-user of "
			"weir-dataplane",
			(unsigned int)geteuid(), (unsigned int)geteuid());
	} else if (answer->error != 0 || answer->vip_maps > WEIR_PORTS_MAX ||
		   (answer->steered & ~((1ull << answer->vip_maps) - 1)) != 0 ||
		   n != FDS_FIRST + (unsigned int)__builtin_popcount(answer->steered)) {
		r = weir_refuse(-EPROTO, why, why_bytes, "invalid reply from weir-dataplane");
	}
	if (r < 0) {
		close_all(fds, n);
		return r;
	}
	ret->statistics_fd = fds[0];
	ret->tables_fd = fds[1];
	ret->vip_maps = answer->vip_maps;
	for (unsigned int i = 0; i < WEIR_PORTS_MAX; i++) {
		ret->vip_map_fd[i] = (answer->steered >> i & 1) != 0 ? fds[used++] : -1;
	}
	return 0;
}

static int explain(int error, const char *path, char *why, size_t why_bytes) {
	switch (error) {
	case -ENOENT:
	case -ECONNREFUSED:
		return weir_refuse(
			error, why, why_bytes, "no weir-dataplane at %s; is it running?", path);
	case -EACCES:
		return weir_refuse(error, why, why_bytes,
			"user %u is not allowed to connect to %s: start weir-dataplane with "
			"--control-user %u, or start weir-control as the --control-user of "
			"weir-dataplane",
			(unsigned int)geteuid(), path, (unsigned int)geteuid());
	case -ETIMEDOUT:
		return weir_refuse(
			error, why, why_bytes, "weir-dataplane at %s does not reply", path);
	case -EPROTO:
		return weir_refuse(error, why, why_bytes,
			"weir-dataplane at %s closed the connection without a reply", path);
	default:
		return weir_refuse(error, why, why_bytes,
			"cannot connect to weir-dataplane at %s: %s", path, strerror(-error));
	}
}

int weir_handover_connect(const char *run_dir, struct weir_handover *ret, int *ret_connection,
	char *why, size_t why_bytes) {
	int64_t deadline = now_ms() + ANSWER_MS;
	struct sockaddr_un address;
	struct answer answer = {0};
	int fds[FDS_MAX] = {0};
	unsigned int n = 0;
	int r;
	int fd;

	r = make_address(run_dir, &address);
	if (r < 0) {
		return weir_refuse(r, why, why_bytes,
			"the path of the run directory is too long: %s", run_dir);
	}
	fd = open_socket();
	if (fd < 0) {
		return weir_refuse(fd, why, why_bytes, "cannot create a socket: %s", strerror(-fd));
	}
	r = connect_until(fd, &address, deadline);
	if (r == 0) {
		r = wait_readable(fd, deadline);
	}
	if (r == 0) {
		r = receive_answer(fd, &answer, fds, &n);
	}
	if (r < 0) {
		explain(r, address.sun_path, why, why_bytes);
		goto close_fd;
	}
	r = accept_answer(&answer, fds, n, ret, why, why_bytes);
	if (r < 0) {
		goto close_fd;
	}
	*ret_connection = fd;
	return 0;

close_fd:
	close(fd);
	return r;
}
