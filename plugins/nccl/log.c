/*
 * log.c - passes messages to NCCL's log, and maps statuses to those of NCCL.
 */
#include "plugins/nccl/plugin.h"

#include <stdarg.h>
#include <stdio.h>

static _Atomic nccl_logger logger;

void twn_log_to(nccl_logger function)
{
	atomic_store(&logger, function);
}

void twn_log(int level, const char *format, ...)
{
	nccl_logger function = atomic_load(&logger);
	char text[1024];
	va_list arguments;

	if (function == NULL)
		return;
	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	function(level, NCCL_LOG_INIT | NCCL_LOG_NET, "towline", __LINE__, "NET/Towline : %s",
		 text);
}

/* tow_log_callback: NCCL shows what the library logs. */
void twn_log_line(void *user, int level, const char *text)
{
	(void)user;
	twn_log(level <= 2 ? NCCL_LOG_WARN : NCCL_LOG_INFO, "%s", text);
}

void twn_log_busy(void)
{
	static bool logged;

	if (!logged)
		twn_log(NCCL_LOG_INFO,
			"a connection waits, as all operations are in use (TOW_MAX_OPS)");
	logged = true;
}

enum nccl_result twn_result(int status)
{
	switch (status) {
	case TOW_EINVAL:
	case TOW_ETRUNCATED:
	case TOW_EFORKED:
		return NCCL_INVALID_USAGE;
	case TOW_ENOMEM:
	case TOW_EEXHAUSTED:
	case TOW_EPERM:
	case TOW_ESYSTEM:
	case TOW_EBUSY:
		return NCCL_SYSTEM_ERROR;
	case TOW_EREFUSED:
	case TOW_EPEER:
	case TOW_EPROTOCOL:
	case TOW_EDEADLINE:
	case TOW_ECANCELED: /* the other side was closing the channel */
	case TOW_EAUTH:
	case TOW_ECORRUPT:
	case TOW_EMISMATCH:
		return NCCL_REMOTE_ERROR;
	default:
		return status < 0 ? NCCL_INTERNAL_ERROR : NCCL_SUCCESS;
	}
}

enum nccl_result twn_refuse(int status, const char *what)
{
	twn_log(NCCL_LOG_WARN, "%s: %s: %s", what, tow_status_name(status), tow_error_message());
	return twn_result(status);
}
