//! No circles of imports between what lies in one folder.
//!
//! Nodes are the files and folders of each folder; `b.rs` next to a folder `b` is a part of it. A file A has an edge
//! to a file B if A's code, tests left out, names an item that is defined in B, by a `use` or by a path, with
//! re-exports followed to the definition. A `pub use` is an edge only if the file uses the name itself, and `mod b;`
//! is not an edge. An item that a macro defines counts as defined in the file of the module that it is named in.
//! An edge connects the two children of the deepest folder that holds both files, so files that are in a circle
//! are found at the folder that holds them all.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{TokenStream, TokenTree};

use super::{Source, assert_none, below_src, code, is_ident, is_punct, is_test, items};

#[test]
fn no_child_of_a_folder_imports_from_itself_through_others() {
    let circles = House::new(&code()).circles();
    let rule = "files or folders import from each other in a circle; move what both need into a third file:";
    assert_none(rule, circles.iter().map(|circle| circle.to_string()).collect());
}

/// Children of one folder that all reach each other.
struct Circle {
    children: BTreeSet<String>,
    /// The two files, and one name that causes the edge.
    edges: Vec<(String, String, String)>,
}

impl std::fmt::Display for Circle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let children: Vec<&str> = self.children.iter().map(String::as_str).collect();
        write!(f, "{}", children.join(", "))?;
        for (from, to, name) in &self.edges {
            write!(f, "\n      {from} -> {to} ({name})")?;
        }
        Ok(())
    }
}

/// Names from the crate's root: `["stats", "fairness"]`.
pub type Path = Vec<String>;

/// One module, in its file or within another.
#[derive(Default)]
pub struct Module {
    file: String,
    /// Items and child modules.
    defined: BTreeSet<String>,
    uses: Vec<Use>,
    /// Tokens outside of `use` declarations: each name, and each path of two names or more.
    names: BTreeSet<String>,
    /// With the line of the first of each.
    paths: BTreeMap<Path, usize>,
}

impl Module {
    /// Each path that it names, and where.
    pub fn named(&self) -> impl Iterator<Item = (&Path, usize)> {
        let uses = self.uses.iter().map(|of| (&of.path, of.line));
        uses.chain(self.paths.iter().map(|(path, line)| (path, *line)))
    }
}

/// One name that a `use` declaration brings; `*` for all.
#[derive(Clone)]
struct Use {
    name: String,
    path: Path,
    is_public: bool,
    line: usize,
}

/// The modules of one file, tests included.
pub fn modules(source: &Source) -> BTreeMap<Path, Module> {
    let mut house = House { modules: BTreeMap::new(), has_tests: true };
    let path = if source.path == "src/main.rs" { Vec::new() } else { module_path(&source.path) };
    house.add(&path, &source.path, &source.tokens, &mut BTreeSet::new());
    house.modules
}

struct House {
    modules: BTreeMap<Path, Module>,
    has_tests: bool,
}

impl House {
    fn new(sources: &[Source]) -> House {
        let mut house = House { modules: BTreeMap::new(), has_tests: false };
        let mut tests = BTreeSet::new();
        for source in sources.iter().filter(|source| source.path != "src/main.rs") {
            let path = module_path(&source.path);
            house.add(&path, &source.path, &source.tokens, &mut tests);
        }
        house.modules.retain(|path, _| !(1..=path.len()).any(|end| tests.contains(&path[..end])));
        house
    }

    fn add(
        &mut self,
        path: &[String],
        file: &str,
        tokens: &TokenStream,
        tests: &mut BTreeSet<Path>,
    ) {
        let mut module = Module { file: file.to_string(), ..Module::default() };
        let siblings: Vec<TokenTree> = tokens.clone().into_iter().collect();
        for item in items(&siblings) {
            let name = defined_name(item);
            let child = || [path, &[name.clone().unwrap_or_default()]].concat();
            let is_module = item.iter().any(|token| is_ident(Some(token), "mod"))
                && !item.iter().any(|token| is_ident(Some(token), "fn"));
            if !self.has_tests && is_test(item) {
                if is_module {
                    tests.insert(child());
                }
                continue;
            }
            let body = match item.last() {
                Some(TokenTree::Group(body)) if is_module => Some(body.stream()),
                _ => None,
            };
            match body {
                Some(body) => self.add(&child(), file, &body, tests),
                // A declaration uses nothing, not even a re-exported name that is the module's.
                None if is_module => {}
                None => collect(item, &mut module),
            }
            module.defined.extend(name);
        }
        self.modules.insert(path.to_vec(), module);
    }

