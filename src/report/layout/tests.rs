//! Pages, tables and clean text.

use proptest::prelude::*;

use super::*;

#[test]
fn nothing_that_a_terminal_acts_on_survives() {
    let cases: &[(&str, &str)] = &[
        ("slice-100us", "slice-100us"),
        ("a b µs 漢字", "a b µs 漢字"),
        ("\x1b[31mred\x1b[0m", "\\u{1b}[31mred\\u{1b}[0m"),
        ("\u{9b}2J", "\\u{9b}2J"),
        ("a\nb\tc\r", "a\\nb\\tc\\r"),
        ("\u{202e}evil", "\\u{202e}evil"),
        ("zero\u{200b}width", "zero\\u{200b}width"),
        ("\u{2028}", "\\u{2028}"),
        ("\u{fffe}\u{ffff}", "\\u{fffe}\\u{ffff}"),
        ("e\u{301}", "e\u{301}"),
    ];
    for (text, expected) in cases {
        assert_eq!(clean(text), *expected);
        assert!(!clean(text).chars().any(is_active));
    }
    assert_eq!(shortened("\x1b[2Jlong", 9), "\\u{1b}[2…");
    assert_eq!(shortened("a\x1b[2Jlong", 7), "a…", "no half of an escape");
}

#[test]
fn truncated_text_says_so_and_keeps_wide_characters_whole() {
    let cases: &[(&str, usize, &str)] = &[
        ("abcdef", 6, "abcdef"),
        ("abcdef", 5, "abcd…"),
        ("漢字漢字", 8, "漢字漢字"),
        ("漢字漢字", 7, "漢字漢…"),
        ("漢字漢字", 6, "漢字…"),
        ("abc", 1, "…"),
        ("abc", 0, ""),
    ];
    for (text, columns, expected) in cases {
        assert_eq!(shortened(text, *columns), *expected, "{text} {columns}");
    }
}

#[test]
fn wrapping() {
    let cases: &[(&str, usize, &[&str])] = &[
        ("", 10, &[""]),
        ("one two three", 7, &["one two", "three"]),
        ("one two three", 13, &["one two three"]),
        ("a bcdefghij k", 4, &["a", "bcde", "fghi", "j k"]),
        ("漢字漢字", 5, &["漢字", "漢字"]),
    ];
    for (text, columns, expected) in cases {
        assert_eq!(wrap(text, *columns), *expected, "{text} {columns}");
    }
}

#[test]
fn a_label_stands_before_its_text_and_the_lines_below_are_indented() {
    let mut page = Page::new(&Options { width: 40, ..Options::default() });
    page.wrapped(Tone::Plain, "note  ", "one two three four five six seven eight nine");
    let expected = "note  one two three four five six seven\n      eight nine\n";
    assert_eq!(page.text(), expected);
}

#[test]
fn colors_begin_and_end_on_their_line() {
    let mut page = Page::new(&Options { width: 40, color: true, verbose: 0 });
    page.line(Tone::Bad, "bad");
    page.line(Tone::Plain, "plain");
    page.line(Tone::Bold, "");
    assert_eq!(page.text(), "\x1b[31mbad\x1b[0m\nplain\n\n");
}

#[test]
fn columns_are_as_wide_as_their_widest_cell() {
    let mut table = Table::new(vec![(Align::Left, 0), (Align::Right, 2), (Align::Left, 1)]);
    for row in [["metric", "batch", ""], ["漢字", "+1.5 %", "BETTER"], ["x", "-12.5 %", ""]] {
        table.row(Tone::Plain, row.map(str::to_string).to_vec());
    }
    let lines: Vec<String> = table.lines().into_iter().map(|(_, line)| line).collect();
    assert_eq!(lines, ["metric    batch", "漢字     +1.5 % BETTER", "x       -12.5 %"]);
    assert_eq!(table.width(), 22);
    assert_eq!((Table::new(Vec::new()).lines().len(), Table::default().width()), (0, 0));
}

proptest! {
    #[test]
    fn lines_and_heads_fit(text in "\\PC{0,80}", columns in 2usize..60) {
        let clean = clean(&text);
        prop_assert!(shortened(&clean, columns).width() <= columns);
        for line in wrap(&clean, columns) {
            prop_assert!(line.width() <= columns, "{:?}", line);
        }
    }

    #[test]
    fn a_table_has_a_line_per_row_whatever_its_cells_hold(
        rows in proptest::collection::vec(any::<[String; 3]>(), 0..6),
    ) {
        let mut table = Table::new(vec![(Align::Left, 0), (Align::Right, 2), (Align::Left, 1)]);
        for row in &rows {
            table.row(Tone::Plain, row.iter().map(|cell| clean(cell)).collect());
        }
        let lines = table.lines();
        prop_assert_eq!(lines.len(), rows.len());
        for ((_, line), row) in lines.iter().zip(&rows) {
            for cell in row {
                prop_assert!(line.contains(clean(cell).trim()), "{:?} {:?}", line, cell);
            }
        }
    }

    #[test]
    fn a_broken_command_is_the_same_command(
        words in proptest::collection::vec("[a-z]{1,12}", 1..20),
    ) {
        let command = words.join(" ");
        let lines = command_lines("", 4, &command, 30);
        prop_assert!(lines.iter().all(|line| line.width() <= 30));
        let back = lines.join("\n").replace(" \\\n    ", " ");
        prop_assert_eq!(back, command);
    }
}

#[test]
fn a_command_in_lines_is_one_to_a_shell_and_no_word_of_it_is_cut() {
    let lines = |columns| command("again  ", 7, "schedlab compare 'a  b' plan=c", columns);
    assert_eq!(lines(80), ["again  schedlab compare 'a  b' plan=c"]);
    assert_eq!(lines(25), ["again  schedlab compare \\", "       'a  b' plan=c"]);
    // A word that has room below the label alone.
    let below = command("again     ", 10, "schedlab run plan=20261126-1848", 24);
    assert_eq!(below, ["again", "  schedlab run \\", "  plan=20261126-1848"]);
    // Narrower than a word: as any text.
    let narrow = lines(9);
    assert!(narrow.iter().all(|line| line.width() <= 9 && !line.ends_with('\\')), "{narrow:?}");
}

#[test]
fn commands_break_only_where_a_shell_goes_on() {
    let cases: &[(&str, usize, &[&str])] = &[
        ("schedlab compare a b", 80, &["schedlab compare a b"]),
        ("schedlab compare 'a b' c", 22, &["schedlab compare \\", "    'a b' c"]),
        (
            "x 'a  b' \"c ' d\" e\\ f",
            6,
            &["x \\", "    'a  b' \\", "    \"c ' d\" \\", "    e\\ f"],
        ),
        ("x 'a\\' b", 6, &["x \\", "    'a\\' \\", "    b"]),
        ("", 80, &[]),
    ];
    for (command, columns, expected) in cases {
        assert_eq!(command_lines("", 4, command, *columns), *expected, "{command}");
    }
}
