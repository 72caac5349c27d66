// SPDX-License-Identifier: BSD-3-Clause
#include "flow_lists.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "flow_state.h"

// Number of flow table lines in each request of the first round of a list, with a shared table. If
// the table is full, the response fills its page of the segment (WEIR_FLOW_PAGE_FLOWS).
#define RANGE_LINES 16u
#define RANGE_LINES_MAX WEIR_LIST_LINES
#define ROUND_FEW 256u // if a round finds fewer flows than this, the next round requests more lines
#define ROUND_MANY 4096u
// Number of lines in a round of a deletion or count. Between two rounds, a worker gets no requests
// for up to two iterations of the loop. With several requests per range, a round is long enough
// that there are few such gaps, but short enough that other lists do not wait long.
#define DELETION_LINES (4u * WEIR_TABLE_WALK_RANGES * RANGE_LINES_MAX)
#define PASSES_MAX 4u // maximum number of passes of a deletion over the tables
#define LEFT_OUT_MS 10000u // time for which lists skip a worker that has not responded

struct job { // a list, deletion or count that is queued or running
	struct job *next;
	struct weir_message request; // WEIR_MESSAGE_FLOW_LIST or WEIR_MESSAGE_SOURCE_WALK
	bool all; // for all workers; false = for one worker, or a walk over the affinity table
	uint64_t workers; // bitmap of the job's workers; workers that did not respond are removed
	uint32_t line; // first line of the next round
	uint32_t lines; // number of lines of the longest table, according to the responses
	uint32_t range_lines;
	uint32_t room; // number of allocated elements of result.flows
	uint32_t round; // number of flows found in the current round
	uint32_t passes; // number of passes of a deletion over the tables so far
	uint64_t ended_before; // flows deleted in previous passes
	bool failed; // out of memory
	struct weir_flow_list_result result;
	weir_flow_list_done done;
	void *context;
};

struct weir_flow_lists {
	uv_loop_t *loop;
	struct weir_mailboxes *mailboxes;
	struct job *first; // the running job
	uint32_t count;
	uint64_t slice_ms; // start of the slice of the running job; 0 = not started
	// Time at which lists began to skip each worker; 0 = lists do not skip it.
	uint64_t left_out_ms[WEIR_WORKERS_MAX];
	// Table walk of the current round of job `first`. Its set of workers is empty between
	// rounds.
	struct weir_table_walk walk;
};

static bool is_of_sources(const struct job *job) {
	return job->request.kind == WEIR_MESSAGE_SOURCE_WALK;
}

static bool lists_flows(const struct job *job) {
	return job->request.kind == WEIR_MESSAGE_FLOW_LIST && job->request.list.end == 0;
}

static void end_job(struct weir_flow_lists *lists, int error) {
	struct job *job = lists->first;

	lists->first = job->next;
	lists->count--;
	lists->slice_ms = 0;
	lists->walk.workers = 0;
	job->done(job->context, error, error == 0 ? &job->result : NULL);
	free(job->result.flows);
	free(job->result.sources);
	free(job);
}

// Continues with the next job in the queue, if there is one.
static void rotate(struct weir_flow_lists *lists) {
	struct job *job = lists->first, **last = &lists->first;

	lists->slice_ms = 0;
	if (job->next == NULL) {
		return;
	}
	lists->first = job->next;
	while (*last != NULL) {
		last = &(*last)->next;
	}
	job->next = NULL;
	*last = job;
}

// --- responses ----------------------------------------------------------------------------

static bool make_room(struct job *job, uint32_t more) {
	uint32_t room = job->result.count + more;
	struct weir_flow_found *grown;

	if (room <= job->room) {
		return true;
	}
	room = room < WEIR_FLOW_LISTS_PAGE ? WEIR_FLOW_LISTS_PAGE : room * 2;
	grown = realloc(job->result.flows, room * sizeof(*grown));
	if (grown == NULL) {
		job->failed = true;
		return false;
	}
	job->result.flows = grown;
	job->room = room;
	return true;
}

