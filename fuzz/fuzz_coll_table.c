/*
 * fuzz_coll_table.c - any bytes as a file of measured choices: read, or refused with a message.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "diag/base/error.h"
#include "transport/coll/coll_table.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct twi_coll_table *table = NULL;
	int fd = memfd_create("coll_table", MFD_CLOEXEC), status;
	char path[64];

	if (fd < 0 || write(fd, data, size) != (ssize_t)size)
		abort();
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	status = twi_coll_table_load(path, &table);
	close(fd);
	if ((status == TOW_OK) != (table != NULL) || status > TOW_OK)
		abort();
	if (status < TOW_OK && tow_error_message()[0] == '\0')
		abort();
	twi_coll_table_free(table);
	return 0;
}
