/*
 * export_scrape.h - one reading of all ranks of this host as one OpenMetrics text.
 */
#ifndef TOWSTAT_EXPORT_SCRAPE_H
#define TOWSTAT_EXPORT_SCRAPE_H

#include <stddef.h>

#define SCRAPE_RANK_BYTES_MAX (4u << 20)   /* of one rank's metrics */
#define SCRAPE_BYTES_MAX      (128u << 20) /* of all of them */
#define SCRAPE_MEMORY_S       300 /* how long one that died and left its socket is told as down */

struct scraper; /* what was seen before */

struct scraper *scraper_create(long long timeout_ms);
void scraper_destroy(struct scraper *scraper);

/*
 * Asks all, at once and within the time, and merges what came. Blocks for that time at most. The
 * text is the caller's to free; NULL without memory.
 */
char *scraper_run(struct scraper *scraper, size_t *bytes_out);

#endif
