//! Selections by name. A misspelt name is an error that lists the known ones. Otherwise nothing
//! would run, and that would look like success.

use crate::bench::Result;

/// Returns whether `name` is selected. An empty selection is all.
pub fn wants(wanted: &[String], name: &str) -> bool {
    wanted.is_empty() || wanted.iter().any(|one| one == name)
}

/// Checks that all selected names are known. `kind` says what `known` names.
///
/// # Errors
/// The first unknown name, which may be empty, with the known ones.
pub fn check(kind: &str, wanted: &[String], known: &[&str]) -> Result<()> {
    match wanted.iter().find(|name| !known.contains(&name.as_str())) {
        Some(name) => Err(format!("no {kind} {name:?}; there are {}", known.join(", ")).into()),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_names_are_told_with_the_known_ones() {
        let check = |wanted: &[&str]| {
            let wanted: Vec<String> = wanted.iter().map(|&name| name.to_owned()).collect();
            check("fruit", &wanted, &["apple", "pear"]).map_err(|error| error.to_string())
        };
        assert_eq!((check(&[]), check(&["pear", "apple"])), (Ok(()), Ok(())));
        for wrong in ["aple", "Apple", ""] {
            let expected = format!("no fruit {wrong:?}; there are apple, pear");
            assert_eq!(check(&["apple", wrong]), Err(expected));
        }
    }

    #[test]
    fn no_names_are_all() {
        assert!(wants(&[], "a") && wants(&["a".to_owned()], "a") && !wants(&["a".to_owned()], "b"));
    }
}
