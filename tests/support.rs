//! What integration tests share: the checkout, and skips that can be heard.

use std::io::Write;
use std::path::Path;

/// The checkout that is under test.
pub fn checkout() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Says that a test does not run here, past the capture of the test harness. `.ci/run`
/// collects these lines and refuses what a package could have mended.
pub fn skip(test: &str, needs: &str) {
    let mut line = std::io::stderr().lock();
    writeln!(line, "skipped: {test} needs {needs}").expect("stderr");
}
