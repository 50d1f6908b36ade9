/*
 * error.c - the version, until the rest of diag lands.
 */
#include <towline/version.h>

const char *tow_version(void);

__attribute__((visibility("default"))) const char *tow_version(void)
{
	return TOW_VERSION;
}
