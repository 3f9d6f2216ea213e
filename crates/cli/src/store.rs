//! Opens a store by its URL. Which kinds there are is the facade's; here is what a person reads of an address
//! that cannot be used, and that a verb which only looks makes no queue.

use std::sync::Arc;

use runcue::{Address, AddressError, Kind};
use runcue_store::Store;

use crate::nearest;
use crate::trouble::Trouble;

/// Whether a store may be made by opening it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It must be there: a verb that only looks makes no queue by accident.
    Existing,
    /// It is made if need be.
    Create,
}

/// Reads a URL, or a bare path.
pub fn address(url: &str) -> Result<Address, Trouble> {
    Address::parse(url).map_err(|error| match error {
        AddressError::Unknown { scheme } => unknown(&scheme),
        AddressError::NotBuilt { scheme, feature } => Trouble::failed(format!(
            "{scheme}: stores are not part of this build"
        ))
        .help(format!(
            "build it with `cargo install runcue-cli --features {feature}`, or use a SQLite file: \
                 --store sqlite:queue.db"
        )),
        AddressError::Store(error) => Trouble::usage(error.to_string())
            .help("for example sqlite:.runcue/queue.db, with ?durability=full if need be"),
    })
}

/// Opens a store.
pub fn open(address: &Address, access: Access) -> Result<Arc<dyn Store>, Trouble> {
    if access == Access::Existing && !address.exists() {
        let place = address.path().map(|path| path.display().to_string()).unwrap_or_default();
        let help = "`runcue add -- COMMAND` makes one here; --store names one elsewhere";
        return Err(Trouble::failed(format!("there is no queue at {place}")).help(help));
    }
    Ok(address.open()?)
}

fn unknown(scheme: &str) -> Trouble {
    let known = Kind::ALL.into_iter().flat_map(Kind::schemes).copied();
    let near = nearest::nearest(scheme, known);
    let near = near.map(|word| format!("did you mean {word}:? ")).unwrap_or_default();
    let kinds: Vec<String> = Kind::built().map(|kind| format!("{}:", kind.schemes()[0])).collect();
    Trouble::usage(format!("{scheme}: is no kind of store"))
        .help(format!("{near}The kinds are {}, or a bare path", kinds.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_opened_says_so_and_names_what_can() {
        let told = |url| match address(url).unwrap_err() {
            Trouble::Told { says, help, .. } => format!("{says}; {}", help.unwrap()),
            Trouble::ReaderGone => unreachable!("nothing was written"),
        };
        for kind in Kind::ALL.into_iter().filter(|kind| !kind.is_built()) {
            let told = told(kind.example());
            assert!(told.contains("not part of this build"), "{told}");
            assert!(told.contains(&format!("--features {}", kind.schemes()[0])), "{told}");
        }
        assert!(told("mysql://db").contains("sqlite:, "));
        assert!(told("sqlit:x").contains("did you mean sqlite:?"));
        assert!(told("sqlite:").contains("path is missing"));
        assert!(told("sqlite:x?mode=ro").contains("durability=full"));
    }
}
