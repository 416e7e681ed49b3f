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

extern const struct limitipconn_layout limitipconn_layout;

#endif
