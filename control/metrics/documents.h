// SPDX-License-Identifier: BSD-3-Clause
//
// Documents: the response bodies of the HTTP server, created from replies of weir-control.
// Regardless of the number of clients, weir-control is queried at most once a second, and queries
// take at most a tenth of the time. Between two queries, clients get the last document. The last
// document of each kind is cached. A client that is still receiving an older document has a
// reference to that document.
//
// Threads: any. If a new document is needed, one thread requests it from weir-control. Other
// threads wait for this document, at most for the timeout of weir-control.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "log.h"

enum weir_document_kind {
	WEIR_DOCUMENT_TEXT, // metrics in the Prometheus text format
	WEIR_DOCUMENT_OPENMETRICS,
	WEIR_DOCUMENT_STATUS, // JSON for the web page
	WEIR_DOCUMENT_KINDS,
};

struct weir_document {
	char *data;
	size_t bytes;
	unsigned int users; // atomic
};

struct weir_documents;

// Create the documents. run_dir, log: borrowed. Returns 0 or -ENOMEM.
int weir_documents_create(const char *run_dir, unsigned int timeout_ms, bool ipvs_names,
	struct weir_log *log, struct weir_documents **ret);
void weir_documents_free(struct weir_documents *documents); // NULL is allowed

// Reads the history that a previous process saved in this directory, if the file exists. An invalid
// file is ignored and logged. directory: borrowed.
void weir_documents_keep(struct weir_documents *documents, const char *directory);
// Save the history in the directory of weir_documents_keep. Does nothing before
// weir_documents_keep. Repeated failures are logged once.
void weir_documents_save(struct weir_documents *documents);

// Gets a document. Returns 0 or -ENOMEM. If weir-control cannot be reached, the result is 0, and
// the document contains the failure.
int weir_documents_get(
	struct weir_documents *documents, enum weir_document_kind kind, struct weir_document **ret);
void weir_document_release(struct weir_document *document);

// Take a sample for the plots of the page. Call this function every WEIR_HISTORY_MS.
void weir_documents_sample(struct weir_documents *documents);
