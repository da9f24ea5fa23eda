//! The misbehaving programs of `src/bin`, and where programs of this workspace are found.

use std::fs;
use std::path::{Path, PathBuf};

/// A program that this workspace builds: what `variable` names, else the one beside this test's directory.
///
/// # Panics
/// When it is not there, with the command that builds it.
pub fn built(name: &str, package: &str, variable: Option<&str>) -> PathBuf {
    if let Some(named) = variable.and_then(std::env::var_os) {
        let named = PathBuf::from(named);
        assert!(named.is_file(), "there is no {name} at {}", named.display());
        return named;
    }
    let own = std::env::current_exe().expect("the path of the test program");
    // target/<profile>/deps/<test>
    let beside = own.parent().and_then(Path::parent).expect("a target directory").join(name);
    assert!(
        beside.is_file(),
        "there is no {name} at {}: cargo build --locked -p {package} --bin {name}",
        beside.display()
    );
    beside
}

/// Copies a misbehaving program into `directory`, where a sandboxed command sees it, and says how it is called there.
///
/// # Panics
/// When it has not been built, or the directory cannot be written.
pub fn install(name: &str, directory: &Path) -> String {
    let program = built(name, "codespace-testkit", None);
    fs::copy(&program, directory.join(name)).expect("to copy a program into the workspace");
    format!("./{name}")
}