    /// The files from which each file takes something, with one name each.
    fn edges(&self) -> BTreeMap<String, BTreeMap<String, String>> {
        let mut edges: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
        for (at, module) in &self.modules {
            let mut named: Vec<Path> = Vec::new();
            for of in &module.uses {
                let is_used = !of.is_public || module.names.contains(&of.name);
                match of.name.as_str() {
                    "*" => named.extend(
                        module
                            .names
                            .iter()
                            .map(|name| [&of.path[..], std::slice::from_ref(name)].concat()),
                    ),
                    _ if is_used => named.push(of.path.clone()),
                    _ => {}
                }
            }
            named.extend(module.paths.keys().cloned());
            let own = edges.entry(module.file.clone()).or_default();
            for path in named {
                let found = self.definition(at, &path, true, &mut BTreeSet::new());
                if let Some(file) = found.filter(|file| *file != module.file) {
                    own.entry(file).or_insert_with(|| path.join("::"));
                }
            }
        }
        edges
    }

    /// The file that defines what `path` means in the module `at`. `None` for a module itself and for names
    /// outside this crate. `globs`: whether `use a::*` may bring the first name.
    fn definition(
        &self,
        at: &[String],
        path: &[String],
        globs: bool,
        visited: &mut BTreeSet<(Path, Path)>,
    ) -> Option<String> {
        if !visited.insert((at.to_vec(), path.to_vec())) {
            return None;
        }
        let (first, rest) = path.split_first()?;
        match first.as_str() {
            "crate" | "schedlab" => return self.definition(&[], rest, true, visited),
            "self" => return self.definition(at, rest, globs, visited),
            "super" => {
                let parent = &at[..at.len().checked_sub(1)?];
                return self.definition(parent, rest, true, visited);
            }
            _ => {}
        }
        let module = self.modules.get(at)?;
        let child = [at, std::slice::from_ref(first)].concat();
        let is_module = self.modules.contains_key(&child);
        if is_module && !rest.is_empty() {
            return self.in_module(&child, rest, visited);
        }
        if module.defined.contains(first) && !is_module {
            return Some(module.file.clone());
        }
        let of = module.uses.iter().find(|of| of.name == *first);
        if let Some(of) = of {
            let whole = [&of.path[..], rest].concat();
            return self.definition(at, &whole, globs, visited);
        }
        let mut all = module.uses.iter().filter(|of| of.name == "*" && globs);
        all.find_map(|of| {
            let whole = [&of.path[..], path].concat();
            self.definition(at, &whole, false, visited)
        })
    }

    /// Like [`House::definition`]; an unknown name in a known module counts as made by a macro there.
    fn in_module(
        &self,
        at: &[String],
        path: &[String],
        visited: &mut BTreeSet<(Path, Path)>,
    ) -> Option<String> {
        let found = self.definition(at, path, true, visited);
        let child = [at, &path[..1]].concat();
        let is_module = self.modules.contains_key(&child);
        let module = &self.modules[at];
        let is_imported = module.uses.iter().any(|of| of.name == path[0] || of.name == "*");
        let by_macro = || (!is_module && !is_imported).then(|| module.file.clone());
        let special = ["self", "super", "crate"].contains(&path[0].as_str());
        found.or_else(|| if special { None } else { by_macro() })
    }

    /// Modules that have files below their own.
    fn parents(&self) -> BTreeSet<Path> {
        let files = self.modules.values().map(|module| module_path(&module.file));
        files.flat_map(|path| (1..path.len()).map(move |end| path[..end].to_vec())).collect()
    }

