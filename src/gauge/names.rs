//! Keys and counts as people write them.

use crate::limit::address::{Address, Prefix};
use crate::report::printable::encoded;
use crate::store::{KeyName, RuleRecord};

/// A key as people write it: an address, the network that one is, or a text.
pub fn key(name: &KeyName, prefix: Prefix) -> String {
    match name {
        KeyName::Client(address) => client(*address, prefix),
        KeyName::Network(address, length) => network(*address, *length),
        KeyName::Text(bytes, is_cut) => {
            let end = if *is_cut { "..." } else { "" };
            encoded(bytes) + end
        }
        KeyName::Hidden(digest) => format!("digest:{digest:016x}"),
    }
}

/// A client's key: an address, or the network that it stands for.
pub fn client(address: Address, prefix: Prefix) -> String {
    match address.is_v4() {
        true => network(address, prefix.v4),
        false => network(address, prefix.v6),
    }
}

/// What the record of a count is called, and on which virtual host; `?` where it has none.
pub fn of_record(record: Option<&RuleRecord>) -> (String, Option<String>) {
    match record {
        Some(record) => (record.name.clone(), record.vhost.clone()),
        None => (String::from("?"), None),
    }
}

/// A network; one of a whole address is the address.
fn network(address: Address, length: u8) -> String {
    let whole = if address.is_v4() { 32 } else { 128 };
    match length == whole {
        true => address.to_string(),
        false => format!("{address}/{length}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_written_as_people_write_them() {
        let v4 = Address::from_v4([127, 0, 0, 2]);
        let v6 = Address::from_v6([0x20, 1, 0xd, 0xb8, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
        for (name, written) in [
            (KeyName::Client(v4), "127.0.0.2"),
            (KeyName::Client(v6), "2001:db8:0:1::/64"),
            (KeyName::Network(v4, 16), "127.0.0.2/16"),
            (KeyName::Network(v6, 128), "2001:db8:0:1::"),
            (KeyName::Text(b"a b".to_vec(), false), "a b"),
            (KeyName::Text(b"a%\n\xff".to_vec(), true), "a%25%0A%FF..."),
            (KeyName::Hidden(0xab), "digest:00000000000000ab"),
        ] {
            assert_eq!(key(&name, Prefix::default()), written);
        }
    }
}
