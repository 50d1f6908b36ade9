/*
 * document_trace.h - gives the files of this room the trace inside a document.
 */
#ifndef TWI_DOCUMENT_TRACE_H
#define TWI_DOCUMENT_TRACE_H

struct trace_document;
struct twi_trace;

/* Returns the document's trace, which lives as long as the document. */
const struct twi_trace *trace_document_trace(const struct trace_document *document);

#endif
