// SPDX-License-Identifier: BSD-3-Clause
//
// Documents: the bodies that the server sends, made from weir-control's replies. weir-control is
// queried at most once a second and for at most a tenth of the time, independent of the number of
// clients: a younger document is sent again. One document of each kind is cached; clients still
// receiving an older one keep a reference to it.
//
// Threads: any. A thread that needs a new document requests it; other threads wait for it, no
// longer than the timeout of weir-control.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "log.h"

enum weir_document_kind {
	WEIR_DOCUMENT_TEXT, // metrics in the Prometheus text format
	WEIR_DOCUMENT_OPENMETRICS,
	WEIR_DOCUMENT_STATUS, // JSON for the page
	WEIR_DOCUMENT_KINDS,
};

struct weir_document {
	char *data;
	size_t bytes;
	unsigned int users; // atomic
};

struct weir_documents;

// run_dir, log: borrowed. Returns 0 or -ENOMEM.
int weir_documents_create(const char *run_dir, unsigned int timeout_ms, bool ipvs_names,
	struct weir_log *log, struct weir_documents **ret);
void weir_documents_free(struct weir_documents *documents); // NULL is allowed

// Begin with the history that a former process saved in this directory, if there is one; a broken
// file is ignored with a line in the log. directory: borrowed.
void weir_documents_keep(struct weir_documents *documents, const char *directory);
// Save the history there. Does nothing before weir_documents_keep. A failure is logged once, until
// it succeeds again.
void weir_documents_save(struct weir_documents *documents);

// Returns 0 or -ENOMEM. A failure to reach weir-control is not an error here: the document reports
// it.
int weir_documents_get(
	struct weir_documents *documents, enum weir_document_kind kind, struct weir_document **ret);
void weir_document_release(struct weir_document *document);

// Take a sample for the plots of the page; call it every WEIR_HISTORY_MS.
void weir_documents_sample(struct weir_documents *documents);