static void keep_page(
	struct weir_flow_lists *lists, uint32_t worker, uint32_t page, uint32_t count) {
	const struct weir_listed_flow *flows =
		lists->mailboxes->segment->flow_pages[worker].flow[page];
	struct job *job = lists->first;

	if (!make_room(job, count)) {
		return;
	}
	for (uint32_t i = 0; i < count; i++) {
		struct weir_flow_found *found = &job->result.flows[job->result.count];

		*found = (struct weir_flow_found){.flow = flows[i], .worker = worker};
		if ((found->flow.family == 4 || found->flow.family == 6) &&
			(found->flow.protocol == IPPROTO_TCP ||
				found->flow.protocol == IPPROTO_UDP)) {
			job->result.count++;
		}
	}
}

static void take(void *context, uint32_t worker, const struct weir_message *message) {
	struct weir_flow_lists *lists = context;
	int page = weir_table_walk_take(
		&lists->walk, worker, message->sequence, message->list.next, message->list.lines);
	struct job *job = lists->first;
	uint32_t count;

	lists->left_out_ms[worker] = 0;
	if (page < 0) {
		return;
	}
	count = message->list.count < WEIR_FLOW_PAGE_FLOWS ? message->list.count
							   : WEIR_FLOW_PAGE_FLOWS;
	if (job->request.list.end) {
		job->result.ended += count;
	} else {
		keep_page(lists, worker, (uint32_t)page, count);
	}
	job->round += count;
	job->lines = message->list.lines > job->lines ? message->list.lines : job->lines;
}

// Counts the affinity entries on a page. The worker could change the page at any time, so each
// element is read only once.
static void count_page(struct job *job, const uint16_t *page, uint32_t proven, uint32_t others) {
	for (uint32_t i = 0; i < WEIR_SOURCE_PAGE; i++) {
		const uint16_t backend = __atomic_load_n(&page[i], __ATOMIC_RELAXED);

		if (backend < job->result.source_backends) {
			job->result.sources[backend].proven += i < proven;
			job->result.sources[backend].others += i >= WEIR_SOURCE_PAGE - others;
		}
	}
}

static void take_sources(void *context, uint32_t worker, const struct weir_message *message) {
	struct weir_flow_lists *lists = context;
	int page = weir_table_walk_take(
		&lists->walk, worker, message->sequence, message->walk.next, message->walk.lines);
	const uint32_t proven = message->walk.proven, others = message->walk.others;
	struct job *job = lists->first;

	lists->left_out_ms[worker] = 0;
	if (page < 0) {
		return;
	}
	job->lines = message->walk.lines > job->lines ? message->walk.lines : job->lines;
	job->result.source_entries = (uint64_t)job->lines * WEIR_SOURCE_LINE;
	if (job->request.walk.remove) {
		job->result.ended += others < WEIR_LIST_LINES * WEIR_SOURCE_LINE
					     ? others
					     : WEIR_LIST_LINES * WEIR_SOURCE_LINE;
	} else if (proven <= WEIR_SOURCE_PAGE && others <= WEIR_SOURCE_PAGE - proven) {
		count_page(job, lists->mailboxes->segment->flow_pages[worker].source[page], proven,
			others);
	}
}

// --- requests -----------------------------------------------------------------------------

// Returns whether lists skip a worker, because it did not respond recently. Without the skip, a
// list of many pages would wait for a stalled worker at each page.
static bool is_left_out(const struct weir_flow_lists *lists, uint32_t worker) {
	return lists->left_out_ms[worker] != 0 &&
	       uv_now(lists->loop) - lists->left_out_ms[worker] < LEFT_OUT_MS;
}

static uint64_t round_lines(const struct job *job) {
	return lists_flows(job) ? (uint64_t)WEIR_FLOW_PAGES * job->range_lines : DELETION_LINES;
}

// Selects the worker of a walk over the affinity table: the first worker that is not skipped.
static void select_worker(struct weir_flow_lists *lists) {
	const struct weir_segment *segment = lists->mailboxes->segment;
	const uint32_t workers = segment != NULL ? segment->workers : 0;
	uint32_t worker = 0;

	while (worker < workers && is_left_out(lists, worker)) {
		worker++;
	}
	lists->first->workers = worker < workers ? 1ull << worker : 0;
	lists->first->result.incomplete |= worker == workers;
}

