//! Directives: the table that httpd reads, and what a handler learns of the place
//! where its directive stands.

use std::borrow::Cow;
use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::marker::PhantomData;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::ptr;

use super::boundary::guard;
use super::expression::{Expression, Text};
use super::pool::Pool;
use super::record::{Module, Slots};
use super::server::{Server, text};
use super::tree::Node;
use crate::sys;

/// A directive as a row of a table.
pub struct Row {
    /// Its name.
    pub name: &'static CStr,
    /// Where it may stand.
    pub context: Context,
    /// Reads its raw arguments; an error is a sentence for the administrator.
    pub set: fn(Command<'_>, &str) -> Result<(), String>,
    /// What a user would say it does: shown by `httpd -L`, `-t` and server-info.
    pub help: &'static CStr,
}

/// Where a directive may stand.
#[derive(Clone, Copy)]
pub enum Context {
    /// The main server only.
    Main,
    /// The main server and virtual hosts.
    Server,
    /// Servers and sections.
    Sections,
    /// Those and .htaccess files under `AllowOverride Limit`.
    Htaccess,
}

/// The table in httpd's form; its last row stays empty.
pub struct Table<const ROWS: usize>([sys::command_rec; ROWS]);

// SAFETY: httpd and we only read it.
unsafe impl<const ROWS: usize> Sync for Table<ROWS> {}

impl<const ROWS: usize> Table<ROWS> {
    /// The table for these rows; ROWS is one more than they are.
    pub const fn new(rows: &'static [Row]) -> Self {
        assert!(rows.len() + 1 == ROWS);
        let end = sys::command_rec {
            name: ptr::null(),
            func: sys::cmd_func { raw_args: None },
            cmd_data: ptr::null_mut(),
            req_override: 0,
            args_how: sys::cmd_how_RAW_ARGS,
            errmsg: ptr::null(),
        };
        let mut table = [end; ROWS];
        let mut at = 0;
        while at < rows.len() {
            let row = &rows[at];
            table[at] = sys::command_rec {
                name: row.name.as_ptr(),
                func: sys::cmd_func {
                    raw_args: Some(thunk),
                },
                cmd_data: ptr::from_ref(row).cast_mut().cast(),
                req_override: row.context.overrides(),
                args_how: sys::cmd_how_RAW_ARGS,
                errmsg: row.help.as_ptr(),
            };
            at += 1;
        }
        Table(table)
    }

    /// The first row, as the module record wants it.
    pub const fn as_ptr(&self) -> *const sys::command_rec {
        self.0.as_ptr()
    }
}

impl Context {
    const fn overrides(self) -> c_int {
        match self {
            Context::Main | Context::Server => sys::RSRC_CONF as c_int,
            Context::Sections => (sys::RSRC_CONF | sys::ACCESS_CONF) as c_int,
            Context::Htaccess => (sys::RSRC_CONF | sys::ACCESS_CONF | sys::OR_LIMIT) as c_int,
        }
    }
}

unsafe extern "C" fn thunk(
    parameters: *mut sys::cmd_parms,
    directory: *mut c_void,
    arguments: *const c_char,
) -> *const c_char {
    let fault = c"mod_limitipconn: a fault of its own while it read this directive".as_ptr();
    guard(
        fault,
        |_| (),
        || {
            // SAFETY: httpd passes live parameters; info is the cmd_data of the table's row;
            // the arguments are a text of the tree.
            let (row, arguments) = unsafe { (&*(*parameters).info.cast::<Row>(), text(arguments)) };
            let command = Command {
                parameters,
                directory,
                life: PhantomData,
            };
            let name = row.name.to_str().unwrap_or_default();
            let Some(arguments) = arguments else {
                return command
                    .pool()
                    .c_text(&format!("{name}: the arguments are not UTF-8"));
            };
            if matches!(row.context, Context::Main) && command.server().is_virtual() {
                return command.pool().c_text(&format!(
                    "{name} stands in the main server's configuration only"
                ));
            }
            match (row.set)(command, arguments) {
                Ok(()) => ptr::null(),
                Err(sentence) => command.pool().c_text(&format!("{name}: {sentence}")),
            }
        },
    )
}

/// One directive while httpd reads it.
#[derive(Clone, Copy)]
pub struct Command<'c> {
    parameters: *mut sys::cmd_parms,
    directory: *mut c_void,
    life: PhantomData<&'c ()>,
}

