//! A real browser, Chromium without a window, driven through WebDriver (W3C) as chromedriver
//! speaks it: JSON over HTTP.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;
use std::{env, fs};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use super::{Httpd, Response, temporary_dir};

/// What Chromium is started with: it talks to nobody but the page's server.
const FLAGS: [&str; 9] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
];

/// A browser with one tab. Dropped, it ends.
pub struct Browser {
    driver: Child,
    /// What it says after its port, which is little, stays in the pipe.
    _said: BufReader<ChildStdout>,
    port: u16,
    session: String,
    profile: PathBuf,
}

impl Browser {
    /// Starts one.
    #[track_caller]
    pub fn start() -> Browser {
        let profile = temporary_dir("browser-");
        let mut command = Command::new("chromedriver");
        command
            .arg("--port=0")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        // A test that dies by a signal cannot drop its guard; the kernel then stops the driver.
        // SAFETY: between fork and exec only prctl runs, a system call that takes numbers.
        unsafe {
            command.pre_exec(
                || match libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM) {
                    0 => Ok(()),
                    _ => Err(std::io::Error::last_os_error()),
                },
            );
        }
        let mut driver = command
            .spawn()
            .unwrap_or_else(|e| panic!("cannot run chromedriver: {e}; install chromium-driver"));
        let mut said = BufReader::new(driver.stdout.take().expect("a pipe"));
        let port = port_of(&mut said);
        let mut browser = Browser {
            driver,
            _said: said,
            port,
            session: String::new(),
            profile,
        };
        let profile = format!("--user-data-dir={}", browser.profile.display());
        let flags: Vec<&str> = FLAGS.into_iter().chain([profile.as_str()]).collect();
        let wanted = json!({ "capabilities": { "alwaysMatch": {
            "browserName": "chrome",
            "goog:chromeOptions": { "args": flags },
            "goog:loggingPrefs": { "browser": "ALL" },
        } } });
        let made = browser.ask("POST", "/session", &wanted);
        browser.session = text(&made["sessionId"]);
        browser
    }

    /// Goes to a page of a server and waits until it is loaded.
    #[track_caller]
    pub fn open(&self, httpd: &Httpd, path: &str) {
        let url = format!("http://127.0.0.1:{}{path}", httpd.port());
        self.post("/url", &json!({ "url": url }));
    }

    /// Runs the body of a function in the page, and returns what it returns.
    #[track_caller]
    pub fn run(&self, script: &str) -> Value {
        self.post("/execute/sync", &json!({ "script": script, "args": [] }))
    }

    /// A command of the DevTools protocol.
    #[track_caller]
    pub fn devtools(&self, command: &str, parameters: Value) -> Value {
        self.post(
            "/goog/cdp/execute",
            &json!({ "cmd": command, "params": parameters }),
        )
    }

    /// Presses and releases a key.
    #[track_caller]
    pub fn press(&self, key: &str) {
        let (down, up) = (
            json!({ "type": "keyDown", "value": key }),
            json!({ "type": "keyUp", "value": key }),
        );
        self.post(
            "/actions",
            &json!({ "actions": [{ "type": "key", "id": "keyboard", "actions": [down, up] }] }),
        );
    }

    /// Makes the window so wide and high, in a page that knows these colours.
    #[track_caller]
    pub fn look(&self, width: u32, height: u32, scheme: &str) {
        self.devtools(
            "Emulation.setDeviceMetricsOverride",
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600 }),
        );
        self.devtools(
            "Emulation.setEmulatedMedia",
            json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] }),
        );
    }

    /// What the console has had since it was asked last: errors, and what the policy of the
    /// page forbade.
    #[track_caller]
    pub fn console(&self) -> Vec<String> {
        let lines = self.post("/se/log", &json!({ "type": "browser" }));
        let lines = lines.as_array().expect("lines of the console");
        lines.iter().map(|line| text(&line["message"])).collect()
    }

    /// With `LIMITIPCONN_SHOTS=DIRECTORY` keeps a picture of the whole page for a look.
    pub fn picture(&self, name: &str) {
        let Some(directory) = env::var_os("LIMITIPCONN_SHOTS") else {
            return;
        };
        let picture = self.devtools(
            "Page.captureScreenshot",
            json!({ "format": "png", "captureBeyondViewport": true }),
        );
        let picture = BASE64_STANDARD.decode(text(&picture["data"]));
        let file = PathBuf::from(directory).join(format!("{name}.png"));
        fs::write(file, picture.expect("base64")).expect("write a picture");
    }

    #[track_caller]
    fn post(&self, path: &str, body: &Value) -> Value {
        self.ask("POST", &format!("/session/{}{path}", self.session), body)
    }

    /// A command; one that fails is the test's failure.
    #[track_caller]
    fn ask(&self, method: &str, path: &str, body: &Value) -> Value {
        let answer = self
            .try_ask(method, path, body)
            .unwrap_or_else(|e| panic!("{method} {path} of chromedriver: {e}"));
        let mut said: Value = serde_json::from_slice(&answer.body)
            .unwrap_or_else(|e| panic!("{method} {path}: {e}: {}", answer.text()));
        assert_eq!(answer.status, 200, "{method} {path} {body}: {said:#}");
        said["value"].take()
    }

    fn try_ask(&self, method: &str, path: &str, body: &Value) -> std::io::Result<Response> {
        let stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(Duration::from_secs(120)))?;
        let body = if method == "DELETE" {
            String::new()
        } else {
            body.to_string()
        };
        let mut reader = BufReader::new(stream);
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nContent-Type: application/json\r\n\
             Connection: close\r\nContent-Length: {}\r\n\r\n",
            self.port,
            body.len()
        );
        reader.get_mut().write_all((head + &body).as_bytes())?;
        let mut answer = Response::read_head(&mut reader)?;
        answer.read_body(&mut reader)?;
        Ok(answer)
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Ends the browser; then the driver has none.
        let path = format!("/session/{}", self.session);
        let _ = self.try_ask("DELETE", &path, &Value::Null);
        let _ = self.driver.kill();
        let _ = self.driver.wait();
        let _ = fs::remove_dir_all(&self.profile);
    }
}

/// The port that chromedriver says it listens at.
fn port_of(said: &mut impl BufRead) -> u16 {
    let mut lines = said.lines().map_while(Result::ok);
    let port = lines.find_map(|line| {
        let (_, rest) = line.split_once("successfully on port ")?;
        rest.trim_end_matches('.').parse().ok()
    });
    port.expect("chromedriver says at which port it listens")
}

fn text(value: &Value) -> String {
    value
        .as_str()
        .unwrap_or_else(|| panic!("no text: {value}"))
        .to_owned()
}