static void begin_round(struct weir_flow_lists *lists) {
	struct job *job = lists->first;
	const uint64_t count = round_lines(job);
	const uint32_t left = UINT32_MAX - job->line;
	const struct weir_table_walk_lines lines = {.first = job->line,
		.count = count < left ? (uint32_t)count : left,
		.end = UINT32_MAX,
		.range = job->range_lines};

	if (is_of_sources(job)) {
		select_worker(lists);
	}
	for (uint32_t worker = 0; job->all && worker < WEIR_WORKERS_MAX; worker++) {
		if (is_left_out(lists, worker)) {
			job->result.incomplete = true;
			job->workers &= ~(1ull << worker);
		}
	}
	weir_table_walk_begin(&lists->walk, &job->request, job->workers, &lines);
	job->round = 0;
}

// Begins a walk over the affinity table again, because its worker has not responded. The next round
// selects another worker.
static void restart_walk(struct job *job) {
	job->line = 0;
	if (job->result.sources != NULL) {
		memset(job->result.sources, 0,
			job->result.source_backends * sizeof(*job->result.sources));
	}
}

// Continues the current round. Returns false if the round can be ended; true if responses are
// outstanding, or if a restarted walk needs a new round.
static bool step_round(struct weir_flow_lists *lists) {
	struct job *job = lists->first;
	bool busy = weir_table_walk_step(&lists->walk, uv_now(lists->loop));

	for (uint32_t worker = 0; worker < WEIR_WORKERS_MAX; worker++) {
		if ((lists->walk.silent >> worker & 1) != 0) {
			lists->left_out_ms[worker] = uv_now(lists->loop);
		}
	}
	job->workers = lists->walk.workers;
	job->result.incomplete |= lists->walk.stuck;
	if (lists->walk.silent == 0) {
		return busy;
	}
	if (is_of_sources(job)) {
		restart_walk(job);
		return true;
	}
	job->result.incomplete = true;
	return busy;
}

// Begins another pass of a deletion. Another pass is necessary because an insertion may have moved
// a flow to a line that the last pass had already searched. Returns false without a new pass if the
// last pass deleted no flow, or if the maximum number of passes is reached.
static bool begin_pass(struct job *job) {
	if (lists_flows(job) || is_of_sources(job) || job->result.ended == job->ended_before ||
		++job->passes >= PASSES_MAX) {
		return false;
	}
	job->ended_before = job->result.ended;
	job->line = 0;
	return true;
}

// Ends the current round. Returns whether the job has ended.
static bool end_round(struct weir_flow_lists *lists) {
	struct job *job = lists->first;
	uint64_t line = job->line + round_lines(job);

	lists->walk.workers = 0;
	job->line = line < UINT32_MAX ? (uint32_t)line : UINT32_MAX;
	job->result.more = job->line < job->lines;
	job->result.next = job->line;
	if (!lists_flows(job)) {
		// Do not adapt the number of lines: the responses contain no flows.
	} else if (job->round < ROUND_FEW && job->range_lines < RANGE_LINES_MAX) {
		job->range_lines *= 2;
	} else if (job->round > ROUND_MANY && job->range_lines > 1) {
		job->range_lines /= 2;
	}
	return (!job->result.more && !begin_pass(job)) || job->result.count >= WEIR_FLOW_LISTS_PAGE;
}

static void work(struct weir_flow_lists *lists) {
	const uint64_t now_ms = uv_now(lists->loop);
	struct job *job = lists->first;
	bool busy;

	if (lists->slice_ms == 0) {
		lists->slice_ms = now_ms;
	}
	if (lists->walk.workers == 0) {
		begin_round(lists);
	}
	busy = step_round(lists);
	if (job->failed) {
		end_job(lists, -ENOMEM);
	} else if (busy) {
		return;
	} else if (end_round(lists)) {
		end_job(lists, 0);
	} else if (now_ms - lists->slice_ms >= WEIR_FLOW_LISTS_SLICE_MS) {
		if (!lists_flows(job)) {
			rotate(lists);
		} else {
			end_job(lists, 0);
		}
	}
}

