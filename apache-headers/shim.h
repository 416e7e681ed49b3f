/* What only the C compiler can say about the httpd that is installed here:
 * sizes and offsets as C sees them. The module compares them with the
 * bindings' at each start and refuses to run on a difference. */
#ifndef LIMITIPCONN_SHIM_H
#define LIMITIPCONN_SHIM_H

#include <stddef.h>
#include "apr_buckets.h"

struct limitipconn_layout {
    size_t request_size, request_pool, request_connection, request_server;
    size_t request_main, request_prev, request_err_headers_out;
    size_t request_subprocess_env, request_content_type, request_uri;
    size_t request_useragent_addr, request_per_dir_config, request_config;
    size_t conn_size, conn_client_addr, conn_config, conn_sbh, conn_master;
    size_t server_size, server_module_config, server_lookup_defaults;
    size_t worker_size, worker_status;
    size_t sockaddr_family, sockaddr_sin;
    size_t module_size, command_size, directive_size, cmd_parms_size;
};

/* Buckets of a brigade, one after the other: the first after a null one, and null
 * after the last. The structures are rings of macros. */
struct apr_bucket *limitipconn_bucket_after(struct apr_bucket_brigade *brigade,
                                            struct apr_bucket *bucket);
int limitipconn_bucket_is_metadata(const struct apr_bucket *bucket);
int limitipconn_bucket_read(struct apr_bucket *bucket, const char **bytes,
                            size_t *length);

/* Moves the beginning of a brigade to the end of another: as many bytes as said, more only
 * where a bucket cannot be split, and what there is where the output of a script is still
 * to come. What mod_http2 takes whole goes whole and by itself, however long it is. How many
 * bytes, whether the body ends with them, and whether they go whole. */
size_t limitipconn_brigade_move(struct apr_bucket_brigade *from,
                                struct apr_bucket_brigade *to, size_t bytes,
                                int *is_last, int *is_whole);
int limitipconn_brigade_is_empty(const struct apr_bucket_brigade *brigade);

/* Adds a copy of these bytes to the end of a brigade, and lets all of it go out at once. */
void limitipconn_brigade_add(struct apr_bucket_brigade *brigade, const char *bytes,
                             size_t length);
void limitipconn_brigade_flush(struct apr_bucket_brigade *brigade);

/* The status of a filter whose connection is over. */
int limitipconn_aborted(void);

extern const struct limitipconn_layout limitipconn_layout;

#endif