impl<'c> Command<'c> {
    fn parms(&self) -> &'c sys::cmd_parms {
        // SAFETY: live while the directive is read, which is 'c.
        unsafe { &*self.parameters }
    }

    /// The pool of the configuration that is being read.
    pub fn pool(&self) -> Pool<'c> {
        // SAFETY: outlives the reading.
        unsafe { Pool::from_raw(self.parms().pool) }
    }

    /// The server that the directive is for.
    pub fn server(&self) -> Server<'c> {
        // SAFETY: outlives the reading.
        unsafe { Server::from_raw(self.parms().server) }
    }

    /// Whether it stands in a section or in .htaccess.
    pub fn is_in_section(&self) -> bool {
        !self.parms().path.is_null()
    }

    /// The directory of the .htaccess file that it stands in, with the last slash.
    pub fn htaccess_directory(&self) -> Option<String> {
        // SAFETY: only reads the parameters.
        let refusal =
            unsafe { sys::ap_check_cmd_context(self.parameters, sys::NOT_IN_HTACCESS as u32) };
        if refusal.is_null() {
            return None;
        }
        let file = self.node().map_or(Cow::Borrowed(""), |node| node.file());
        Some(
            file.rfind('/')
                .map_or(String::new(), |slash| file[..=slash].to_owned()),
        )
    }

    /// Whether `<Limit>` or `<LimitExcept>` names methods around it.
    pub fn is_limited_to_methods(&self) -> bool {
        self.parms().limited != -1
    }

    /// An expression of httpd's in the arguments; `Err` is what is wrong with it.
    pub fn expression(
        &self,
        text: &str,
        module: &Module<impl Slots>,
    ) -> Result<Expression<'c>, String> {
        // SAFETY: httpd passed these parameters; both are live.
        unsafe { Expression::parse(self.parameters, self.pool(), text, module.index()) }
    }

    /// An expression of httpd's whose value is a text; `Err` is what is wrong with it.
    pub fn text_expression(
        &self,
        text: &str,
        module: &Module<impl Slots>,
    ) -> Result<Text<'c>, String> {
        // SAFETY: httpd passed these parameters; both are live.
        unsafe { Text::parse(self.parameters, self.pool(), text, module.index()) }
    }

    /// A path as httpd takes one: what does not begin with a slash is below ServerRoot.
    pub fn path(&self, text: &str) -> Option<PathBuf> {
        let text = self.pool().c_text(text);
        // SAFETY: the pool is live and the text ends with NUL; what comes back is null, or a
        // text of the pool.
        unsafe {
            let path = sys::ap_server_root_relative(self.parms().pool, text);
            (!path.is_null()).then(|| OsStr::from_bytes(CStr::from_ptr(path).to_bytes()).into())
        }
    }

    /// From now on the tree of the configuration, which other modules print, has these arguments
    /// of the directive instead.
    pub fn hide_arguments(&self, shown: &str) {
        let shown = self.pool().c_text(shown);
        let directive = self.parms().directive;
        // SAFETY: null, or a node of the tree that is being walked, which httpd allocated and
        // nobody else looks at meanwhile. The text is of the configuration's pool, which the tree
        // is of too; httpd has handed its arguments out before it called this directive.
        if let Some(directive) = unsafe { directive.as_mut() } {
            directive.args = shown;
        }
    }

    /// The directive in the tree.
    pub fn node(&self) -> Option<Node<'c>> {
        // SAFETY: part of the tree that is being walked.
        unsafe { Node::from_raw(self.parms().directive) }
    }

    /// Our configuration of the section that it stands in.
    ///
    /// # Safety
    /// The caller holds no other reference to it.
    pub unsafe fn directory<S: Slots>(&self, _: &Module<S>) -> &'c mut S::Directory<'c> {
        // SAFETY: httpd passes what create_directory made for this module's slot; that
        // it is not shared is the caller's word.
        unsafe { &mut *self.directory.cast() }
    }

    /// Our configuration of the server that it is for.
    ///
    /// # Safety
    /// The caller holds no other reference to it.
    pub unsafe fn server_config<S: Slots>(&self, module: &Module<S>) -> &'c mut S::Server<'c> {
        // SAFETY: httpd made the slot with the server; only this module writes it, always
        // with a Slots::Server; that it is not shared is the caller's word.
        unsafe {
            let vector = (*self.parms().server).module_config;
            module
                .slot::<S::Server<'c>>(vector)
                .as_mut()
                .expect("made with the server")
        }
    }
}