static bool step(void *context) {
	struct weir_flow_lists *lists = context;

	if (lists->first != NULL) {
		work(lists);
	}
	return lists->first != NULL;
}

static int create_job(const struct weir_flow_lists *lists, const struct weir_message *request,
	weir_flow_list_done done, void *context, struct job **ret) {
	struct job *job;

	if (lists->mailboxes->segment == NULL) {
		return -ENOTCONN;
	}
	if (lists->count >= WEIR_FLOW_LISTS_MAX) {
		return -EBUSY;
	}
	job = calloc(1, sizeof(*job));
	if (job == NULL) {
		return -ENOMEM;
	}
	*job = (struct job){.request = *request,
		.range_lines = RANGE_LINES_MAX,
		.done = done,
		.context = context};
	*ret = job;
	return 0;
}

static void enqueue(struct weir_flow_lists *lists, struct job *job) {
	struct job **last = &lists->first;

	while (*last != NULL) {
		last = &(*last)->next;
	}
	*last = job;
	lists->count++;
	uv_update_time(lists->loop);
	weir_mailboxes_wait(lists->mailboxes, WEIR_MESSAGE_FLOW_LIST);
}

int weir_flow_lists_start(struct weir_flow_lists *lists, const struct weir_message *request,
	uint32_t first, uint32_t worker, weir_flow_list_done done, void *context) {
	const struct weir_segment *segment = lists->mailboxes->segment;
	struct job *job;
	int r = create_job(lists, request, done, context, &job);

	if (r < 0) {
		return r;
	}
	job->request.kind = WEIR_MESSAGE_FLOW_LIST;
	job->all = worker == WEIR_FLOW_LISTS_ALL;
	job->workers = job->all ? UINT64_MAX : 1ull << worker;
	job->line = first;
	if (!request->list.end) {
		job->range_lines = RANGE_LINES;
	}
	// If each worker has its own table, each worker returns the flows of all requested lines,
	// so request fewer lines. Workers that share a table each return only some of these flows.
	if (!request->list.end && job->all && segment->bucketing != WEIR_BUCKETING_YES) {
		job->range_lines = (RANGE_LINES + segment->workers - 1) / segment->workers;
	}
	enqueue(lists, job);
	return 0;
}

int weir_flow_lists_start_sources(struct weir_flow_lists *lists, const struct weir_message *request,
	weir_flow_list_done done, void *context) {
	struct job *job;
	int r = create_job(lists, request, done, context, &job);

	if (r < 0) {
		return r;
	}
	job->request.kind = WEIR_MESSAGE_SOURCE_WALK;
	if (!request->walk.remove) {
		job->result.source_backends = lists->mailboxes->segment->max_backends;
		job->result.sources =
			calloc(job->result.source_backends, sizeof(*job->result.sources));
		if (job->result.sources == NULL) {
			free(job);
			return -ENOMEM;
		}
	}
	enqueue(lists, job);
	return 0;
}

// --- create and free ----------------------------------------------------------------------

int weir_flow_lists_create(
	uv_loop_t *loop, struct weir_mailboxes *mailboxes, struct weir_flow_lists **ret) {
	struct weir_flow_lists *lists = calloc(1, sizeof(*lists));

	if (lists == NULL) {
		return -ENOMEM;
	}
	lists->loop = loop;
	lists->mailboxes = lists->walk.mailboxes = mailboxes;
	weir_mailboxes_subscribe(mailboxes, WEIR_MESSAGE_FLOW_LIST, take, step, lists);
	weir_mailboxes_subscribe(mailboxes, WEIR_MESSAGE_SOURCE_WALK, take_sources, NULL, lists);
	*ret = lists;
	return 0;
}

void weir_flow_lists_abandon(struct weir_flow_lists *lists) {
	if (lists == NULL) {
		return;
	}
	while (lists->first != NULL) {
		end_job(lists, -ENOTCONN);
	}
	memset(lists->left_out_ms, 0, sizeof(lists->left_out_ms));
}

void weir_flow_lists_free(struct weir_flow_lists *lists) {
	if (lists == NULL) {
		return;
	}
	weir_flow_lists_abandon(lists);
	free(lists);
}
