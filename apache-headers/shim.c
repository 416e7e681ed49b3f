/* See shim.h. */
#include "wrapper.h"

const struct limitipconn_layout limitipconn_layout = {
    .request_size = sizeof(request_rec),
    .request_pool = offsetof(request_rec, pool),
    .request_connection = offsetof(request_rec, connection),
    .request_server = offsetof(request_rec, server),
    .request_main = offsetof(request_rec, main),
    .request_prev = offsetof(request_rec, prev),
    .request_err_headers_out = offsetof(request_rec, err_headers_out),
    .request_subprocess_env = offsetof(request_rec, subprocess_env),
    .request_content_type = offsetof(request_rec, content_type),
    .request_uri = offsetof(request_rec, uri),
    .request_useragent_addr = offsetof(request_rec, useragent_addr),
    .request_per_dir_config = offsetof(request_rec, per_dir_config),
    .request_config = offsetof(request_rec, request_config),
    .conn_size = sizeof(conn_rec),
    .conn_client_addr = offsetof(conn_rec, client_addr),
    .conn_config = offsetof(conn_rec, conn_config),
    .conn_sbh = offsetof(conn_rec, sbh),
    .conn_master = offsetof(conn_rec, master),
    .server_size = sizeof(server_rec),
    .server_module_config = offsetof(server_rec, module_config),
    .server_lookup_defaults = offsetof(server_rec, lookup_defaults),
    .worker_size = sizeof(worker_score),
    .worker_status = offsetof(worker_score, status),
    .sockaddr_family = offsetof(apr_sockaddr_t, family),
    .sockaddr_sin = offsetof(apr_sockaddr_t, sa),
    .module_size = sizeof(module),
    .command_size = sizeof(command_rec),
    .directive_size = sizeof(ap_directive_t),
    .cmd_parms_size = sizeof(cmd_parms),
};

struct apr_bucket *limitipconn_bucket_after(struct apr_bucket_brigade *brigade,
                                            struct apr_bucket *bucket)
{
    bucket = bucket ? APR_BUCKET_NEXT(bucket) : APR_BRIGADE_FIRST(brigade);
    return bucket == APR_BRIGADE_SENTINEL(brigade) ? NULL : bucket;
}

int limitipconn_bucket_is_metadata(const struct apr_bucket *bucket)
{
    return APR_BUCKET_IS_METADATA(bucket);
}

int limitipconn_bucket_read(struct apr_bucket *bucket, const char **bytes,
                            size_t *length)
{
    return apr_bucket_read(bucket, bytes, length, APR_BLOCK_READ);
}
