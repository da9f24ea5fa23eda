//! `man`: the manual pages, made from the definition of the command line. To stdout the one of the whole, into a directory
//! that and one for each verb.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::{Command, CommandFactory as _};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};
use serde::Serialize;

use crate::cli::Cli;
use crate::error::CliError;
use crate::escape::escape;
use crate::exit;
use crate::render::Render;

#[derive(Debug, clap::Args)]
pub(crate) struct ManArgs {
    /// Write the pages of the whole and of each verb into this directory, which is made where it is missing.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// With `--json`: the files, or the page.
#[derive(Serialize)]
#[serde(untagged)]
enum Written<'a> {
    Files { files: &'a [PathBuf] },
    Page { page: &'a str },
}

pub(crate) fn run(args: ManArgs, render: Render) -> Result<u8, CliError> {
    let pages = pages().map_err(|e| CliError::host("write the manual", e))?;
    match args.dir {
        None => {
            let page = pages.first().map(|(_, page)| page.as_str()).unwrap_or_default();
            render.result(&Written::Page { page }, || page.to_owned())?;
        }
        Some(dir) => {
            let files = write(&dir, &pages)?;
            let said = || files.iter().map(|file| format!("{}\n", escape(&file.to_string_lossy()))).collect();
            render.result(&Written::Files { files: &files }, said)?;
        }
    }
    Ok(exit::OK)
}

fn write(dir: &Path, pages: &[(String, String)]) -> Result<Vec<PathBuf>, CliError> {
    let failed = |path: &Path| {
        let what = format!("write {}", path.display());
        move |e| CliError::host(what, e)
    };
    fs::create_dir_all(dir).map_err(failed(dir))?;
    let mut files = Vec::new();
    for (name, page) in pages {
        let file = dir.join(name);
        fs::write(&file, page).map_err(failed(&file))?;
        files.push(file);
    }
    Ok(files)
}

/// File name and text of each page, that of the whole first.
fn pages() -> io::Result<Vec<(String, String)>> {
    let mut whole = Cli::command().disable_help_subcommand(true);
    whole.build();
    let mut pages = vec![("codespace-runner.1".to_owned(), page(&whole)?)];
    for verb in whole.get_subcommands() {
        pages.push((format!("codespace-runner-{}.1", verb.get_name()), page(verb)?));
    }
    Ok(pages)
}

fn page(command: &Command) -> io::Result<String> {
    let page = Man::new(command.clone()).source(concat!("codespace-runner ", env!("CARGO_PKG_VERSION")));
    let mut text = Vec::new();
    page.render_title(&mut text)?;
    page.render_name_section(&mut text)?;
    page.render_synopsis_section(&mut text)?;
    page.render_description_section(&mut text)?;
    page.render_options_section(&mut text)?;
    if command.has_subcommands() {
        page.render_subcommands_section(&mut text)?;
    }
    after_help(command, &mut text)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// The examples and the exit codes. Line by line as they are: filled into paragraphs, no example could be copied.
fn after_help(command: &Command, text: &mut Vec<u8>) -> io::Result<()> {
    let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let mut roff = Roff::new();
    let mut open = false;
    for line in after.lines() {
        if let Some(heading) = line.strip_suffix(':').filter(|line| !line.starts_with(' ')) {
            if open {
                roff.control("fi", []);
            }
            roff.control("SH", [heading.to_uppercase().as_str()]);
            roff.control("nf", []);
            open = true;
        } else if open {
            roff.text([roman(line)]);
        }
    }
    if open {
        roff.control("fi", []);
    }
    roff.to_writer(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_page_of_the_whole_and_one_of_each_verb() {
        let pages = pages().unwrap();
        let cli = Cli::command();
        assert_eq!(pages.len(), 1 + cli.get_subcommands().count());
        let (name, whole) = &pages[0];
        assert_eq!(name, "codespace-runner.1");
        for verb in cli.get_subcommands() {
            // Hyphens are escaped in roff.
            let name = verb.get_name();
            assert!(
                whole.contains(&format!("codespace\\-runner\\-{}(1)", name.replace('-', "\\-"))),
                "{name}: {whole}"
            );
            let (_, page) = pages.iter().find(|(file, _)| *file == format!("codespace-runner-{name}.1")).unwrap();
            assert!(page.contains("EXAMPLES") && page.contains(".SH SYNOPSIS"), "{name}: {page}");
            for flag in verb.get_arguments().filter_map(|arg| arg.get_long()) {
                assert!(page.contains(&flag.replace('-', "\\-")), "{name}: {flag}");
            }
        }
        assert!(whole.contains("EXIT CODES"), "{whole}");
    }

    #[test]
    fn examples_keep_their_lines() {
        let (_, run) = pages().unwrap().into_iter().find(|(name, _)| name == "codespace-runner-run.1").unwrap();
        let examples = run.split_once("EXAMPLES").unwrap().1;
        assert!(
            examples.contains(".nf") && examples.contains("codespace\\-runner run \\-\\-json \\-\\- sh"),
            "{examples}"
        );
        assert!(!run.contains('\u{1b}'));
    }
}
