//! Where httpd meets the rules: the module record and its hooks, one screen.

mod admission;
mod alarm;
mod answer;
mod asking;
mod audience;
mod carrier;
mod charges;
mod checks;
mod client;
mod config;
mod connections;
mod delay;
mod directives;
mod dump;
mod exempt;
mod fleet;
mod found;
mod hooks;
mod hourly;
mod inventory;
mod lifecycle;
mod memory;
mod place;
mod records;
mod resets;
mod rules;
mod running;
mod server_status;
mod shared_address;
mod shortage;
mod slow;
mod status;
mod stream_meter;
mod streams;
mod trip;
mod variable;
mod vectors;
mod visitor;
mod watch;
mod zones;

use crate::httpd::command::Table;
use crate::httpd::record::{Callbacks, Module, Slots};

/// What this module keeps in httpd's configuration vectors.
pub enum Kept {}

impl Slots for Kept {
    type Directory<'p> = config::Level<'p>;
    type Server<'p> = config::Site<'p>;
    type Connection<'p> = visitor::Visitor;
    type Request<'p> = trip::Trip<'p>;
}

static DIRECTIVES: Table<{ directives::ROWS.len() + 1 }> = Table::new(&directives::ROWS);

/// The one symbol that is exported. Its name is what `<IfModule>` compares with.
#[unsafe(no_mangle)]
#[allow(
    non_upper_case_globals,
    reason = "LoadModule's first word is the symbol's name"
)]
pub static limitipconn_module: Module<Kept> = Module::new(
    c"mod_limitipconn.c",
    DIRECTIVES.as_ptr(),
    Callbacks {
        create_directory: vectors::create_directory,
        merge_directory: vectors::merge_directory,
        create_server: vectors::create_server,
        merge_server: vectors::merge_server,
        register_hooks: hooks::register,
    },
);

/// The record under the name that the rest of the module uses.
static MODULE: &Module<Kept> = &limitipconn_module;