    fn circles(&self) -> Vec<Circle> {
        let files = self.edges();
        let files = files.iter().flat_map(|(from, to)| to.iter().map(move |to| (from, to)));
        let parents = self.parents();
        let files: Vec<_> = files
            .map(|(from, (to, name))| {
                (children(&parents, [from, to]), (from.clone(), to.clone(), name.clone()))
            })
            .collect();
        let mut edges: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for ((from, to), _) in &files {
            edges.entry(from).or_default().insert(to);
        }
        let reached: BTreeMap<&str, BTreeSet<&str>> =
            edges.keys().map(|from| (*from, reach(&edges, from))).collect();
        let mut circles: Vec<Circle> = Vec::new();
        for from in edges.keys().copied() {
            if circles.iter().any(|circle| circle.children.contains(from)) {
                continue;
            }
            let back = |to: &&str| reached.get(to).is_some_and(|back| back.contains(from));
            let children: BTreeSet<String> =
                reached[from].iter().copied().filter(back).map(str::to_string).collect();
            if children.len() < 2 {
                continue;
            }
            let own = files.iter().filter(|((from, to), _)| {
                from != to && children.contains(from) && children.contains(to)
            });
            circles.push(Circle { edges: own.map(|(_, edge)| edge.clone()).collect(), children });
        }
        circles
    }
}

/// The two children of the deepest folder that holds both files, such as `a/b` and `a/c.rs`.
fn children(parents: &BTreeSet<Path>, files: [&String; 2]) -> (String, String) {
    let [from, to] = files.map(|file| parts(parents, file));
    let common = from.iter().zip(&to).take_while(|(one, other)| one == other).count();
    (from[..=common].join("/"), to[..=common].join("/"))
}

/// A file's folders and its name, with `b.rs` in the folder `b` if that holds modules.
fn parts(parents: &BTreeSet<Path>, file: &str) -> Vec<String> {
    let mut parts: Vec<String> = below_src(file).split('/').map(str::to_string).collect();
    let own = module_path(file);
    if parents.contains(&own) && !file.ends_with("/mod.rs") {
        parts.insert(parts.len() - 1, own.last().cloned().unwrap_or_default());
    }
    parts
}

/// All children that are reached from one, itself if it is in a circle.
fn reach<'e>(edges: &BTreeMap<&'e str, BTreeSet<&'e str>>, from: &'e str) -> BTreeSet<&'e str> {
    let mut reached = BTreeSet::new();
    let mut open = vec![from];
    while let Some(child) = open.pop() {
        for to in edges.get(child).into_iter().flatten() {
            if reached.insert(*to) {
                open.push(to);
            }
        }
    }
    reached
}

fn module_path(file: &str) -> Path {
    let below = below_src(file).trim_end_matches(".rs");
    let parts = below.split('/').filter(|part| !["mod", "lib"].contains(part));
    parts.map(str::to_string).collect()
}

fn defined_name(item: &[TokenTree]) -> Option<String> {
    const KEYWORDS: [&str; 10] =
        ["struct", "enum", "union", "trait", "type", "fn", "const", "static", "mod", "impl"];
    let keyword = |token: &TokenTree| matches!(token, TokenTree::Ident(ident) if KEYWORDS.contains(&ident.to_string().as_str()));
    let mut idents =
        item.iter().skip_while(|token| !keyword(token)).filter_map(|token| match token {
            TokenTree::Ident(ident) => Some(ident.to_string()),
            _ => None,
        });
    if is_ident(item.iter().find(|token| matches!(token, TokenTree::Ident(_))), "macro_rules") {
        let mut names = item.iter().filter(|token| matches!(token, TokenTree::Ident(_)));
        return names.nth(1).map(TokenTree::to_string);
    }
    let first = idents.next().filter(|keyword| keyword != "impl")?;
    let is_modifier = |word: &String| {
        first == "const" && ["fn", "unsafe", "extern"].contains(&word.as_str())
            || first == "static" && word == "mut"
    };
    idents.find(|word| !is_modifier(word))
}

