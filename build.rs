//! Finds httpd through apxs (the environment's APXS overrides), makes the
//! bindings from its headers and compiles the shim. What is missing is told in
//! one sentence that names the package. Hashes what the status page's policy allows.

use std::fs;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use sha2::{Digest, Sha256};

/// What the status page holds inline, and the variable that its hash is compiled under.
const INLINE: [(&str, &str); 2] = [
    ("src/report/html/page.css", "PAGE_STYLE"),
    ("src/report/html/page.js", "PAGE_SCRIPT"),
];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    for (file, variable) in INLINE {
        println!("cargo::rerun-if-changed={file}");
        let text = fs::read(file).expect("a file of the sources can be read");
        let hash = BASE64_STANDARD.encode(Sha256::digest(text));
        println!("cargo::rustc-env={variable}='sha256-{hash}'");
    }
    #[cfg(feature = "httpd")]
    httpd::build();
}

#[cfg(feature = "httpd")]
mod httpd {
    use std::env;
    use std::panic::{self, AssertUnwindSafe};
    use std::path::PathBuf;
    use std::process::{Command, exit};

    const FUNCTIONS: &[&str] = &[
        "ap_check_cmd_context",
        "ap_expr_(exec|parse_cmd_mi|str_exec)",
        "ap_get_conn_socket",
        "ap_get_scoreboard_worker",
        "ap_get_scoreboard_worker_from_indexes",
        "ap_get_server_description",
        "ap_exists_config_define",
        "ap_get_status_line",
        "ap_find_linked_module",
        "ap_get_(conn|request|server)_module_loglevel",
        "ap_hook_.*",
        "ap_log_(error|rerror|cerror)_",
        "ap_mpm_query",
        "ap_(add|register)_(input|output)_filter",
        "ap_remove_output_filter",
        "ap_get_brigade",
        "ap_pass_brigade",
        "apr_brigade_(cleanup|create)",
        "apr_dynamic_fn_retrieve",
        "limitipconn_(bucket|brigade)_.*",
        "limitipconn_aborted",
        "ap_retained_data_(create|get)",
        "ap_rwrite",
        "ap_server_root_relative",
        "ap_set_content_type",
        "ap_state_query",
        "apr_os_sock_get",
        "apr_optional_hook_add",
        "apr_palloc",
        "apr_pool_(cleanup_null|(pre_)?cleanup_register)",
        "apr_pool_userdata_(get|setn)",
        "apr_table_(get|merge|set|unset)",
        "apr_time_now",
    ];
    const TYPES: &[&str] = &[
        "ap_conn_keepalive_e",
        "ap_directive_t",
        "ap_expr_eval_ctx_t",
        "ap_expr_info_t",
        "ap_expr_lookup_parms",
        "ap_filter_rec_t",
        "ap_filter_t",
        "ap_listen_rec",
        "apr_sockaddr_t",
        "cmd_parms",
        "command_rec",
        "conn_rec",
        "limitipconn_layout",
        "module",
        "request_rec",
        "server_addr_rec",
        "server_rec",
        "worker_score",
    ];
    const VARIABLES: &[&str] = &[
        "ACCESS_CONF",
        "AP_MPMQ_.*",
        "AP_SQ_.*",
        "AP_STATUS_.*",
        "APLOG_.*",
        "APR_HOOK_.*",
        "DECLINED",
        "HTTP_.*",
        "MODULE_MAGIC_.*",
        "NOT_IN_HTACCESS",
        "OK",
        "OR_LIMIT",
        "RSRC_CONF",
        "SERVER_(DEAD|STARTING|READY|BUSY_.*|CLOSING|GRACEFUL|IDLE_KILL)",
        "M_(GET|OPTIONS)",
        "AP_EXPR_FLAG_(DONT_VARY|STRING_RESULT)",
        "AP_EXPR_FUNC_VAR",
        "ap_conftree",
        "ap_listeners",
        "limitipconn_layout",
    ];

    pub fn build() {
        println!("cargo::rerun-if-env-changed=APXS");
        println!("cargo::rerun-if-changed=apache-headers");
        // Statics and code must outlive a reload: old and new generations share them.
        println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");

        let apxs = env::var("APXS").unwrap_or_else(|_| "apxs".into());
        let include_dirs = [
            query(&apxs, "INCLUDEDIR"),
            query(&apxs, "APR_INCLUDEDIR"),
            query(&apxs, "APU_INCLUDEDIR"),
        ];
        let mut flags: Vec<String> = include_dirs
            .iter()
            .filter(|dir| !dir.is_empty())
            .map(|dir| format!("-I{dir}"))
            .collect();
        // Large files and the like change the layout of httpd's structures.
        flags.extend(
            query(&apxs, "EXTRA_CPPFLAGS")
                .split_whitespace()
                .filter(|flag| flag.starts_with("-D"))
                .map(String::from),
        );

        compile_shim(&flags);
        let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
        bindings(&flags)
            .write_to_file(out.join("bindings.rs"))
            .expect("OUT_DIR can be written");
    }

    fn query(apxs: &str, name: &str) -> String {
        match Command::new(apxs).args(["-q", name]).output() {
            Ok(answer) => String::from_utf8_lossy(&answer.stdout).trim().to_owned(),
            Err(error) => fail(&format!(
                "cannot run {apxs} ({error}): install apache2-dev (Debian, Ubuntu) or httpd-devel (Fedora, RHEL), \
                 or set APXS to the apxs of your httpd"
            )),
        }
    }

    fn compile_shim(flags: &[String]) {
        let mut shim = cc::Build::new();
        shim.file("apache-headers/shim.c").include("apache-headers");
        for flag in flags {
            shim.flag(flag);
        }
        shim.compile("limitipconn_shim");
    }

    fn bindings(flags: &[String]) -> bindgen::Bindings {
        let mut builder = bindgen::Builder::default()
            .header("apache-headers/wrapper.h")
            .clang_args(flags)
            .clang_arg("-Iapache-headers")
            .allowlist_recursively(true)
            .default_macro_constant_type(bindgen::MacroTypeVariation::Signed)
            .generate_comments(false)
            .layout_tests(true)
            .merge_extern_blocks(true)
            .rust_edition(bindgen::RustEdition::Edition2024);
        for name in FUNCTIONS {
            builder = builder.allowlist_function(name);
        }
        for name in TYPES {
            builder = builder.allowlist_type(name);
        }
        for name in VARIABLES {
            builder = builder.allowlist_var(name);
        }
        // bindgen panics when it cannot load libclang; everything else is an error.
        panic::set_hook(Box::new(|_| {}));
        let made = panic::catch_unwind(AssertUnwindSafe(|| builder.generate()));
        let _ = panic::take_hook();
        match made {
            Ok(Ok(bindings)) => bindings,
            Ok(Err(error)) => fail(&format!(
                "cannot read httpd's headers: {error}; install apache2-dev"
            )),
            Err(_) => fail(
                "cannot load libclang: install libclang-dev (Debian, Ubuntu) or clang-devel (Fedora, RHEL)",
            ),
        }
    }

    fn fail(sentence: &str) -> ! {
        println!("cargo::error={sentence}");
        // cargo fails the build for the line above; a status of failure would only make
        // it print everything else too.
        exit(0)
    }
}
