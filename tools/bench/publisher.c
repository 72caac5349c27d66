// SPDX-License-Identifier: BSD-3-Clause
#include "publisher.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "capture.h"
#include "clocks.h"
#include "mailbox.h"

#define SECOND_NS 1000000000ull
#define SNAP_BYTES 128
#define NO_PORT 1 // a port that no service uses

enum order { ORDER_GO = 'g', ORDER_PAUSE = 'p' };

struct child {
	const struct weir_bench_options *options;
	struct weir_segment *segment;
	struct weir_writer *writer;
	int from_parent, to_parent;
	uint64_t round;
	uint64_t *looks;
	uint32_t line; // line of the flow table where the next part begins
	bool pending; // a part of the flow table was requested, but has not arrived yet
	uint64_t order; // number of the capture; 0 = no capture
	volatile uint64_t sum; // sum of counters, so that the compiler does not remove the reads
};

// --- the second process -------------------------------------------------------------------

static void keep_off(int core) {
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_COUNT(&set) > 1 && core >= 0 &&
		core < CPU_SETSIZE) {
		CPU_CLR(core, &set);
		sched_setaffinity(0, sizeof(set), &set);
	}
}

static void publish_row(struct child *child) {
	uint16_t backend = (uint16_t)(child->round % child->options->backends);
	struct weir_backend_row row;

	weir_bench_row(child->options, backend, 1 + child->round / child->options->backends, &row);
	weir_writer_publish_row(child->writer, backend, &row);
}

static int publish_selection(struct child *child) {
	uint16_t service = (uint16_t)(child->round % child->options->services);
	struct weir_root root = {.kind = WEIR_BLOB_SELECTION, .service = service};
	struct weir_selection *selection = NULL;
	int r = weir_bench_selection_build(
		child->options, child->writer, service, child->round + 1, &selection);

	if (r == 0) {
		r = weir_writer_publish(child->writer, root, selection);
	}
	weir_writer_reclaim(child->writer);
	// -ENOSPC, -EBUSY: the memory of replaced selections is not free yet, because the worker
	// reports no quiescent state while it generates packets. This is not an error.
	return r == -ENOSPC || r == -EBUSY ? 0 : r;
}

static void look(struct child *child) {
	__atomic_fetch_add(child->looks, 1, __ATOMIC_RELAXED);
}

static void add_words(struct child *child, const void *counters, size_t bytes) {
	const uint64_t *word = counters;
	uint64_t sum = 0;

	for (size_t i = 0; i < bytes / sizeof(*word); i++) {
		sum += __atomic_load_n(&word[i], __ATOMIC_RELAXED);
	}
	child->sum = sum;
}

// Reads all counters of all workers, as weir-control does for metrics.
static void scrape(struct child *child) {
	const struct weir_segment *segment = child->segment;

	for (uint32_t worker = 0; worker < segment->workers; worker++) {
		add_words(child, &segment->worker_counters[worker],
			sizeof(segment->worker_counters[worker]));
		for (uint32_t i = 0; i < child->options->services; i++) {
			add_words(child, weir_segment_service_counters(segment, worker, i),
				sizeof(struct weir_share_counters));
		}
		for (uint32_t i = 0; i < child->options->backends; i++) {
			add_words(child, weir_segment_backend_counters(segment, worker, i),
				sizeof(struct weir_share_counters));
		}
	}
	look(child);
}

// Reads the requested part of the flow table, if it has arrived, and requests the next part.
static void list(struct child *child) {
	struct weir_control_box *ours = &child->segment->control_boxes[WEIR_BENCH_WORKER];
	const struct weir_worker_box *theirs = &child->segment->worker_boxes[WEIR_BENCH_WORKER];
	struct weir_message message = {0};

	if (child->pending) {
		if (!weir_mailbox_receive(&theirs->response, &ours->response, &message)) {
			return; // no response yet
		}
		add_words(child, child->segment->flow_pages[WEIR_BENCH_WORKER].flow[0],
			message.list.count * sizeof(struct weir_listed_flow));
		child->line = message.list.next < message.list.lines ? message.list.next : 0;
		look(child);
	}
	message = (struct weir_message){.sequence = ++child->round,
		.kind = WEIR_MESSAGE_FLOW_LIST,
		.list = {.first = child->line,
			.last = UINT32_MAX,
			.backend = WEIR_BACKEND_NONE,
			.service = WEIR_SERVICE_NONE,
			.states = UINT8_MAX}};
	child->pending = weir_mailbox_send(&ours->request, &theirs->request, &message);
}

