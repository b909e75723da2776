//! `schedlab kernel list`: the kernels of the cache, or those of the mirror.

use std::io::{self, Write};
use std::sync::atomic::AtomicBool;

use serde_json::json;

use crate::backend::lab::kernel::{
    self, Available, Cache, CachedName, Entry, Family, Flavour, Identity, Kernel, KernelError,
    Mirror, Origin, Packaged, Reach, Stamp,
};
use crate::model::{Advice, Problem, Reading};
use crate::report::shortened;

use super::kernel_build;
use super::kernel_progress::{MAX_WIDTH, Show, megabytes};
use super::table::Columns;
use super::text_or_json::Format;
use super::{Failure, table, terminal};

/// One kernel of the list, or why it is damaged.
struct Row {
    name: String,
    kernel: Result<(Kernel, Option<Stamp>), KernelError>,
    path: String,
    /// The size of its unpacked image.
    unpacked_bytes: u64,
}

pub fn list(names: &[String], format: Format) -> Result<(), Failure> {
    let rows = if names.is_empty() {
        Cache::open()?.entries()?.iter().map(row).collect()
    } else {
        named_rows(names)?
    };
    if format == Format::Json {
        let kernels: Vec<_> = rows.iter().map(in_json).collect();
        return print_json(&json!({ "schema": 1, "kernels": kernels }));
    }
    if rows.is_empty() {
        let hint = "schedlab kernel get debian:6.1 debian:6.18";
        terminal::message(&Problem::new("no kernel is cached", hint).to_string());
        return Ok(());
    }
    let layout = Columns {
        fixed: &["size", "scheduler", "sched_ext"],
        main: "name",
        spare: &["package", "size", "sched_ext"],
    };
    let shown = rows.iter().map(cells).collect();
    let mut out = io::stdout().lock();
    writeln!(out, "{}", table::rows(&HEADER, shown, &layout, terminal::width()))?;
    for row in &rows {
        let (name, path) = (shortened(&row.name, MAX_WIDTH), shortened(&row.path, MAX_WIDTH));
        match &row.kernel {
            Ok((kernel, _)) => {
                writeln!(out, "{name}: {}, {path}", shortened(&kernel.release, MAX_WIDTH))?;
                if let Origin::Built(built) = &kernel.origin {
                    writeln!(out, "  {}", kernel_build::description(built))?;
                }
            }
            Err(error) => {
                let hint = error.hint().unwrap_or_default();
                let why = damage(error);
                writeln!(out, "{name}: {path}\n  damaged: {why}\n  hint: {hint}")?;
            }
        }
    }
    Ok(())
}

fn row(entry: &Entry) -> Row {
    let kernel = entry.kernel().and_then(|kernel| Ok((kernel, Some(entry.stamp()?))));
    let path = entry.folder.display().to_string();
    let unpacked_bytes = entry.unpacked_bytes();
    Row { name: entry.name(), path, kernel, unpacked_bytes }
}

/// Without the path, which is in the list already.
fn damage(error: &KernelError) -> String {
    match error {
        KernelError::Damaged { why, .. } => why.to_string(),
        other => other.to_string(),
    }
}

fn named_rows(names: &[String]) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    for text in names {
        if let Ok(name) = CachedName::parse(text) {
            let mut entries = Cache::open()?.entries()?;
            entries.retain(|entry| entry.is(&name));
            if !entries.is_empty() {
                rows.extend(entries.iter().map(row));
                continue;
            }
        }
        let kernel = kernel::find(text)?;
        let path = kernel.image.display().to_string();
        let name = kernel.name.clone();
        rows.push(Row { name, kernel: Ok((kernel, None)), path, unpacked_bytes: 0 });
    }
    Ok(rows)
}

const HEADER: [&str; 5] = ["name", "package", "size", "scheduler", "sched_ext"];

/// A cell below each word of [`HEADER`].
fn cells(row: &Row) -> Vec<String> {
    let name = shortened(&row.name, 60);
    let Ok((kernel, stamp)) = &row.kernel else {
        let mut cells = vec![name, "damaged".to_string()];
        cells.resize(HEADER.len(), String::new());
        return cells;
    };
    let package = match (&kernel.hypervisor, &kernel.origin) {
        (Some(hypervisor), _) => &hypervisor.version,
        (None, Origin::Package(package)) => &package.version,
        (None, Origin::Built(_)) => "built",
        (None, Origin::File) => "-",
    };
    let yes_or_no = |yes| if yes { "yes" } else { "no" };
    vec![
        name,
        shortened(package, 60),
        size(row, kernel, stamp.as_ref()).map_or("unknown".to_string(), megabytes),
        kernel.scheduler().known().unwrap_or("unknown").to_string(),
        kernel.sched_ext().map(yes_or_no).known().unwrap_or("unknown").to_string(),
    ]
}

