//! Draws mutations with a seed from everything that the scanner finds.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::Path;

use super::area::{AREAS, Area, is_left_out};
use super::copy;
use super::mutation::{Kind, Mutation};
use super::scan;
use crate::bench::Result;
use crate::random::Random;
use xtask::quoted::Language;

/// Returns all candidates, by file and place.
///
/// # Errors
/// A file cannot be read.
pub fn candidates(repository: &Path) -> Result<Vec<Mutation>> {
    let mut found = Vec::new();
    for file in copy::files(repository)? {
        let Some(language) = Language::of(&file) else { continue };
        if is_left_out(&file) || !AREAS.iter().any(|area| area.has(&file)) {
            continue;
        }
        let text = std::fs::read_to_string(repository.join(&file))
            .map_err(|error| format!("{file}: {error}"))?;
        found.extend(scan::scan(&file, &text, language));
    }
    Ok(found)
}

/// Returns the candidates for each of `count` places, in order. Later candidates of a place are for
/// the case that earlier ones cannot be used. The areas take turns at the places.
pub fn orders(candidates: &[Mutation], seed: u64, count: usize) -> Vec<Vec<Mutation>> {
    let mut orders = vec![Vec::new(); count];
    for (number, area) in AREAS.iter().enumerate() {
        let places: Vec<usize> = (number..count).step_by(AREAS.len()).collect();
        let mut random =
            Random::new(seed.wrapping_mul(AREAS.len() as u64).wrapping_add(number as u64));
        if places.is_empty() {
            continue;
        }
        let order = area_order(area, candidates, seed, &mut random);
        for (turn, mutation) in order.into_iter().enumerate() {
            orders[places[turn % places.len()]].push(mutation.clone());
        }
    }
    orders
}

/// Orders the candidates of an area. Every other one is from the area's first folder, while any are
/// left. First a kind is drawn, then a candidate of that kind. Otherwise nearly all would be
/// comparisons.
fn area_order<'all>(
    area: &Area,
    candidates: &'all [Mutation],
    seed: u64,
    random: &mut Random,
) -> Vec<&'all Mutation> {
    let of_area = candidates.iter().filter(|mutation| area.has(&mutation.file));
    let (first, others): (Vec<_>, Vec<_>) =
        of_area.partition(|mutation| mutation.file.starts_with(area.folders[0]));
    let mut halves = [by_kind(first, seed), by_kind(others, seed)];
    let mut order = Vec::new();
    while halves.iter().any(|half| !half.is_empty()) {
        for half in &mut halves {
            order.extend(take(half, random));
        }
    }
    order
}

type Kinds<'all> = BTreeMap<Kind, Vec<&'all Mutation>>;

/// Returns the mutations of each kind, those with the smallest numbers last.
fn by_kind(mutations: Vec<&Mutation>, seed: u64) -> Kinds<'_> {
    let mut kinds = Kinds::new();
    for mutation in mutations {
        kinds.entry(mutation.kind).or_default().push(mutation);
    }
    for of_kind in kinds.values_mut() {
        of_kind.sort_by_cached_key(|mutation| Reverse(lot(mutation, seed)));
    }
    kinds
}

fn take<'all>(kinds: &mut Kinds<'all>, random: &mut Random) -> Option<&'all Mutation> {
    let kind = *kinds.keys().nth(random.below(kinds.len())?)?;
    let of_kind = kinds.get_mut(&kind)?;
    let taken = of_kind.pop();
    if of_kind.is_empty() {
        kinds.remove(&kind);
    }
    taken
}

/// Returns a mutation's number in the draw. It depends only on the seed and the changed text, so
/// that the list stays nearly the same while the sources grow elsewhere.
fn lot(mutation: &Mutation, seed: u64) -> u64 {
    let texts = [&mutation.file, &mutation.was, &mutation.becomes];
    let bytes = texts.into_iter().flat_map(|text| text.bytes().chain([0]));
    bytes.fold(seed, |lot, byte| Random::new(lot ^ u64::from(byte)).next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_draws_the_same_from_all_areas() {
        let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let candidates = candidates(&repository).unwrap();
        let (first, again, other) =
            (orders(&candidates, 1, 30), orders(&candidates, 1, 30), orders(&candidates, 2, 30));
        assert!(first == again && first != other);
        for area in AREAS {
            assert_eq!(
                first.iter().filter(|order| area.has(&order[0].file)).count(),
                6,
                "{:?}",
                area.folders
            );
        }
        let drawn: usize = first.iter().map(Vec::len).sum();
        assert_eq!(drawn, candidates.len());
        let kinds: std::collections::BTreeSet<Kind> =
            first.iter().map(|order| order[0].kind).collect();
        assert!(kinds.len() >= 5, "{kinds:?}");
    }

    #[test]
    fn new_code_elsewhere_hardly_changes_the_draw() {
        let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let all = candidates(&repository).unwrap();
        let most: Vec<Mutation> = all
            .iter()
            .enumerate()
            .filter(|(at, _)| at % 20 != 0)
            .map(|(_, one)| one.clone())
            .collect();
        let [first, then] = [&most, &all].map(|from| orders(from, 1, 30));
        let kept =
            first.iter().filter(|&order| then.iter().any(|then| then[0] == order[0])).count();
        assert!(kept >= 25, "{kept} of 30");
    }
}