static bool captures(const struct child *child) {
	return child->options->publish == WEIR_BENCH_PUBLISH_CAPTURES ||
	       child->options->publish == WEIR_BENCH_PUBLISH_IDLE_CAPTURES;
}

// Starts a capture in the same way as weir-control, with the highest packet rate that weirctl can
// request.
static void begin_capture(struct child *child) {
	struct weir_capture_terms terms = {.interval_ns = SECOND_NS / WEIR_CAPTURE_RATE_MOST,
		.snap_bytes = SNAP_BYTES,
		.service = WEIR_SERVICE_NONE,
		.backend = WEIR_BACKEND_NONE};

	if (child->options->publish == WEIR_BENCH_PUBLISH_IDLE_CAPTURES) {
		terms.destination_port = NO_PORT;
	}
	child->order = weir_capture_order(child->segment, &terms, UINT64_MAX);
}

// Reads the captured packets. Increments *looks if there were packets, or if the capture is
// configured to match no packet.
static void read_captured(struct child *child) {
	bool found = child->options->publish == WEIR_BENCH_PUBLISH_IDLE_CAPTURES;
	struct weir_capture_packet packet;

	while (weir_capture_take(child->segment, WEIR_BENCH_WORKER, child->order, &packet)) {
		child->sum += packet.record.length;
		found = true;
	}
	if (found) {
		look(child);
	}
}

static int publish_one(struct child *child) {
	int r = 0;

	if (child->options->publish == WEIR_BENCH_PUBLISH_SCRAPES) {
		scrape(child);
		return 0;
	}
	if (child->options->publish == WEIR_BENCH_PUBLISH_LISTS) {
		list(child);
		return 0;
	}
	if (captures(child)) {
		read_captured(child);
		return 0;
	}
	if (child->options->publish != WEIR_BENCH_PUBLISH_SELECTIONS) {
		publish_row(child);
	}
	if (child->options->publish != WEIR_BENCH_PUBLISH_ROWS) {
		r = publish_selection(child);
	}
	child->round++;
	return r;
}

static int answer(const struct child *child, char order) {
	return write(child->to_parent, &order, 1) == 1 ? 0 : -EIO;
}

// Waits for a command from the parent process, at most until `until_ns`; UINT64_MAX = without a
// limit. Returns 1 (a command was received), 0 (no command), -EPIPE (the parent has closed the pipe
// or exited), or another negative errno.
static int next_order(const struct child *child, uint64_t until_ns, char *ret) {
	struct pollfd fd = {.fd = child->from_parent, .events = POLLIN};
	uint64_t now = weir_monotonic_ns();
	struct timespec wait = {0};
	int ready;

	if (until_ns > now) {
		wait.tv_sec = (time_t)((until_ns - now) / SECOND_NS);
		wait.tv_nsec = (long)((until_ns - now) % SECOND_NS);
	}
	ready = ppoll(&fd, 1, until_ns == UINT64_MAX ? NULL : &wait, NULL);
	if (ready <= 0) {
		return ready < 0 && errno != EINTR ? -errno : 0;
	}
	return read(child->from_parent, ret, 1) == 1 ? 1 : -EPIPE;
}

static int start_work(struct child *child) {
	if (captures(child)) {
		begin_capture(child);
	}
	return weir_writer_open(child->segment, &child->writer);
}

static int stop_work(struct child *child) {
	if (captures(child)) {
		weir_capture_withdraw(child->segment);
	}
	weir_writer_free(child->writer);
	child->writer = NULL;
	return 0;
}

