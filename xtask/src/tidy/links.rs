//! Finds dead links in documents.

use std::path::Path;

/// Returns lines, counted from 1, with links to missing files, and the targets. `path` is the path
/// of the document in the repository.
pub fn dead_links<'text>(
    repository: &Path,
    path: &Path,
    text: &'text str,
) -> Vec<(usize, &'text str)> {
    let folder = repository.join(path.parent().unwrap_or(Path::new("")));
    let lines = text.lines().enumerate();
    let links = lines.flat_map(|(index, line)| targets(line).map(move |link| (index + 1, link)));
    links.filter(|(_, link)| is_dead(&folder, link)).collect()
}

/// Returns the targets of links: the text in parentheses after a link's text.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| rest.split_once(')').map(|(target, _)| target))
}

fn is_dead(folder: &Path, link: &str) -> bool {
    let file = link.split('#').next().unwrap_or(link);
    let is_local = !file.is_empty() && !file.contains("://") && !file.contains(' ');
    is_local && !folder.join(file).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_to_files_that_are_there() {
        let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let dead = |text: &str| dead_links(&repository, Path::new("docs/README.md"), text).len();
        let good = "[a](FORMAT.md) [b](../README.md#more) [c](https://example.org/x) [d](#e)";
        assert_eq!(dead(good), 0);
        assert_eq!(dead("[a](FORMAT.md) [b](NOWHERE.md)"), 1);
    }
}
