//! What `httpd -t -D DUMP_IPLIMIT` prints: the rules in effect, where each is written
//! and what it inherits.
//!
//! One thing a line, and each line begins with a word that tells what it is; what is
//! about a line stands below it, two blanks further in. Text of the configuration is
//! shown in printable ASCII.

use std::fmt::{self, Display, Write};

use super::printable::on_one_line;

/// A line of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Spot {
    /// The file, as httpd names it.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
}

/// A directive as it was written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Written {
    /// Its name, as the manual writes it.
    pub name: &'static str,
    /// What follows the name.
    pub arguments: String,
    /// Where it stands.
    pub spot: Spot,
}

/// One thing that a rule counts by, and who says so.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Choice {
    /// Option and value, `scope=location`.
    pub text: String,
    /// The `IPLimitDefaults` that says it; None where the rule itself or nobody does.
    pub from: Option<Spot>,
}

/// A rule and what it means in one place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rule {
    /// `MaxConnPerIP@/hoge`
    pub name: String,
    /// Its number, or `off`.
    pub number: String,
    /// What it counts; empty for `off`.
    pub choices: Vec<Choice>,
    /// Where it stands.
    pub spot: Spot,
}

/// Something of another place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Foreign {
    /// A rule's name with its number, or a directive as it was written.
    pub what: String,
    /// Where it stands.
    pub spot: Spot,
}

/// What has become of a rule or setting in a section.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fate {
    /// It is the section's own, and takes the place of these.
    Own(Vec<Foreign>),
    /// It is the section's own, but this one is merged later and takes its place.
    Lost(Foreign),
    /// It comes from another section.
    Inherited,
}

/// A section, and what holds in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Section {
    /// `/hoge`
    pub name: String,
    /// Where it begins.
    pub spot: Spot,
    /// What stands in it, and whether a later line of it takes the place of this one.
    pub says: Vec<(Written, bool)>,
    /// The rules.
    pub rules: Vec<(Rule, Fate)>,
    /// Settings of others that hold here.
    pub inherits: Vec<Foreign>,
    /// Settings of others that do not, because the section has its own.
    pub overrides: Vec<Foreign>,
}

/// The main server or a virtual host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Server {
    /// `name:port`
    pub label: String,
    /// Where its `<VirtualHost>` begins; None for the main server.
    pub spot: Option<Spot>,
    /// The rules outside sections, and whether each is the main server's.
    pub rules: Vec<(Rule, bool)>,
    /// What else stands outside sections, and whether it stands in the main server.
    pub settings: Vec<(Written, bool)>,
    /// Its own sections.
    pub sections: Vec<Section>,
    /// The main server's sections as they are here; none for the main server.
    pub main_sections: Vec<Section>,
}

/// The whole text, for these servers: the main server first.
pub fn text(servers: &[Server]) -> String {
    let mut text = String::from("mod_limitipconn: the rules in effect\n");
    let limits = |section: &Section| !section.rules.is_empty();
    if !servers
        .iter()
        .any(|server| !server.rules.is_empty() || server.sections.iter().any(limits))
    {
        text.push_str("no rule in the configuration files\n");
    }
    let main = servers.first().map_or(&[][..], |main| &main.sections);
    for server in servers {
        // Writing to a String does not fail.
        let _ = write_server(&mut text, server, main);
    }
    text.push_str(
        "\nWhich sections of other kinds meet in one request (patterns, Directory under Location, Files, If) \
         is not known before it comes.\n.htaccess files are not read here.\n",
    );
    text
}

fn write_server(text: &mut String, server: &Server, main: &[Section]) -> fmt::Result {
    match &server.spot {
        None => writeln!(text, "\nmain server {}", on_one_line(&server.label))?,
        Some(spot) => writeln!(text, "\nvirtual host {} {spot}", on_one_line(&server.label))?,
    }
    let origin = |inherited: bool| match inherited {
        true => ", inherited from the main server",
        false => "",
    };
    for (rule, inherited) in &server.rules {
        writeln!(text, "  rule {rule}{}", origin(*inherited))?;
        write_reasons(text, "    ", rule)?;
    }
    for (setting, inherited) in &server.settings {
        writeln!(text, "  setting {setting}{}", origin(*inherited))?;
    }
    if server.rules.is_empty() {
        text.push_str("  no rule outside sections\n");
    }
    let capped: Vec<String> = server
        .rules
        .iter()
        .filter(|(rule, _)| !rule.choices.is_empty())
        .map(|(rule, _)| on_one_line(&rule.name))
        .collect();
    for section in &server.sections {
        writeln!(text, "  section {section}")?;
        for (line, superseded) in &section.says {
            let end = match superseded {
                true => ", whose place a later line takes",
                false => "",
            };
            writeln!(text, "    says {line}{end}")?;
        }
        write_effect(text, section)?;
        if !capped.is_empty() {
            writeln!(
                text,
                "    and the rules outside sections: {}",
                capped.join(", ")
            )?;
        }
    }
    for section in &server.main_sections {
        write!(text, "  section {section} of the main server")?;
        if main.contains(section) {
            text.push_str(", as there\n");
        } else {
            text.push('\n');
            write_effect(text, section)?;
        }
    }
    Ok(())
}

fn write_effect(text: &mut String, section: &Section) -> fmt::Result {
    for (rule, fate) in &section.rules {
        match fate {
            Fate::Own(instead_of) => {
                writeln!(text, "    rule {rule}")?;
                write_reasons(text, "      ", rule)?;
                for other in instead_of {
                    writeln!(text, "      overrides {other}")?;
                }
            }
            Fate::Lost(to) => {
                writeln!(text, "    rule {rule} is not in effect")?;
                writeln!(text, "      overridden by {to}, which is merged later")?;
            }
            Fate::Inherited => {
                writeln!(text, "    inherits rule {rule}")?;
                write_reasons(text, "      ", rule)?;
            }
        }
    }
    for setting in &section.inherits {
        writeln!(text, "    inherits {setting}")?;
    }
    for setting in &section.overrides {
        writeln!(text, "    overrides {setting}")?;
    }
    Ok(())
}

/// Who says what the rule does not say itself.
fn write_reasons(text: &mut String, indent: &str, rule: &Rule) -> fmt::Result {
    for choice in &rule.choices {
        if let Some(from) = &choice.from {
            writeln!(text, "{indent}{} by IPLimitDefaults {from}", choice.text)?;
        }
    }
    Ok(())
}

impl Display for Spot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({}:{})", on_one_line(&self.file), self.line)
    }
}

impl Display for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {} {}",
            self.name,
            on_one_line(&self.arguments),
            self.spot
        )
    }
}

impl Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, number) = (on_one_line(&self.name), on_one_line(&self.number));
        write!(f, "{name}: {number}")?;
        for choice in &self.choices {
            write!(f, " {}", choice.text)?;
        }
        write!(f, " {}", self.spot)
    }
}

impl Display for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", on_one_line(&self.name), self.spot)
    }
}

impl Display for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", on_one_line(&self.what), self.spot)
    }
}

#[cfg(test)]
mod tests;
