//! One chart alone: well-formed, with what the analysis says, and nothing active in it.

use super::*;
use crate::report::Options;
use crate::report::testing::{self, HOSTILE, render};

fn picture(analysis: &Analysis) -> String {
    render(&SVG, analysis, Options::default())
}

#[test]
fn it_is_well_formed_and_draws_each_headline_ratio() {
    let analysis = testing::ordinary();
    let text = picture(&analysis);
    let tree = roxmltree::Document::parse(&text).expect("XML");
    let root = tree.root_element();
    assert_eq!(root.tag_name().name(), "svg");
    let is_mark = |node: &roxmltree::Node| {
        node.parent_element().and_then(|of| of.attribute("class")) == Some("marks")
    };
    let dots = tree.descendants().filter(is_mark).filter(|node| {
        node.attribute("class")
            .is_some_and(|class| class.starts_with("dot") || class.starts_with("interval"))
    });
    let shown = analysis.rows_of(crate::analysis::Family::Headline);
    let ratios: Vec<_> = shown
        .flat_map(|(.., row)| (1..row.cells.len()).filter_map(|side| analysis.ratio(row, side)))
        .collect();
    let intervals = ratios.iter().filter(|ratio| ratio.interval.is_some()).count();
    assert_eq!(dots.count(), ratios.len() + intervals, "{text}");
}

#[test]
fn without_a_ratio_it_says_so() {
    for analysis in [testing::nothing(), testing::sides_only()] {
        let text = picture(&analysis);
        assert!(roxmltree::Document::parse(&text).is_ok());
        assert!(text.contains("nothing was measured that can be drawn"));
    }
}

#[test]
fn values_of_a_single_side_are_drawn() {
    let mut analysis = testing::ordinary();
    analysis.sides.truncate(1);
    for set in analysis.works.iter_mut().flat_map(|work| &mut work.sets) {
        set.rows.iter_mut().for_each(|row| row.cells.truncate(1));
    }
    let text = picture(&analysis);
    assert!(roxmltree::Document::parse(&text).is_ok());
    assert!(!text.contains("nothing was measured") && text.contains("throughput"), "{text}");
}

#[test]
fn names_from_outside_are_text() {
    for name in HOSTILE {
        let text = picture(&testing::hostile(name));
        assert!(roxmltree::Document::parse(&text).is_ok(), "{text}");
        assert!(!text.contains("<script") && !text.contains(['\u{1b}', '\0']));
    }
}
