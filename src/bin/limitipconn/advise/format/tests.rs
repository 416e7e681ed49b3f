//! LogFormats as tables: what is taken, and what is said of the others.

use proptest::prelude::*;

use super::*;

#[test]
fn formats_of_httpd_are_taken() {
    for (given, duration, fraction) in [
        ("common", false, false),
        ("combined", false, false),
        ("vhost_combined", false, false),
        ("combined %D", true, false),
        ("combined %D %{usec_frac}t", true, true),
        ("%h %l %u %t \\\"%r\\\" %>s %b %D", true, false),
        ("%a %t %{ms}T", true, false),
        ("%{c}a %{sec}t %T", true, false),
        ("%{msec}t %h %{us}T", true, true),
        ("%h %{usec}t", false, true),
        ("%h [%{%d/%b/%Y:%T}t.%{msec_frac}t %{%z}t]", false, true),
        ("%h %{begin:usec}t %{end:usec}t", true, true),
        ("%h %{end:%F %T}t %D", true, false),
        ("%h %{end}t", false, false),
        ("%{X-Forwarded-For}i %t", false, false),
        (
            "%v:%p %h %^FB %{SSL_PROTOCOL}x %{c}h %t %!200,304{Referer}i %400{x}o %^ti",
            false,
            false,
        ),
        ("%h\\t%t\\t%U", false, false),
        ("%h %t 100%%", false, false),
        ("%h %t %m %U%q %H %D", true, false),
        ("%h %{%F}t %{%T}t", false, false),
        ("LogFormat \"%h %t %D\" timed", true, false),
    ] {
        let format = Format::parse(given).unwrap_or_else(|error| panic!("{given}: {error}"));
        assert_eq!(
            (format.has_duration, format.has_fraction),
            (duration, fraction),
            "{given}"
        );
    }
}

#[test]
fn what_is_wrong_is_quoted_with_what_works() {
    for (given, helps) in [
        (
            "",
            "is no LogFormat; use what stands in httpd's configuration",
        ),
        ("combind", "\"combind\" is no LogFormat"),
        (
            "%h %t %Y",
            "\"%Y\" is no directive of LogFormat that is known here; those of mod_log_config",
        ),
        (
            "%h %t %>",
            "\"%>\" ends before its letter; use for example %h",
        ),
        (
            "%h %t %{Referer",
            "\"%{Referer\" has no closing brace; use for example %{Referer}i",
        ),
        ("%h %t %{m}T", "\"%{m}T\" has an unknown unit; use %{us}T"),
        (
            "%h %{%j}t",
            "\"%{%j}t\" has %j, which cannot be read back; %Y",
        ),
        ("%h %t %^XX", "\"%^XX\" is no directive"),
        ("%h %D", "does not tell date and time; use one with %t"),
        ("%h %{usec_frac}t", "does not tell date and time"),
        ("%h %{%T}t", "does not tell date and time"),
        ("%t %D", "does not tell the client; use one with %h or %a"),
        ("%h %{%F %R}t", "has a time without seconds; use %t, or %T"),
        (
            "%h %{%F %R}t %{usec_frac}t %D",
            "has a time without seconds",
        ),
        ("%h %t %{end:%F %R}t", "has a time without seconds"),
        ("%h%l %t", "nothing between its 1st and its 2nd field"),
        ("%t %h %l %u%v", "nothing between its 4th and its 5th field"),
    ] {
        let error = Format::parse(given).unwrap_err();
        assert!(error.contains(helps), "{given}: {error}");
    }
}

#[test]
fn only_what_is_of_use_is_looked_at() {
    for (given, front, tail, steps) in [
        ("combined", 5, 9, 9),
        ("combined %D", 5, 9, 10),
        ("combined %D %{usec_frac}t", 5, 9, 11),
        ("combined %O", 5, 10, 10),
        ("%h %t %D", 3, 3, 3),
        ("%h %D %t", 3, 3, 3),
        ("%h %t %{x}i %D%{usec_frac}t", 5, 5, 5),
    ] {
        let format = Format::parse(given).unwrap();
        assert_eq!(
            (format.front, format.tail, format.steps.len()),
            (front, tail, steps),
            "{given}"
        );
    }
}

proptest! {
    #[test]
    fn nothing_panics(given in "(%[<>!^]?([0-9]{3},?){0,2}(\\{[a-zA-Z_:%]{0,12}\\})?[a-zA-Z%]|[ -~]){0,12}") {
        let _ = Format::parse(&given);
        let _ = Format::parse(&format!("%h %t {given}"));
    }
}
