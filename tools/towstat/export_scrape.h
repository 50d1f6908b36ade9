/*
 * export_scrape.h - reads all ranks of this host and merges them into one OpenMetrics text.
 */
#ifndef TOWSTAT_EXPORT_SCRAPE_H
#define TOWSTAT_EXPORT_SCRAPE_H

#include <stddef.h>

#define SCRAPE_RANK_BYTES_MAX (4u << 20)   /* bound of one rank's metrics */
#define SCRAPE_BYTES_MAX      (128u << 20) /* bound of all of them */
#define SCRAPE_MEMORY_S       300 /* how long a rank that died and left its socket has a row */

struct scraper; /* remembers the ranks that were seen before */

struct scraper *scraper_create(long long timeout_ms);
void scraper_destroy(struct scraper *scraper);

/*
 * Asks all ranks at the same time, and merges the answers. Ranks that were slow the last time are
 * asked before the others, for a quarter of the timeout. So it blocks for at most 1.25 times the
 * timeout. The caller frees the text. NULL: no memory.
 */
char *scraper_run(struct scraper *scraper, size_t *bytes_out);

#endif
