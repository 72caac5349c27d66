// SPDX-License-Identifier: BSD-3-Clause
#include "capture.h"

#include <errno.h>
#include <pcap/pcap.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define SNAPLEN 262144
#define SECOND_NS 1000000000ull

struct weir_capture_reader {
	pcap_t *pcap;
	dev_t device; // device and inode of the input file; the output must be another file
	ino_t inode;
};

struct weir_capture_writer {
	pcap_t *pcap;
	pcap_dumper_t *dumper;
};

static int check_link_type(pcap_t *pcap, const char *file, char *why, size_t why_bytes) {
	int type = pcap_datalink(pcap);
	const char *name = pcap_datalink_val_to_name(type);

	if (type == DLT_EN10MB) {
		return 0;
	}
	snprintf(why, why_bytes,
		"%s: link type %s (%d): only Ethernet frames can be processed; capture on an "
		"Ethernet interface, not on \"any\"",
		file, name != NULL ? name : "unknown", type);
	return -EINVAL;
}

static int open_file(const char *file, FILE **ret, struct stat *ret_stat) {
	FILE *stream = strcmp(file, "-") == 0 ? stdin : fopen(file, "re");
	int r;

	if (stream == NULL) {
		return -errno;
	}
	if (fstat(fileno(stream), ret_stat) < 0) {
		r = -errno;
	} else if (S_ISDIR(ret_stat->st_mode)) {
		r = -EISDIR;
	} else {
		*ret = stream;
		return 0;
	}
	if (stream != stdin) {
		fclose(stream);
	}
	return r;
}

int weir_capture_open(
	const char *file, struct weir_capture_reader **ret, char *why, size_t why_bytes) {
	struct weir_capture_reader *reader;
	char error_text[PCAP_ERRBUF_SIZE];
	struct stat status = {0};
	FILE *stream = NULL;
	int r = open_file(file, &stream, &status);

	if (stream == NULL) {
		snprintf(why, why_bytes, "%s: %s", file, strerror(-r));
		return r;
	}
	reader = calloc(1, sizeof(*reader));
	if (reader == NULL) {
		snprintf(why, why_bytes, "%s: %s", file, strerror(ENOMEM));
		r = -ENOMEM;
		goto close_stream;
	}
	reader->device = status.st_dev;
	reader->inode = status.st_ino;
	reader->pcap = pcap_fopen_offline_with_tstamp_precision(
		stream, PCAP_TSTAMP_PRECISION_NANO, error_text);
	if (reader->pcap == NULL) {
		snprintf(why, why_bytes, "%s: not a readable capture file: %s", file, error_text);
		r = -EINVAL;
		goto free_reader;
	}
	r = check_link_type(reader->pcap, file, why, why_bytes);
	if (r < 0) {
		weir_capture_close(reader);
		return r;
	}
	*ret = reader;
	return 0;

free_reader:
	free(reader);
close_stream:
	if (stream != stdin) {
		fclose(stream);
	}
	return r;
}

void weir_capture_close(struct weir_capture_reader *reader) {
	if (reader != NULL) {
		pcap_close(reader->pcap);
		free(reader);
	}
}

int weir_capture_read(struct weir_capture_reader *reader, struct weir_capture_frame *ret, char *why,
	size_t why_bytes) {
	struct pcap_pkthdr *header;
	const u_char *data;
	int status = pcap_next_ex(reader->pcap, &header, &data);

	if (status == PCAP_ERROR_BREAK) {
		return 0;
	}
	if (status != 1) {
		snprintf(why, why_bytes, "%s", pcap_geterr(reader->pcap));
		return -EBADMSG;
	}
	ret->data = data;
	ret->captured_bytes = header->caplen;
	ret->bytes = header->len > header->caplen ? header->len : header->caplen;
	// The file was opened with nanosecond precision, so tv_usec contains nanoseconds.
	ret->time_ns = (uint64_t)header->ts.tv_sec * SECOND_NS + (uint64_t)header->ts.tv_usec;
	return 1;
}

// Checks that input and output are different files, because creating the output truncates the file.
static int check_output(
	const char *file, const struct weir_capture_reader *reader, char *why, size_t why_bytes) {
	struct stat status;

	if (stat(file, &status) == 0 && S_ISREG(status.st_mode) &&
		status.st_dev == reader->device && status.st_ino == reader->inode) {
		snprintf(why, why_bytes,
			"%s: input and output are the same file; use another output file", file);
		return -EINVAL;
	}
	return 0;
}

int weir_capture_create(const char *file, const struct weir_capture_reader *reader,
	struct weir_capture_writer **ret, char *why, size_t why_bytes) {
	struct weir_capture_writer *writer;
	int r = check_output(file, reader, why, why_bytes);

	if (r < 0) {
		return r;
	}
	writer = calloc(1, sizeof(*writer));
	if (writer == NULL) {
		snprintf(why, why_bytes, "%s: %s", file, strerror(ENOMEM));
		return -ENOMEM;
	}
	writer->pcap = pcap_open_dead_with_tstamp_precision(
		DLT_EN10MB, SNAPLEN, PCAP_TSTAMP_PRECISION_NANO);
	if (writer->pcap == NULL) {
		snprintf(why, why_bytes, "%s: %s", file, strerror(ENOMEM));
		free(writer);
		return -ENOMEM;
	}
	writer->dumper = pcap_dump_open(writer->pcap, file);
	if (writer->dumper == NULL) {
		snprintf(why, why_bytes, "cannot write: %s", pcap_geterr(writer->pcap));
		pcap_close(writer->pcap);
		free(writer);
		return -EIO;
	}
	*ret = writer;
	return 0;
}

void weir_capture_write(
	struct weir_capture_writer *writer, const struct weir_capture_frame *frame) {
	struct pcap_pkthdr header = {
		.ts.tv_sec = (time_t)(frame->time_ns / SECOND_NS),
		.ts.tv_usec = (suseconds_t)(frame->time_ns % SECOND_NS),
		.caplen = frame->captured_bytes,
		.len = frame->bytes,
	};

	pcap_dump((u_char *)writer->dumper, &header, frame->data);
}

int weir_capture_finish(struct weir_capture_writer *writer) {
	int r = 0;

	if (writer == NULL) {
		return 0;
	}
	errno = 0;
	if (pcap_dump_flush(writer->dumper) < 0 || ferror(pcap_dump_file(writer->dumper))) {
		r = errno != 0 ? -errno : -EIO;
	}
	pcap_dump_close(writer->dumper);
	pcap_close(writer->pcap);
	free(writer);
	return r;
}
