//! The harness itself, against an httpd without our module: what the other tests rely on.

mod support;

use support::{Gate, Httpd, Mpm, Process, at_once, on_every_mpm, wait_until};

on_every_mpm!(
    server_serves_files_and_scripts,
    held_script_is_in_flight_until_it_is_let_go,
    slow_reader_is_in_flight_and_its_child_is_found,
    restarts_return_when_the_new_generation_serves,
    scripts_end_with_their_server,
);

fn server_serves_files_and_scripts(mpm: Mpm) {
    let httpd = Httpd::on(mpm).without_module().start();
    let client = httpd.client("127.0.0.2");
    assert_eq!(client.get("/hoge/small.txt").text(), "ok\n");
    assert_eq!(client.get("/fuga/hello.cgi").text(), "hello\n");
    let mut connection = client.connect();
    assert_eq!(connection.get("/").text(), "root\n");
    assert_eq!(connection.get("/nothing").status, 404);
    assert_eq!(connection.get("/hoge/hello.cgi").text(), "hello\n");
}

fn held_script_is_in_flight_until_it_is_let_go(mpm: Mpm) {
    let httpd = Httpd::on(mpm).without_module().start();
    let held: Vec<_> = at_once(12, |_| httpd.client("127.0.0.2").hold("/hoge/hold.cgi"));
    for request in held {
        assert_eq!(request.finish().text(), "ended\n");
    }
}

fn slow_reader_is_in_flight_and_its_child_is_found(mpm: Mpm) {
    let httpd = Httpd::on(mpm)
        .without_module()
        .big_file("big.bin", 20 << 20)
        .start();
    let mut reader = httpd.client("127.0.0.2").read_slowly("/big.bin");
    let child = httpd.child_serving(reader.connection().local());
    assert!(httpd.children().contains(&child));
    assert_eq!(reader.finish().body.len(), 20 << 20);
}

fn restarts_return_when_the_new_generation_serves(mpm: Mpm) {
    let httpd = Httpd::on(mpm).without_module().start();
    for _ in 0..3 {
        httpd.graceful();
        assert_eq!(httpd.client("127.0.0.2").status("/hoge/small.txt"), 200);
        httpd.hard_restart();
        assert_eq!(httpd.client("127.0.0.2").status("/hoge/small.txt"), 200);
    }
}

fn scripts_end_with_their_server(mpm: Mpm) {
    let mut httpd = Httpd::on(mpm).without_module().start();
    let _held = httpd.client("127.0.0.2").hold("/hoge/hold.cgi");
    let session = httpd.parent().0;
    httpd.stop().expect("nothing outlives the server");
    assert_eq!(Process::in_session(session), []);
}

#[test]
fn the_directory_is_gone_after_the_test() {
    let httpd = Httpd::on(Mpm::Event).without_module().start();
    let (dir, parent) = (httpd.dir().to_owned(), httpd.parent());
    drop(httpd);
    assert!(!dir.exists() && !parent.is_alive());
}

#[test]
#[should_panic(expected = "unexpected in error_log")]
fn unexpected_line_in_the_error_log_fails_a_test() {
    let httpd = Httpd::on(Mpm::Event).without_module().start();
    // AH10244: invalid URI path.
    assert_eq!(httpd.client("127.0.0.2").status("/../"), 400);
}

#[test]
fn alarms_must_be_expected_by_their_name() {
    let httpd = Httpd::on(Mpm::Prefork)
        .without_module()
        .expect_log("AH00051")
        .expect_log("exit signal")
        .start();
    let victim = httpd.children()[0];
    victim.signal(libc::SIGKILL);
    wait_until(support::DEADLINE, || {
        if victim.is_alive() {
            Err("alive")
        } else {
            Ok(())
        }
    });
}

#[test]
fn refusal_to_start_is_a_value() {
    let refused = Httpd::on(Mpm::Event)
        .without_module()
        .conf("Nonsense On")
        .try_start();
    let said = refused.err().expect("httpd must not start");
    assert!(said.contains("Invalid command 'Nonsense'"), "{said}");
    let test = Httpd::on(Mpm::Worker)
        .without_module()
        .conf("Nonsense On")
        .configtest();
    assert_eq!(test.code, 1);
    assert!(
        test.stderr.contains("Invalid command 'Nonsense'"),
        "{test:?}"
    );
}

#[test]
fn gate_without_a_name_in_the_query_is_open() {
    let httpd = Httpd::on(Mpm::Prefork).without_module().start();
    assert_eq!(
        httpd.client("127.0.0.2").get("/hoge/hold.cgi").text(),
        "started\nended\n"
    );
    let gate: Gate = httpd.gate("mine");
    let waiting = std::thread::scope(|scope| {
        let client = httpd.client("127.0.0.2");
        let thread = scope.spawn(move || client.get("/hoge/hold.cgi?mine").text());
        wait_until(support::DEADLINE, || {
            let scripts = Process::in_session(httpd.parent().0).len();
            if scripts > httpd.children().len() + 1 {
                Ok(())
            } else {
                Err("no script yet")
            }
        });
        drop(gate);
        thread.join().expect("the client's thread")
    });
    assert_eq!(waiting, "started\nended\n");
}
