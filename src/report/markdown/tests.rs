//! Markdown: the table and the answer.

use insta::assert_snapshot;

use super::*;
use crate::report::testing::{self, render};

#[test]
fn two_variants_of_one_plan() {
    assert_snapshot!(render(&MARKDOWN, &testing::ordinary(), Options::default()));
}

#[test]
fn three_sides_with_all_that_can_be_odd() {
    assert_snapshot!(render(&MARKDOWN, &testing::troubled(), Options::default()));
}
