//! Reads Rust sources as far as paths go: words without comments and literals,
//! then every path, `use` lists spread out and `super` resolved.

/// A word, `::` or a single sign, and its line.
pub type Token<'a> = (&'a str, usize);

/// Words, `::` and single signs with their lines; no comments, no literals.
pub fn tokens(text: &str) -> Vec<Token<'_>> {
    let bytes = text.as_bytes();
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80;
    let (mut tokens, mut line, mut at) = (Vec::new(), 1, 0);
    while at < bytes.len() {
        let start = at;
        let rest = &text[at..];
        if rest.starts_with("//") {
            at += rest.find('\n').unwrap_or(rest.len());
        } else if rest.starts_with("/*") {
            at += block_comment(rest);
        } else if let Some(length) = literal(rest) {
            at += length;
        } else if word(bytes[at]) {
            at += rest.bytes().take_while(|byte| word(*byte)).count();
            tokens.push((&text[start..at], line));
        } else {
            at += if rest.starts_with("::") { 2 } else { 1 };
            if !bytes[start].is_ascii_whitespace() {
                tokens.push((&text[start..at], line));
            }
        }
        line += text[start..at].matches('\n').count();
    }
    tokens
}

/// Length of the (nested) comment that `rest` begins with.
fn block_comment(rest: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        match &rest.as_bytes()[at..rest.len().min(at + 2)] {
            b"/*" => (depth, at) = (depth + 1, at + 2),
            b"*/" => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

/// Length of the string or character that `rest` begins with; none for a lifetime.
fn literal(rest: &str) -> Option<usize> {
    let body = rest.trim_start_matches(['b', 'c']);
    let prefix = rest.len() - body.len();
    if let Some(raw) = body.strip_prefix('r').filter(|_| prefix <= 1) {
        let hashes = raw.len() - raw.trim_start_matches('#').len();
        let content = raw[hashes..].strip_prefix('"')?;
        let end = format!("\"{}", "#".repeat(hashes));
        return Some(prefix + 1 + hashes + 1 + content.find(&end)? + end.len());
    }
    let quote = body
        .chars()
        .next()
        .filter(|quote| prefix <= 1 && matches!(quote, '"' | '\''))?;
    let mut signs = body.char_indices().skip(1);
    while let Some((at, sign)) = signs.next() {
        match sign {
            '\\' => drop(signs.next()),
            _ if sign == quote => return Some(prefix + at + 1),
            // 'a and no quote after it: a lifetime.
            _ if quote == '\'' && !body[at + sign.len_utf8()..].starts_with('\'') => return None,
            _ => {}
        }
    }
    None
}

/// Every path of two and more parts as written from the root (`crate::…`) or from
/// another crate, with `use` lists spread out.
pub fn paths(tokens: &[Token], module: &[&str]) -> Vec<(Vec<String>, usize)> {
    let mut found = Vec::new();
    // The inline modules around this place; "" for any other brace.
    let mut braces: Vec<&str> = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let (token, line) = tokens[at];
        let next = tokens.get(at + 1).map_or("", |next| next.0);
        let before = at.checked_sub(1).map_or("", |before| tokens[before].0);
        if token == "{" {
            let inline = at >= 2 && tokens[at - 2].0 == "mod";
            braces.push(if inline { before } else { "" });
        } else if token == "}" {
            braces.pop();
        } else if is_word(token) && next == "::" || (token == "crate" && next == "as") {
            let mut spread = Vec::new();
            at = tree(tokens, at, &mut Vec::new(), &mut spread);
            let here = module
                .iter()
                .chain(braces.iter().filter(|name| !name.is_empty()));
            let here: Vec<String> = here.map(|name| name.to_string()).collect();
            found.extend(spread.into_iter().map(|path| (rooted(path, &here), line)));
            continue;
        }
        at += 1;
    }
    found
}

fn is_word(token: &str) -> bool {
    token.starts_with(|sign: char| sign == '_' || sign.is_alphanumeric())
}

/// Reads one use tree from `at` and returns where it ends.
fn tree(
    tokens: &[Token],
    mut at: usize,
    path: &mut Vec<String>,
    out: &mut Vec<Vec<String>>,
) -> usize {
    let depth = path.len();
    loop {
        let token = tokens.get(at).map_or("", |token| token.0);
        if token == "{" {
            at += 1;
            while !matches!(tokens.get(at).map_or("}", |token| token.0), "}") {
                at = tree(tokens, at, path, out).max(at + 1);
                // `as name` and the comma.
                while !matches!(tokens.get(at).map_or("}", |token| token.0), "," | "}") {
                    at += 1;
                }
                at += usize::from(tokens.get(at).is_some_and(|token| token.0 == ","));
            }
            at += 1;
            break;
        }
        let part = token == "*" || is_word(token);
        if part {
            path.push(token.to_string());
            at += 1;
        }
        if !part || tokens.get(at).is_none_or(|token| token.0 != "::") {
            out.push(path.clone());
            break;
        }
        at += 1;
    }
    path.truncate(depth);
    at
}

/// The path with `super` and `self` resolved; a name of another crate stays.
fn rooted(path: Vec<String>, here: &[String]) -> Vec<String> {
    let ups = path
        .iter()
        .take_while(|part| matches!(part.as_str(), "super" | "self"))
        .count();
    let supers = path[..ups].iter().filter(|part| *part == "super").count();
    let (start, rest) = match path[0].as_str() {
        "self" | "super" => (
            here[..here.len().saturating_sub(supers)].to_vec(),
            &path[ups..],
        ),
        // A command is a crate of its own beside the library.
        "crate" if here[0] == "bin" => (here[..1].to_vec(), &path[1..]),
        "crate" | "mod_limitipconn" => (Vec::new(), &path[1..]),
        _ => return path,
    };
    ["crate".to_string()]
        .into_iter()
        .chain(start)
        .chain(rest.iter().cloned())
        .collect()
}