static int serve(struct child *child) {
	uint64_t interval = SECOND_NS / child->options->publications;
	uint64_t due = UINT64_MAX; // paused
	char order = 0;
	int got;

	while ((got = next_order(child, due, &order)) >= 0) {
		int r = 0;

		if (got == 1) {
			r = order == ORDER_GO ? start_work(child) : stop_work(child);
			due = order == ORDER_GO ? weir_monotonic_ns() : UINT64_MAX;
			if (r == 0) {
				r = answer(child, order);
			}
		} else if (due != UINT64_MAX && weir_monotonic_ns() >= due) {
			r = publish_one(child);
			due += interval;
			// If the process is late by more than a second, skip the missed
			// publications. Otherwise the process would make all of them without a
			// pause.
			if (due + SECOND_NS < weir_monotonic_ns()) {
				due = weir_monotonic_ns();
			}
		}
		if (r < 0) {
			return r;
		}
	}
	return got == -EPIPE ? 0 : got;
}

static int run(struct child *child, const struct weir_segment *parents) {
	int r = weir_segment_attach_own(parents, &child->segment);

	if (r < 0) {
		return r;
	}
	r = serve(child);
	weir_writer_free(child->writer);
	weir_segment_free(child->segment);
	return r;
}

// --- the parent process -------------------------------------------------------------------

int weir_bench_publisher_start(struct weir_bench_publisher *publisher,
	const struct weir_bench_options *options, const struct weir_segment *segment, int core) {
	int down[2], up[2], r;
	uint64_t *looks;
	pid_t pid;

	looks = mmap(
		NULL, sizeof(*looks), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (looks == MAP_FAILED) {
		return -errno;
	}
	if (pipe(down) < 0) {
		r = -errno;
		goto unmap;
	}
	if (pipe(up) < 0) {
		r = -errno;
		goto close_down;
	}
	pid = fork();
	if (pid < 0) {
		r = -errno;
		goto close_up;
	}
	if (pid == 0) {
		struct child child = {.options = options,
			.from_parent = down[0],
			.to_parent = up[1],
			.looks = looks};

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		prctl(PR_SET_TIMERSLACK, 1000);
		signal(SIGPIPE, SIG_IGN);
		close(down[1]);
		close(up[0]);
		keep_off(core);
		_exit(run(&child, segment) == 0 ? 0 : 1);
	}
	close(down[0]);
	close(up[1]);
	*publisher = (struct weir_bench_publisher){.pid = pid,
		.to_child = down[1],
		.from_child = up[0],
		.segment = segment,
		.looks = looks};
	return 0;

close_up:
	close(up[0]);
	close(up[1]);
close_down:
	close(down[0]);
	close(down[1]);
unmap:
	munmap(looks, sizeof(*looks));
	return r;
}

static int send_order(struct weir_bench_publisher *publisher, char order) {
	struct sigaction ignore = {.sa_handler = SIG_IGN}, before;
	char answer = 0;
	bool sent;

	sigaction(SIGPIPE, &ignore, &before);
	sent = write(publisher->to_child, &order, 1) == 1;
	sigaction(SIGPIPE, &before, NULL);
	if (!sent || read(publisher->from_child, &answer, 1) != 1 || answer != order) {
		return -EIO;
	}
	return 0;
}

int weir_bench_publisher_go(struct weir_bench_publisher *publisher) {
	return send_order(publisher, ORDER_GO);
}

int weir_bench_publisher_pause(struct weir_bench_publisher *publisher) {
	return send_order(publisher, ORDER_PAUSE);
}

uint64_t weir_bench_publisher_count(const struct weir_bench_publisher *publisher) {
	return __atomic_load_n(&publisher->segment->notes->publications, __ATOMIC_RELAXED) +
	       __atomic_load_n(publisher->looks, __ATOMIC_RELAXED);
}

void weir_bench_publisher_stop(struct weir_bench_publisher *publisher) {
	if (publisher->pid == 0) {
		return;
	}
	close(publisher->to_child);
	close(publisher->from_child);
	waitpid(publisher->pid, NULL, 0);
	munmap(publisher->looks, sizeof(*publisher->looks));
	publisher->pid = 0;
}