/// The names, paths and `use` declarations of an item.
fn collect(item: &[TokenTree], module: &mut Module) {
    let mut at = 0;
    while at < item.len() {
        match &item[at] {
            TokenTree::Ident(ident) if ident == "use" => {
                let end = item[at..].iter().position(|token| is_punct(Some(token), ';'));
                let end = end.map_or(item.len(), |length| at + length);
                let is_public = at > 0 && is_public(&item[..at]);
                use_tree(&item[at + 1..end], &[], is_public, &mut module.uses);
                at = end;
            }
            TokenTree::Ident(first) => {
                let mut path = vec![first.to_string()];
                while let [colon, second, TokenTree::Ident(next), ..] = &item[at + 1..]
                    && is_punct(Some(colon), ':')
                    && is_punct(Some(second), ':')
                {
                    path.push(next.to_string());
                    at += 3;
                }
                module.names.insert(path[0].clone());
                if path.len() > 1 {
                    module.paths.entry(path).or_insert(first.span().start().line);
                }
            }
            TokenTree::Group(group) => {
                let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                collect(&inner, module);
            }
            _ => {}
        }
        at += 1;
    }
}

/// Whether `pub` or `pub(...)` are the last tokens.
fn is_public(before: &[TokenTree]) -> bool {
    match before {
        [.., last] if is_ident(Some(last), "pub") => true,
        [.., first, TokenTree::Group(_)] => is_ident(Some(first), "pub"),
        _ => false,
    }
}

fn use_tree(tokens: &[TokenTree], before: &[String], is_public: bool, uses: &mut Vec<Use>) {
    let mut path = before.to_vec();
    let mut name = None;
    for (at, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Ident(ident) if ident == "as" => {
                name = tokens.get(at + 1).map(TokenTree::to_string);
                break;
            }
            TokenTree::Ident(ident) => path.push(ident.to_string()),
            TokenTree::Punct(punct) if punct.as_char() == '*' => name = Some("*".to_string()),
            TokenTree::Group(group) => {
                let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                let branches = inner.split(|token| is_punct(Some(token), ','));
                branches.for_each(|branch| use_tree(branch, &path, is_public, uses));
                return;
            }
            _ => {}
        }
    }
    // `use a::{self}` names the module a.
    if path.len() > 1 && path.last().is_some_and(|last| last == "self") {
        path.pop();
    }
    if let Some(last) = path.last().cloned().filter(|_| path.len() > before.len() || name.is_some())
    {
        let line = tokens.first().map_or(0, |token| token.span().start().line);
        uses.push(Use { name: name.unwrap_or(last), path, is_public, line });
    }
}

fn circles_of(files: &[(&str, &str)]) -> Vec<Vec<String>> {
    let sources: Vec<Source> = files.iter().map(|(path, text)| Source::new(path, text)).collect();
    let circles = House::new(&sources).circles();
    circles.into_iter().map(|circle| circle.children.into_iter().collect()).collect()
}

#[test]
fn circles_are_found_through_re_exports_paths_and_globs() {
    let lib = ("src/lib.rs", "pub mod a;");
    let module = ("src/a/mod.rs", "mod b; mod c; pub use b::B; pub use c::C; pub const X: u8 = 0;");
    let both = [vec!["a/b.rs".to_string(), "a/c.rs".to_string()]];
    let cases: &[(&str, &str, bool)] = &[
        ("use super::C; pub struct B(C);", "pub struct C;", false),
        ("use super::C; pub struct B(C);", "use super::B; pub struct C(B);", true),
        ("use super::C; pub struct B(C);", "pub struct C(crate::a::B);", true),
        ("use crate::a; pub struct B(a::C);", "use crate::a::*; pub struct C(B);", true),
        ("use super::C as D; pub struct B(D);", "use super::b; pub struct C(b::B);", true),
        // A module itself, a name of a parent, and tests are not edges.
        ("use super::C; pub struct B(C);", "use super::b; pub struct C;", false),
        ("use super::{C, X}; pub struct B(C);", "use super::X; pub struct C;", false),
        (
            "use super::C; pub struct B(C);",
            "pub struct C; #[cfg(test)] mod tests { use super::super::B; }",
            false,
        ),
        // An item that a macro defines.
        (
            "use super::c::M; pub struct B(M);",
            "pub struct C; make!(M); fn f() -> super::B {}",
            true,
        ),
    ];
    for (b, c, is_circle) in cases {
        let found = circles_of(&[lib, module, ("src/a/b.rs", b), ("src/a/c.rs", c)]);
        let expected: &[Vec<String>] = if *is_circle { &both } else { &[] };
        assert_eq!(found, expected, "{b} / {c}");
    }
}