/// All files of a cached kernel; the image of another.
fn size(row: &Row, kernel: &Kernel, stamp: Option<&Stamp>) -> Option<u64> {
    let image = || kernel.image.metadata().ok().map(|metadata| metadata.len());
    stamp.map(|stamp| stamp.size_bytes + row.unpacked_bytes).or_else(image)
}

fn in_json(row: &Row) -> serde_json::Value {
    let (kernel, stamp) = match &row.kernel {
        Ok(whole) => whole,
        Err(error) => {
            return json!({ "name": row.name, "path": row.path, "damaged": damage(error) });
        }
    };
    let known = |reading: Reading<&str>| reading.known().map(str::to_string);
    json!({
        "name": kernel.name,
        "release": kernel.release,
        "version": kernel.version,
        "package": kernel.package().map(|package| &package.name),
        "package_version": kernel.package().map(|package| &package.version),
        "hypervisor": kernel.hypervisor.as_ref().map(|hypervisor| &hypervisor.version),
        "built": match &kernel.origin {
            Origin::Built(built) => json!(built),
            Origin::File | Origin::Package(_) => json!(null),
        },
        "size_bytes": size(row, kernel, stamp.as_ref()),
        "scheduler": known(kernel.scheduler()),
        "sched_ext": kernel.sched_ext().known(),
        "image": kernel.image,
        "config": kernel.config,
        "modules": kernel.modules,
        "digest": kernel.digest,
        "fetched_at": stamp.as_ref().map(|stamp| stamp.origin.at()),
        "path": row.path,
    })
}

pub fn list_available(format: Format) -> Result<(), Failure> {
    let cache = Cache::open()?;
    let mut show = Show::new();
    let never = AtomicBool::new(false);
    let mirror = Mirror::open(cache, Reach::Supported, &never, &mut |step| show.step(&step));
    show.clear();
    let mirror = mirror?;
    let all: Vec<Available> =
        mirror.available().iter().cloned().chain(mirror.hypervisors()?).collect();
    let cached: Vec<Identity> =
        Cache::open()?.entries()?.into_iter().map(|entry| entry.identity).collect();
    let is_cached = |one: &Available| cached.contains(&Identity::Package(one.packaged.clone()));
    if format == Format::Json {
        let available = |one| available_in_json(one, is_cached(one));
        let all: Vec<_> = all.iter().map(available).collect();
        return print_json(&json!({ "schema": 1, "available": all }));
    }
    let row = |one: &Available| {
        let Packaged { name, version, .. } = &one.packaged;
        let cached = if is_cached(one) { "yes" } else { "no" }.to_string();
        vec![name.to_string(), version.clone(), megabytes(one.size_bytes), cached]
    };
    let rows = newest(&all).into_iter().map(row).collect();
    let more = "the newest of each series; -amd64 and -rt are other flavours; older ones with --format json";
    let layout =
        Columns { fixed: &["name", "download"], spare: &["package"], ..Columns::default() };
    let (header, width) = (["name", "package", "download", "cached"], terminal::width());
    let table = table::rows(&header, rows, &layout, width);
    Ok(write!(io::stdout().lock(), "{table}\n{}", table::wrapped(more, width))?)
}

/// The release is that of its kernel, the package its own.
fn available_in_json(one: &Available, is_cached: bool) -> serde_json::Value {
    json!({
        "name": one.packaged.name.to_string(),
        "release": one.release,
        "package": one.package,
        "package_version": one.packaged.version,
        "download_bytes": one.size_bytes,
        "cached": is_cached,
    })
}

/// The newest of each series, without the flavours that few ask for.
fn newest(all: &[Available]) -> Vec<&Available> {
    let key = |one: &Available| {
        let name = &one.packaged.name;
        (name.family(), name.series().to_string())
    };
    let mut newest: Vec<&Available> = Vec::new();
    for available in all {
        if matches!(key(available).0, Family::Kernel(Flavour::Cloud) | Family::Xen) {
            newest.retain(|other| key(other) != key(available));
            newest.push(available);
        }
    }
    newest
}

fn print_json(value: &serde_json::Value) -> Result<(), Failure> {
    Ok(writeln!(io::stdout().lock(), "{value:#}")?)
}
