//! Compiles `src/backend/lab/preload/` into `preload.so` of `OUT_DIR`, from where it is embedded in the
//! program. It is a shared library, however the program itself is linked, because the host's QEMU loads it.
//! Input: its files, and `CC` and its like from the environment. The lab runs on x86-64 alone: elsewhere the file is
//! empty.

use std::path::Path;
use std::process::Command;

const FOLDER: &str = "src/backend/lab/preload";
const SOURCES: [&str; 4] = ["clocks.c", "copies.c", "covered.c", "lockstep.c"];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={FOLDER}");
    let folder = std::env::var_os("OUT_DIR").expect("cargo tells OUT_DIR");
    let library = Path::new(&folder).join("preload.so");
    if std::env::var("CARGO_CFG_TARGET_ARCH").as_deref() != Ok("x86_64") {
        std::fs::write(library, "").expect("OUT_DIR is ours to write");
        return;
    }
    let compiler = cc::Build::new()
        .opt_level(2)
        .debug(false)
        .pic(true)
        .warnings(true)
        .extra_warnings(true)
        .get_compiler();
    // If the program is linked statically, the compiler's arguments say so here, too.
    let arguments = compiler.args().iter().filter(|word| *word != "-static");
    let mut command = Command::new(compiler.path());
    command.args(arguments);
    command.args(["-shared", "-o"]).arg(library);
    command.args(SOURCES.map(|source| Path::new(FOLDER).join(source)));
    if let Err(why) = run(&mut command) {
        println!("cargo::error={FOLDER} was not compiled: {why}; hint: sh scripts/need.sh build");
    }
}

fn run(command: &mut Command) -> Result<(), String> {
    let status = command.status().map_err(|why| format!("{command:?}: {why}"))?;
    if status.success() { Ok(()) } else { Err(format!("{command:?}: {status}")) }
}
