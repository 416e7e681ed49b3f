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

/* What mod_http2 takes whole, so that its worker need not wait for the client: a file of
 * which there is one bucket, and mapped memory. All else it copies as far as it has room. */
static int is_carried(const struct apr_bucket *bucket)
{
    if (APR_BUCKET_IS_FILE(bucket))
        return ((const apr_bucket_file *)bucket->data)->refcount.refcount == 1;
    return APR_BUCKET_IS_MMAP(bucket);
}

size_t limitipconn_brigade_move(struct apr_bucket_brigade *from,
                                struct apr_bucket_brigade *to, size_t bytes,
                                int *is_last, int *is_whole)
{
    size_t length = 0;

    *is_last = 0;
    *is_whole = 0;
    while (!APR_BRIGADE_EMPTY(from) && length < bytes) {
        struct apr_bucket *bucket = APR_BRIGADE_FIRST(from);

        if (APR_BUCKET_IS_EOS(bucket))
            *is_last = 1;
        if (!APR_BUCKET_IS_METADATA(bucket) && is_carried(bucket)) {
            /* What is before it is handed on by itself. */
            if (length > 0)
                break;
            *is_whole = 1;
            length = bucket->length;
            APR_BUCKET_REMOVE(bucket);
            APR_BRIGADE_INSERT_TAIL(to, bucket);
            break;
        }
        if (!APR_BUCKET_IS_METADATA(bucket)) {
            if (bucket->length == (apr_size_t)-1) {
                const char *data;
                apr_size_t read;

                /* A script's output, which may be long in coming: what there is goes first. */
                if (!APR_BRIGADE_EMPTY(to))
                    return length;
                /* Where this fails, so will whoever reads it next, and says so. */
                (void)apr_bucket_read(bucket, &data, &read, APR_BLOCK_READ);
            }
            /* Each piece would be mapped on its own, and what tells of it kept in the
             * request's pool. */
            if (APR_BUCKET_IS_FILE(bucket))
                (void)apr_bucket_file_enable_mmap(bucket, 0);
            /* What cannot be split goes as it is. */
            if (bucket->length != (apr_size_t)-1) {
                if (bucket->length > bytes - length)
                    (void)apr_bucket_split(bucket, bytes - length);
                length += bucket->length;
            }
        }
        APR_BUCKET_REMOVE(bucket);
        APR_BRIGADE_INSERT_TAIL(to, bucket);
    }
    /* What follows is no body, and not to be waited for. */
    while (!APR_BRIGADE_EMPTY(from) && APR_BUCKET_IS_METADATA(APR_BRIGADE_FIRST(from))) {
        struct apr_bucket *bucket = APR_BRIGADE_FIRST(from);

        if (APR_BUCKET_IS_EOS(bucket))
            *is_last = 1;
        APR_BUCKET_REMOVE(bucket);
        APR_BRIGADE_INSERT_TAIL(to, bucket);
    }
    return length;
}

int limitipconn_brigade_is_empty(const struct apr_bucket_brigade *brigade)
{
    return APR_BRIGADE_EMPTY(brigade);
}

/* A bucket of its own: apr_brigade_write would fill up the memory behind the last one, where
 * input that nobody has asked for yet may lie. */
void limitipconn_brigade_add(struct apr_bucket_brigade *brigade, const char *bytes,
                             size_t length)
{
    APR_BRIGADE_INSERT_TAIL(
        brigade, apr_bucket_heap_create(bytes, length, NULL, brigade->bucket_alloc));
}

void limitipconn_brigade_flush(struct apr_bucket_brigade *brigade)
{
    APR_BRIGADE_INSERT_TAIL(brigade, apr_bucket_flush_create(brigade->bucket_alloc));
}

int limitipconn_aborted(void)
{
    return APR_ECONNABORTED;
}
