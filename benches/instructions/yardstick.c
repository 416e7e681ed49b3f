/* The yardstick of the instruction bench, not a part of the module: counting
 * a client's busy workers by walking httpd's scoreboard and comparing the
 * client's address as text, the obvious way to do it in C.
 *
 * Loaded, it makes all slots but the server's own look busy with some other
 * client. `Define YARDSTICK_WALK` before LoadModule: it also walks at each
 * request, and answers 503 where more slots are busy than MOST.
 */
#include "httpd.h"
#include "http_config.h"
#include "http_core.h"
#include "http_request.h"
#include "ap_mpm.h"
#include "scoreboard.h"
#include "apr_strings.h"
#include <string.h>

#define MOST 100

static int busy_slots_of(const char *client)
{
    int server, thread, servers, threads, busy = 0;

    ap_mpm_query(AP_MPMQ_HARD_LIMIT_DAEMONS, &servers);
    ap_mpm_query(AP_MPMQ_HARD_LIMIT_THREADS, &threads);
    for (server = 0; server < servers; server++) {
        for (thread = 0; thread < threads; thread++) {
            const worker_score *slot =
                ap_get_scoreboard_worker_from_indexes(server, thread);

            switch (slot->status) {
            case SERVER_BUSY_READ:
            case SERVER_BUSY_WRITE:
            case SERVER_BUSY_KEEPALIVE:
            case SERVER_BUSY_LOG:
            case SERVER_BUSY_DNS:
            case SERVER_CLOSING:
            case SERVER_GRACEFUL:
                if (strcmp(client, slot->client64) == 0) {
                    busy++;
                }
            }
        }
    }
    return busy;
}

static int walk(request_rec *r)
{
    return busy_slots_of(r->useragent_ip) > MOST ? HTTP_SERVICE_UNAVAILABLE
                                                 : DECLINED;
}

/* httpd -X sits in slot 0; the slots after it are nobody's. */
static void fill_slots(apr_pool_t *pool, server_rec *s)
{
    int slot, slots;

    ap_mpm_query(AP_MPMQ_HARD_LIMIT_DAEMONS, &slots);
    for (slot = 1; slot < slots; slot++) {
        worker_score *stranger = ap_get_scoreboard_worker_from_indexes(slot, 0);

        stranger->status = SERVER_BUSY_WRITE;
        apr_snprintf(stranger->client64, sizeof(stranger->client64),
                     "10.77.%d.%d", slot / 250, 1 + slot % 250);
    }
}

static void hooks(apr_pool_t *pool)
{
    ap_hook_child_init(fill_slots, NULL, NULL, APR_HOOK_MIDDLE);
    if (ap_exists_config_define("YARDSTICK_WALK")) {
        ap_hook_fixups(walk, NULL, NULL, APR_HOOK_MIDDLE);
    }
}

module AP_MODULE_DECLARE_DATA yardstick_module = {
    STANDARD20_MODULE_STUFF, NULL, NULL, NULL, NULL, NULL, hooks
};