#[test]
fn a_parent_that_names_a_child_and_defines_what_the_child_uses_is_a_circle() {
    let child = ("src/a/b.rs", "use super::T; pub struct B; impl T for B {}");
    let lib = ("src/lib.rs", "pub mod a;");
    let re_exports = ("src/a/mod.rs", "mod b; pub use b::B; pub trait T {}");
    assert_eq!(circles_of(&[lib, re_exports, child]), [[""; 0]; 0]);
    let function = ("src/a/b.rs", "use super::T; pub fn b() -> impl T {}");
    let of_one_name = ("src/a/mod.rs", "mod b; pub use b::b; pub trait T {}");
    assert_eq!(circles_of(&[lib, of_one_name, function]), [[""; 0]; 0]);
    let calls_it = ("src/a/mod.rs", "mod b; pub use b::b; pub trait T {} fn f() { b(); }");
    assert_eq!(circles_of(&[lib, calls_it, function]).len(), 1);
    let names = ("src/a/mod.rs", "mod b; pub trait T {} fn all() -> b::B { b::B }");
    assert_eq!(circles_of(&[lib, names, child]), [["a/b.rs", "a/mod.rs"]]);
    let uses_its_re_export = ("src/a/mod.rs", "mod b; pub use b::B; pub trait T {} fn f(b: B) {}");
    assert_eq!(circles_of(&[lib, uses_its_re_export, child]).len(), 1);
    let three = [
        ("src/lib.rs", "mod x; mod y; mod z;"),
        ("src/x.rs", "pub fn f() { crate::y::f() }"),
        ("src/y.rs", "pub fn f() { crate::z::f() }"),
        ("src/z.rs", "pub fn f() { use crate::x::f; f() }"),
    ];
    assert_eq!(circles_of(&three), [["x.rs", "y.rs", "z.rs"]]);
}

#[test]
fn folders_that_import_from_each_other_are_a_circle_though_their_files_are_not() {
    let lib = ("src/lib.rs", "mod a; mod b;");
    let a = ("src/a/mod.rs", "pub mod one; pub mod two;");
    let one = ("src/a/one.rs", "pub fn f() { crate::b::f() }");
    let two = ("src/a/two.rs", "pub fn f() {}");
    let calls_back = "pub fn f() { crate::a::two::f() }";
    // A folder, a file, and a file with a folder of its own.
    assert_eq!(circles_of(&[lib, a, one, two, ("src/b/mod.rs", calls_back)]), [["a", "b"]]);
    assert_eq!(circles_of(&[lib, a, one, two, ("src/b.rs", calls_back)]), [["a", "b.rs"]]);
    let parent = ("src/b.rs", "mod c; pub fn f() {}");
    let child = ("src/b/c.rs", calls_back);
    assert_eq!(circles_of(&[lib, a, one, two, parent, child]), [["a", "b"]]);
    assert_eq!(circles_of(&[lib, a, one, two, ("src/b.rs", "pub fn f() {}")]), [[""; 0]; 0]);
    // Below another folder.
    let deep = [
        ("src/lib.rs", "mod x;"),
        ("src/x/mod.rs", "mod a; mod b;"),
        ("src/x/a/mod.rs", "pub mod one; pub mod two;"),
        ("src/x/a/one.rs", "pub fn f() { crate::x::b::f() }"),
        ("src/x/a/two.rs", "pub fn f() {}"),
        ("src/x/b.rs", "pub fn f() { super::a::two::f() }"),
    ];
    assert_eq!(circles_of(&deep), [["x/a", "x/b.rs"]]);
}
