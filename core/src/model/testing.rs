//! Tables for tests. Pure.

/// The rows of a table: a text, whose lines have ` | ` between them, and all that is expected of it, each behind `=>`. A
/// line that begins with `=>` goes on with the row above it, and one that begins with `# ` is a comment.
pub fn rows(table: &str) -> Vec<(String, Vec<&str>)> {
    let mut rows: Vec<(String, Vec<&str>)> = Vec::new();
    let lines = table.lines().map(str::trim);
    for line in lines.filter(|line| !line.is_empty() && !line.starts_with("# ")) {
        let mut parts = line.split("=>").map(str::trim);
        let text = parts.next().unwrap_or_default();
        if !text.is_empty() {
            rows.push((text.replace(" | ", "\n"), Vec::new()));
        }
        rows.last_mut().expect("a text").1.extend(parts.filter(|part| !part.is_empty()));
    }
    rows
}
