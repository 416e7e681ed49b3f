//! Plans for one Redis behind many servers: how many commands a second they ask of it, and what a
//! client can hold once it cannot keep up. The table of docs/several-servers.md is what this
//! prints: `cargo run --example fleet_plan`
//!
//! A simulation in steps of a millisecond. Each server has its requests spread at random; each
//! request asks two commands of one queue. What would wait longer than the time limit goes
//! unanswered; its server then counts alone, and asks again when a probe gets through.

/// Scripts and removals that one Redis does in a second, by a careful guess: measure your own.
const CAPACITY: f64 = 50_000.0;
/// `timeout=`, in milliseconds.
const TIMEOUT: f64 = 20.0;
/// The breaker's first pause and its longest, in milliseconds.
const PAUSES: (u32, u32) = (100, 1000);
/// A place taken, a place given back.
const COMMANDS: f64 = 2.0;
/// Ten seconds each.
const STEPS: u32 = 10_000;

/// Servers, and requests a second on each.
const CASES: [(u32, f64); 11] = [
    (2, 100.0),
    (2, 1_000.0),
    (2, 5_000.0),
    (10, 100.0),
    (10, 1_000.0),
    (10, 2_400.0),
    (10, 5_000.0),
    (100, 100.0),
    (100, 240.0),
    (100, 500.0),
    (100, 1_000.0),
];

/// One server's part.
#[derive(Clone, Default)]
struct Server {
    /// Since when it counts alone, and when it probes next.
    down: Option<(u32, u32)>,
}

/// What came of a case.
struct Outcome {
    answered: f64,
    holds: f64,
}

/// Numbers that look random and are the same each time (Marsaglia's xorshift).
struct Dice(u64);

impl Dice {
    fn share(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A number of arrivals with this mean: whole, and one more with the rest's chance.
    fn arrivals(&mut self, mean: f64) -> f64 {
        mean.floor() + f64::from(u8::from(self.share() < mean.fract()))
    }
}

fn simulate(servers: u32, rate: f64) -> Outcome {
    let mut dice = Dice(0x9E37_79B9_7F4A_7C15);
    let mut all = vec![Server::default(); servers as usize];
    let (mut queue, mut asked, mut answered, mut holds) = (0.0f64, 0.0, 0.0, 0.0);
    for now in 0..STEPS {
        let mut alone = 0u32;
        for server in &mut all {
            let requests = dice.arrivals(rate / 1000.0);
            asked += requests;
            let is_late = queue / CAPACITY * 1000.0 > TIMEOUT;
            match server.down {
                None if requests > 0.0 && is_late => {
                    queue += requests * COMMANDS;
                    server.down = Some((now, now + PAUSES.0));
                }
                None => {
                    queue += requests * COMMANDS;
                    answered += requests;
                }
                Some((since, probe)) if now >= probe => {
                    queue += 1.0;
                    let pause = (now - since).clamp(PAUSES.0, PAUSES.1);
                    server.down = is_late.then_some((since, now + pause));
                }
                Some(_) => {}
            }
            alone += u32::from(server.down.is_some());
        }
        queue = (queue - CAPACITY / 1000.0).max(0.0);
        // Those that count together hold one limit, each that counts alone holds one more.
        holds += f64::from(alone) + f64::from(u8::from(alone < servers));
    }
    Outcome {
        answered: answered / asked,
        holds: holds / f64::from(STEPS),
    }
}

/// The table, in Markdown.
pub fn table() -> String {
    let mut text = String::from(
        "| servers | requests/s on each | commands/s | of one Redis | answered | a client holds, in limits |\n\
         |---|---|---|---|---|---|\n",
    );
    for (servers, rate) in CASES {
        let wanted = f64::from(servers) * rate * COMMANDS;
        let Outcome { answered, holds } = simulate(servers, rate);
        text += &format!(
            "| {servers} | {rate} | {wanted} | {:.0} % | {:.0} % | {holds:.1} |\n",
            wanted / CAPACITY * 100.0,
            (answered * 100.0).floor()
        );
    }
    text
}

#[allow(
    dead_code,
    reason = "a test compares the table with the one of the manual"
)]
fn main() {
    print!("{}", table());
}
